"""Rules about the settings of the CUDA caching allocator: asked for, understood, in effect."""

from __future__ import annotations

import re
from collections.abc import Mapping

from envkit.allocator import config, options
from envkit.compat import tables
from envkit.compat.tables import Unknown
from envkit.model.facts import Setting
from envkit.model.finding import Evidence, Severity
from envkit.model.observed import NOT_RECORDED, Known, NotApplicable, reason_of, value_of
from envkit.rules.fixes import set_variable, unset_variable
from envkit.rules.memory import did_fail
from envkit.rules.outcome import Fired, Outcome, fix, missing, passed, seen, skipped, undecided
from envkit.rules.rule import Rule
from envkit.rules.subject import Subject, source_of

_NOTES = "https://pytorch.org/docs/stable/notes/cuda.html#memory-management"
OLD, NEW = "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"
#: First release whose CUDA allocator reads PYTORCH_ALLOC_CONF. 2.9 knows the name, yet its CUDA
#: allocator reads the old one only: https://github.com/pytorch/pytorch/issues/183387
_READS_NEW_FROM = (2, 10)


def _asked(subject: Subject) -> tuple[str, ...]:
    return tuple(name for name in (OLD, NEW) if name in subject.variables)


def _series(subject: Subject) -> options.Version | None:
    return subject.torch.release[:2] if subject.torch is not None else None


def _in_effect(subject: Subject) -> tuple[str, str] | None:
    """Name and text of the settings that this torch reads."""
    series = _series(subject)
    if series is None:
        return None
    name = options.variable_in_effect(subject.variables, series)
    return None if name is None else (name, subject.variables[name])


def _no_settings(subject: Subject) -> Outcome | None:
    if subject.cpu_build:
        return skipped(f"{subject.torch_text} is built without CUDA")
    if isinstance(subject.facts.environment.variables, Known) and not _asked(subject):
        return passed("no allocator setting is asked for")
    return None


def _variables(subject: Subject, *names: str) -> tuple[Evidence, ...]:
    source = source_of(subject.facts.environment.variables)
    return tuple(seen(name, subject.variables[name], source) for name in names)


def _torch(subject: Subject) -> Evidence:
    return seen("torch", subject.torch_text, source_of(subject.facts.torch.version))


# -- ALC001 -----------------------------------------------------------------------------------


def _alc001(subject: Subject) -> Outcome:
    series = _series(subject)
    if series is None:
        return undecided("torch.version: it does not read like a version")
    ignored = _ignored_name(subject, series)
    if ignored is not None and not _measured_in_effect(subject):
        return ignored
    in_effect = _in_effect(subject)
    if in_effect is None:
        return passed("no allocator setting is read")
    name, text = in_effect
    effective = value_of(subject.facts.torch.allocator_settings)
    if effective is not None:
        return _compare(subject, name, effective)
    if _expandable_asked(text) and subject.os == "windows":
        return _not_on_windows(subject, name)
    why = reason_of(subject.facts.torch.allocator_settings) or "none are reported"
    return undecided(f"torch.allocator_settings: {why}")


def _not_on_windows(subject: Subject, name: str) -> Fired:
    rule = "compat/data/variables.yaml, options expandable_segments"
    return Fired(
        reason="expandable segments do not exist on Windows",
        evidence=(
            *_variables(subject, name),
            seen("operating system", "Windows", source_of(subject.facts.host.os)),
            seen("rule", "not in Windows builds", rule),
        ),
        fix=fix(f"Leave expandable_segments out of {name} on Windows: torch ignores it."),
    )


def _measured_in_effect(subject: Subject) -> bool:
    settings = value_of(subject.facts.torch.allocator_settings)
    if settings is None or NEW not in subject.variables:
        return False
    wanted = _comparable(subject.variables[NEW])
    return bool(wanted) and all(settings.get(key) == value for key, value in wanted.items())


def _ignored_name(subject: Subject, series: options.Version) -> Fired | None:
    """PYTORCH_ALLOC_CONF where CUDA does not read it, or where the old name wins over it."""
    if NEW not in subject.variables:
        return None
    same = subject.variables.get(OLD) == subject.variables[NEW]
    if series < _READS_NEW_FROM and not same:
        reason = f"torch {series[0]}.{series[1]} reads {OLD} only"
        row = seen("first torch that reads it", "2.10", "docs/reference/allocator-model.md")
        mend = f"Set {OLD}: it works in every release."
        command = set_variable(subject, OLD, subject.variables[NEW])
    elif OLD in subject.variables and not same:
        reason = f"{OLD} is set too and wins as a whole"
        row = seen("rule", "the first name set wins", "docs/reference/allocator-model.md")
        mend, command = f"Set one of the two names; unset {OLD}.", unset_variable(subject, OLD)
    else:
        return None
    return Fired(
        reason=reason,
        evidence=(*_variables(subject, *_asked(subject)), _torch(subject), row),
        fix=fix(mend, command),
    )


def _compare(subject: Subject, name: str, effective: Mapping[str, Setting]) -> Outcome:
    """Compare what the text asks for with what torch says is in effect."""
    asked = _comparable(subject.variables[name])
    differ = {
        key: value for key, value in asked.items() if key in effective and effective[key] != value
    }
    if not differ:
        return passed("torch reports the settings that were asked for")
    where = source_of(subject.facts.torch.allocator_settings)
    return Fired(
        reason=f"{', '.join(sorted(differ))} is not in effect",
        evidence=(
            *_variables(subject, name),
            *(seen(f"{key} in effect", effective[key], where) for key in sorted(differ)),
            _torch(subject),
        ),
        fix=fix("Set the variable before Python starts; see whether this platform has the option."),
    )


def _comparable(text: str) -> dict[str, Setting]:
    """Return what a text asks for as torch reports it; only what is reported one to one."""
    try:
        settings = options.read_settings(text)
    except options.SettingsSyntaxError:
        return {}
    found: dict[str, Setting] = {}
    for setting in settings:
        if setting.name == "expandable_segments" and setting.word in {"True", "False"}:
            found["expandable_segments"] = setting.word == "True"
        if setting.name == "max_split_size_mb" and re.fullmatch(r"[0-9]{1,9}", setting.word):
            found["max_split_size"] = int(setting.word) * 1024 * 1024
        if setting.name == "garbage_collection_threshold" and _is_number(setting.word):
            found["garbage_collection_threshold"] = float(setting.word)
    return found


def _is_number(text: str) -> bool:
    return re.fullmatch(r"[0-9]*\.?[0-9]+", text) is not None


def _expandable_asked(text: str) -> bool:
    return _comparable(text).get("expandable_segments") is True


ALC001 = Rule(
    code="ALC001",
    title="An allocator setting was asked for and is not in effect",
    severity=Severity.WARNING,
    check=_alc001,
    gate=_no_settings,
    reads=("environment.variables", "torch.version"),
    requires=("TOR001", "GPU008", "ALC002"),
    url=_NOTES,
)

# -- ALC002 -----------------------------------------------------------------------------------


def _alc002(subject: Subject) -> Outcome:
    series, in_effect = _series(subject), _in_effect(subject)
    if series is None:
        return undecided("torch.version: it does not read like a version")
    if in_effect is None:
        return passed("no allocator setting is read")
    if isinstance(subject.facts.torch.allocator_settings, Known):
        return passed("torch took the settings: measured")
    name, text = in_effect
    wrong = [one for one in config.problems(text, series) if _is_sure(subject, one)]
    if not wrong:
        if series > options.LAST_VERSION:
            return undecided(f"the options of torch {series[0]}.{series[1]} are not known")
        return passed("this torch knows every option, and takes every value")
    return Fired(
        reason=wrong[0].message,
        evidence=(
            *_variables(subject, name),
            _torch(subject),
            *(seen(one.option or "settings", one.message, _where(one.option)) for one in wrong),
        ),
        fix=fix("Leave out what this torch does not know: it raises when CUDA is first used."),
        severity=None if all(one.kind != "invalid" for one in wrong) else Severity.ERROR,
    )


def _is_sure(subject: Subject, problem: config.Problem) -> bool:
    """Whether torch surely objects: an option newer than the model may be one that it has."""
    if problem.kind in {"syntax", "invalid"} or subject.torch is None:
        return problem.kind != "invalid" or _series_known(subject)
    known = tables.option_known(problem.option, subject.torch.base)
    if isinstance(known, Unknown):
        return _series_known(subject) and not known.newer
    return not known


def _series_known(subject: Subject) -> bool:
    series = _series(subject)
    return series is not None and series <= options.LAST_VERSION


def _where(option: str) -> str:
    row = tables.allocator_option(option)
    if isinstance(row, Unknown):
        return "docs/reference/allocator-model.md"
    return f"compat/data/variables.yaml, options {option}"


ALC002 = Rule(
    code="ALC002",
    title="An allocator setting that this torch refuses",
    severity=Severity.ERROR,
    check=_alc002,
    gate=_no_settings,
    reads=("environment.variables", "torch.version"),
    requires=("TOR001", "GPU008"),
    url=_NOTES,
)

# -- ALC003 -----------------------------------------------------------------------------------

_OLD_KERNEL = (5, 6)


def _alc003(subject: Subject) -> Outcome:
    in_effect = _in_effect(subject)
    reported = (value_of(subject.facts.torch.allocator_settings) or {}).get("expandable_segments")
    asked = reported is True or (in_effect is not None and _expandable_asked(in_effect[1]))
    if not asked or reported is False:
        return passed("expandable segments are not in use")
    series = _series(subject)
    if series is not None and series < (2, 1):
        return skipped("this torch has no expandable segments")
    troubles = [
        one
        for one in subject.self_tests
        if did_fail(subject, one) and re.search(r"CUDA driver error|cuMem|pidfd_getfd", one.reason)
    ]
    jetson, wsl = _is_jetson(subject), subject.os == "wsl"
    kernel = _old_kernel(subject)
    if not troubles and not jetson and not wsl and kernel is None:
        if subject.os is None:
            return missing("host.os", subject.facts.host.os)
        return passed("this platform has what expandable segments need")
    worked = any(one.status == "pass" for one in subject.self_tests) and not troubles
    if worked and kernel is None:
        return passed("CUDA self-tests passed with expandable segments: measured")
    evidence = [*_variables(subject, in_effect[0])] if in_effect is not None else []
    evidence += [seen(f"self-test {one.name}", one.reason, "torch.self_tests") for one in troubles]
    if jetson or wsl:
        platform = "Jetson" if jetson else "WSL2"
        source = "https://github.com/pytorch/pytorch/issues/192330"
        evidence.append(seen("platform", platform, source))
    if kernel is not None:
        source = "pidfd_getfd(2): since Linux 5.6"
        evidence.append(seen("kernel", kernel, source))
    return Fired(
        reason="expandable segments on a platform that cannot have them",
        evidence=tuple(evidence),
        fix=fix(
            "Set expandable_segments:False here. With an old kernel only sharing CUDA tensors "
            "between processes fails.",
            set_variable(subject, in_effect[0] if in_effect else OLD, "expandable_segments:False"),
        ),
        severity=Severity.ERROR if troubles or jetson else Severity.WARNING,
    )


def _is_jetson(subject: Subject) -> bool:
    if value_of(subject.facts.host.jetson):
        return True
    models = [tables.find_gpu(one.name) for one in subject.listed]
    return any(not isinstance(one, Unknown) and one.kind == "jetson" for one in models)


def _old_kernel(subject: Subject) -> str | None:
    text = value_of(subject.facts.host.kernel) or ""
    found = re.match(r"(\d+)\.(\d+)", text)
    if found is None or subject.os == "windows":
        return None
    return text if (int(found[1]), int(found[2])) < _OLD_KERNEL else None


ALC003 = Rule(
    code="ALC003",
    title="Expandable segments on a platform that cannot have them",
    severity=Severity.ERROR,
    check=_alc003,
    gate=_no_settings,
    reads=("environment.variables",),
    requires=("TOR001", "GPU001", "GPU008", "ALC002"),
    varies="warning on WSL2 and on kernels before 5.6 unless a failure was seen",
    url="https://github.com/pytorch/pytorch/issues/192330",
)

# -- ALC004 -----------------------------------------------------------------------------------


def _alc004(subject: Subject) -> Outcome:
    series = _series(subject)
    if series is None:
        return undecided("torch.version: it does not read like a version")
    if OLD not in subject.variables or NEW in subject.variables:
        return passed("the old name is not used, or the new one is set too")
    if series < _READS_NEW_FROM:
        return passed(f"torch {series[0]}.{series[1]} has no other name that works")
    return Fired(
        reason=f"{OLD} is the old name",
        evidence=(
            *_variables(subject, OLD),
            _torch(subject),
            seen("new name", NEW, "compat/data/variables.yaml, variables"),
        ),
        fix=fix(
            f"The old name works. Where every machine has torch 2.10 or newer, set {NEW}.",
        ),
    )


ALC004 = Rule(
    code="ALC004",
    title="The allocator's settings are given under their old name",
    severity=Severity.INFO,
    check=_alc004,
    gate=_no_settings,
    reads=("environment.variables", "torch.version"),
    requires=("TOR001", "GPU008"),
    url=_NOTES,
)

# -- ALC005 -----------------------------------------------------------------------------------


def _not_exercised(subject: Subject) -> Outcome | None:
    """Skip where no fingerprint was asked for: then nobody exercised the allocator."""
    request, conforms = subject.facts.request, subject.facts.torch.allocator_conforms
    asked = not isinstance(request.suite, NotApplicable) and request.suite != NOT_RECORDED
    if asked or conforms != NOT_RECORDED:
        return None
    return skipped("the allocator was not exercised: no fingerprint was asked for")


def _alc005(subject: Subject) -> Outcome:
    fact = subject.facts.torch.allocator_conforms
    if value_of(fact) is not False:
        return (
            passed("the allocator's counters are those of the model")
            if isinstance(fact, Known)
            else skipped("the allocator was not exercised")
        )
    return Fired(
        reason="the allocator does not do what the model of it says",
        evidence=(
            seen("allocator", "other counters or peaks than the model's", source_of(fact)),
            _torch(subject),
        ),
        fix=fix(
            "Figures that the model gives (memory replay, strategies) do not hold here. See what "
            "differs first in the fingerprint (-o FILE); report it with this torch's version."
        ),
    )


ALC005 = Rule(
    code="ALC005",
    title="The allocator does not behave as its model says",
    severity=Severity.WARNING,
    check=_alc005,
    gate=_not_exercised,
    reads=("torch.allocator_conforms",),
    requires=("TOR001", "GPU001", "GPU008"),
    follows=("ALC001",),
    url=_NOTES,
)

RULES = (ALC002, ALC001, ALC003, ALC004, ALC005)

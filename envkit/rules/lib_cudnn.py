"""Rules about cuDNN: is it the one that torch was compiled with, does it support the GPU."""

from __future__ import annotations

from envkit.compat import tables
from envkit.compat.tables import Build, Unknown
from envkit.model.finding import Evidence, Severity
from envkit.model.observed import Known, NotApplicable, Unreadable, reason_of, value_of
from envkit.rules.cite import cite
from envkit.rules.extensions import pins
from envkit.rules.fixes import newest_torch, pip
from envkit.rules.loader import import_evidence, loader_fix, mapped, without_cuda
from envkit.rules.outcome import Fired, Outcome, fix, missing, passed, seen, skipped, undecided
from envkit.rules.requirements import satisfies
from envkit.rules.rule import Rule
from envkit.rules.subject import Subject, source_of

_CUDNN = "https://docs.nvidia.com/deeplearning/cudnn/backend/latest/reference/support-matrix.html"

#: Versions as cuDNN writes them in an integer.
Cudnn = tuple[int, int, int]


def _text(version: Cudnn) -> str:
    return ".".join(str(part) for part in version)


# -- LIB001 -----------------------------------------------------------------------------------


def _lib001(subject: Subject) -> Outcome:
    refusal = _refusal(subject)
    if refusal is not None:
        return _cudnn_finding(subject, (refusal,), "torch refuses its cuDNN")
    fact = subject.facts.torch.cudnn
    if isinstance(fact, (Unreadable, NotApplicable)):
        return missing("torch.cudnn", fact)
    if not isinstance(fact, Known):
        return skipped("no cuDNN is loaded")
    compiled = _compiled(subject)
    if isinstance(compiled, Unknown):
        return undecided(compiled.why)
    try:
        return _compare_cudnn(subject, tables.cudnn_decode(fact.value), *compiled)
    except ValueError as error:
        return undecided(f"torch.cudnn: {error}")


def _refusal(subject: Subject) -> Evidence | None:
    """Show torch's own refusal of its cuDNN, if there was one."""
    words = "cuDNN version incompatibility"
    if words in subject.import_words:
        return import_evidence(subject)
    said = next((one for one in subject.self_tests if words in one.reason), None)
    if said is None:
        return None
    return seen(f"self-test {said.name}", said.reason, "torch.self_tests")


def _compare_cudnn(subject: Subject, loaded: Cudnn, version: Cudnn, source: str) -> Outcome:
    if tables.cudnn_accepted(version, loaded):
        return passed(f"cuDNN {_text(loaded)} serves a torch compiled with {_text(version)}")
    evidence = [
        seen("cuDNN loaded", _text(loaded), source_of(subject.facts.torch.cudnn)),
        seen("cuDNN that torch was compiled with", _text(version), source),
        seen("rule", "same major, and not an older minor", "compat/data/cudnn.yaml, torch_minor"),
    ]
    copies = [one for one in mapped(subject) if one.name.startswith("libcudnn")]
    evidence += [seen("mapped", one.path, "torch.libraries") for one in copies[:3]]
    if subject.library_path:
        evidence.append(seen("LD_LIBRARY_PATH", ":".join(subject.library_path), "environment"))
    reason = f"cuDNN {_text(loaded)} does not serve a torch compiled with {_text(version)}"
    return _cudnn_finding(subject, tuple(evidence), reason)


def _cudnn_finding(subject: Subject, evidence: tuple[Evidence, ...], reason: str) -> Fired:
    package = next((name for name in pins(subject) if name.startswith("nvidia-cudnn")), None)
    mend = loader_fix(subject, "cuDNN")
    if package is not None and package in subject.packages and not subject.library_path:
        wanted = f"{package}{pins(subject)[package].specifier}"
        mend = fix(
            "Install the cuDNN that this torch asks for.",
            pip(subject, "--no-deps", wanted, force=True),
        )
    return Fired(reason=reason, evidence=evidence, fix=mend)


def unaccepted_cudnn(subject: Subject) -> Evidence | None:
    """Show a cuDNN that this torch does not accept, if that is the one loaded."""
    loaded, compiled = value_of(subject.facts.torch.cudnn), _compiled(subject)
    if loaded is None or isinstance(compiled, Unknown):
        return None
    try:
        version = tables.cudnn_decode(loaded)
    except ValueError:
        return None
    if tables.cudnn_accepted(compiled[0], version):
        return None
    what = f"{_text(version)}, and torch was compiled with {_text(compiled[0])}"
    return seen("cuDNN loaded", what, source_of(subject.facts.torch.cudnn))


def _compiled(subject: Subject) -> tuple[Cudnn, str] | Unknown:
    """Return the cuDNN torch was compiled with: as torch says, else as its wheel pins it."""
    fact = subject.facts.torch.cudnn_compiled
    if isinstance(fact, Known):
        try:
            return tables.cudnn_decode(fact.value), fact.source
        except ValueError as error:
            return Unknown(why=f"torch.cudnn_compiled: {error}")
    if subject.torch is None or subject.tag is None or not subject.upstream or subject.conda:
        return Unknown(why=f"torch.cudnn_compiled: {reason_of(fact)}")
    build = tables.build_of(subject.torch.base, subject.tag)
    if not isinstance(build, Build):
        return build
    if build.cudnn is None or "cudnn" in build.unsure:
        return Unknown(why=f"no source gives the cuDNN of torch {subject.torch.base} {build.tag}")
    source = cite("torch", f"releases {subject.torch.base} {build.tag}", build)
    return tables.parse_cudnn(build.cudnn), source


LIB001 = Rule(
    code="LIB001",
    title="The cuDNN loaded does not serve the one that torch was compiled with",
    severity=Severity.ERROR,
    check=_lib001,
    gate=without_cuda,
    requires=("TOR001", "GPU008"),
    follows=("LIB003", "LIB002"),
    url=_CUDNN,
)

# -- LIB009 -----------------------------------------------------------------------------------


def _lib009(subject: Subject) -> Outcome:
    fact = subject.facts.torch.cudnn
    if not isinstance(fact, Known) or subject.cuda_numbers is None:
        return skipped("no cuDNN is loaded")
    if not subject.visible:
        if isinstance(subject.facts.gpus.devices, Unreadable):
            return missing("gpus.devices", subject.facts.gpus.devices)
        return skipped("no GPU is listed")
    try:
        version = tables.cudnn_decode(fact.value)
    except ValueError as error:
        return undecided(f"torch.cudnn: {error}")
    return _support(subject, version, subject.cuda_numbers[0])


def _support(subject: Subject, version: Cudnn, cuda_major: int) -> Outcome:
    doubt = ""
    for device in subject.visible:
        if device.capability is None:
            doubt = f"the compute capability of {device.name} is not known"
            continue
        answer = tables.cudnn_supports(version, device.capability, cuda_major)
        if answer is False:
            return _cudnn_too_new(subject, version, device.name, device.capability)
        if isinstance(answer, Unknown):
            doubt = answer.why
    return undecided(doubt) if doubt else passed(f"cuDNN {_text(version)} supports every GPU here")


def _cudnn_too_new(subject: Subject, version: Cudnn, name: str, capability: str) -> Fired:
    row = tables.capability_row(capability)
    last = row.last_cudnn if not isinstance(row, Unknown) else None
    source = tables.cudnn_row(version)
    where = "compat/data/cudnn.yaml, versions"
    if not isinstance(source, Unknown):
        where = cite("cudnn", f"versions {source.first}", source)
    package = next((one for one in subject.packages if one.startswith("nvidia-cudnn-")), None)
    command = None
    text = "Install a build of torch for this GPU."
    pinned = pins(subject).get(package or "")
    if pinned is not None and not satisfies(subject.packages[pinned.name], pinned.specifier):
        wanted = f"{pinned.name}{pinned.specifier}"
        # Without its dependencies: cuDNN would bring the newest cuBLAS along.
        command = pip(subject, "--no-deps", wanted, force=True)
        text = "Install the cuDNN that this torch asks for."
    elif (advice := newest_torch(subject)) is not None:
        command, text = advice.command, f"Install {advice}."
    return Fired(
        reason=f"cuDNN {_text(version)} does not support {name}",
        evidence=(
            seen("cuDNN loaded", _text(version), source_of(subject.facts.torch.cudnn)),
            seen("GPU", f"{name}, compute capability {capability}", "gpus.devices"),
            seen("last cuDNN for it", last or "an older one", where),
        ),
        fix=fix(text, command),
    )


LIB009 = Rule(
    code="LIB009",
    title="The cuDNN loaded no longer supports this GPU",
    severity=Severity.ERROR,
    check=_lib009,
    gate=without_cuda,
    reads=("torch.cudnn", "torch.cuda"),
    requires=("TOR001", "GPU001", "GPU008"),
    follows=("LIB002", "GPU002"),
    url=_CUDNN,
)

RULES = (LIB001, LIB009)

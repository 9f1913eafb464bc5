"""The state of an environment: its files, what pip did to it, its variables, how it was solved."""

from __future__ import annotations

from envkit.model.facts import FileProblem, Overlap, SpecVariable
from envkit.model.finding import Evidence, Severity
from envkit.model.observed import Absent, Known, value_of
from envkit.rules.agreement import said
from envkit.rules.con_evidence import (
    MOST_LISTED,
    command,
    count,
    count_are,
    get_locked,
    listed,
    lock_source,
    pair_evidence,
    spec_name,
    without_both,
    without_contract,
)
from envkit.rules.fixes import conda, pip, pip_uninstall
from envkit.rules.outcome import Fired, Outcome, fix, missing, passed, seen, skipped
from envkit.rules.rule import Rule
from envkit.rules.subject import Subject, source_of, text_of

_ENVIRONMENTS = (
    "https://docs.conda.io/projects/conda/en/stable/user-guide/tasks/manage-environments.html"
)
_PROBLEMS = {
    "missing": "missing",
    "altered": "altered",
    "not_a_file": "replaced by something that is not a file",
    "leads_outside": "outside of the environment",
}


def _con006(subject: Subject) -> Outcome:
    files = subject.facts.files
    problems = value_of(files.problems) or ()
    if not problems:
        checked, unhashed = value_of(files.checked) or 0, value_of(files.unhashed) or 0
        rest = f"; {unhashed} more are there, and have no hash" if unhashed else ""
        return passed(f"{count(checked, 'file')} as recorded{rest}")
    number = value_of(files.problem_count) or len(problems)
    packages = sorted({one.package for one in problems})
    rest = f"; {number - MOST_LISTED} more files" if number > MOST_LISTED else ""
    return Fired(
        reason=f"{count(number, 'file')} not as recorded",
        evidence=listed(problems, lambda one: _problem(one, source_of(files.problems))),
        fix=fix(
            f"Install {', '.join(packages[:3])}{' ...' if len(packages) > 3 else ''} again, or "  # noqa: PLR2004
            f"make the environment afresh{rest}.",
            _again(subject, problems),
        ),
        title=f"{count_are(number, 'file')} not as installed: "
        f"{problems[0].path}{' ...' if number > 1 else ''}",
    )


def _again(subject: Subject, problems: tuple[FileProblem, ...]) -> str:
    """Return the commands that install packages again, each by what installed it."""
    by_conda = sorted({one.package for one in problems if not one.by_pip})[:8]
    by_pip = sorted({one.package for one in problems if one.by_pip})[:8]
    commands = []
    if by_conda:
        commands.append(conda(subject, "install", "--force-reinstall", *by_conda))
    if by_pip:
        commands.append(pip(subject, "--force-reinstall", "--no-deps", *by_pip))
    return " && ".join(commands)


def _problem(one: FileProblem, source: str) -> Evidence:
    by = f", written over by pip's {one.written_by}" if one.written_by else ""
    whose = f"{one.package}, installed by pip" if one.by_pip else f"package {one.package}"
    return seen(one.path, f"{_PROBLEMS[one.problem]} ({whose}){by}", source)


CON006 = Rule(
    code="CON006",
    title="A file of a package is altered or missing",
    severity=Severity.ERROR,
    check=_con006,
    reads=("files.problems",),
    url="https://docs.conda.io/projects/conda/en/stable/commands/doctor.html",
)


def _con007(subject: Subject) -> Outcome:
    overlaps = value_of(subject.facts.files.overlaps) or ()
    if not overlaps:
        return passed("pip installed nothing over a package of conda")
    names = sorted({one.name for one in overlaps})
    packages = sorted({one.package for one in overlaps})
    source = source_of(subject.facts.files.overlaps)
    again = conda(subject, "install", "--force-reinstall", *packages[:8])
    return Fired(
        reason=f"{', '.join(names[:3])} by pip over conda",
        evidence=listed(overlaps, lambda one: _overlap(one, source)),
        fix=fix(
            "Make the environment afresh; or remove pip's copy and let conda install its own.",
            f"{pip_uninstall(subject, *names[:8])} && {again}",
        ),
        title=f"What pip installed lies over {count(len(packages), 'package')} of conda: "
        f"{', '.join(names[:3])}{' ...' if len(names) > 3 else ''}",  # noqa: PLR2004
    )


def _overlap(one: Overlap, source: str) -> Evidence:
    files = f", {count(one.files, 'file')} in both" if one.files else ""
    return seen(
        f"{one.name} {one.version}",
        f"by pip, over {one.package} {one.package_version} of conda{files}",
        source,
    )


CON007 = Rule(
    code="CON007",
    title="A package that pip installed lies over one of conda",
    severity=Severity.ERROR,
    check=_con007,
    gate=without_both,
    reads=("files.overlaps",),
    url=_ENVIRONMENTS,
)


def _con008(subject: Subject) -> Outcome:
    reasons = value_of(subject.facts.contract.stale) or ()
    if not reasons:
        return passed("the lock is that of the spec")
    source = source_of(subject.facts.contract.stale)
    return Fired(
        reason=reasons[0],
        evidence=listed(reasons, lambda one: seen("spec and lock", one, source)),
        fix=fix(
            "Lock the spec again, and share the new lock.",
            f"envkit lock {text_of(subject.facts.request.spec) or 'SPEC'}",
        ),
        title=f"The lock is not that of {spec_name(subject)}: {reasons[0]}",
    )


CON008 = Rule(
    code="CON008",
    title="The lock is stale for its spec",
    severity=Severity.ERROR,
    check=_con008,
    reads=("contract.stale",),
    url="https://conda.github.io/conda-lock/",
)

_STATES = {
    "missing": "not set",
    "different": "set to something else",
    "on_activation": "set once the environment is activated, and not here",
}


def _con009(subject: Subject) -> Outcome:
    variables = value_of(subject.facts.contract.variables) or ()
    wrong = [one for one in variables if one.state in {"missing", "different"}]
    later = [one for one in variables if one.state == "on_activation"]
    if not wrong and not later:
        return passed("the variables of the spec are in effect" if variables else "it sets none")
    source = source_of(subject.facts.contract.variables)

    def show(one: SpecVariable) -> Evidence:
        return seen(one.name, f"{_STATES[one.state]}; the spec has {one.wanted}", source)

    if not wrong:
        return Fired(
            reason="in effect once the environment is activated",
            evidence=listed(later, show),
            fix=fix(
                "Activate the environment before it is used, and before it is measured.",
                command(subject, "conda", "activate").replace(" -p ", " ", 1),
            ),
            severity=Severity.INFO,
            title="The variables of the spec take effect once the environment is activated",
        )
    settings = [f"{one.name}={one.wanted}" for one in wrong[:8]]
    return Fired(
        reason=f"{count(len(wrong), 'variable')} of the spec not in effect",
        evidence=listed([*wrong, *later], show),
        fix=fix(
            "Set them for the environment and activate it again; look at what else sets them, "
            "such as a shell's start-up file.",
            command(subject, "conda", "env", "config", "vars", "set", after=tuple(settings)),
        ),
        title=f"{count(len(wrong), 'variable')} of {spec_name(subject)} "
        f"{'is' if len(wrong) == 1 else 'are'} not in effect: {wrong[0].name}",
    )


CON009 = Rule(
    code="CON009",
    title="Variables of the spec are not in effect",
    severity=Severity.WARNING,
    check=_con009,
    reads=("contract.variables",),
    varies="info where activating the environment sets them",
    url=_ENVIRONMENTS,
)


def _con010(subject: Subject) -> Outcome:
    agreement = subject.agreement
    meant = {name for name, one in (agreement.locked or {}).items() if one.channel == "defaults"}
    named = value_of(subject.facts.contract.channels) or ()
    if "defaults" in named:
        return skipped("the spec names the channel defaults")
    found = [
        one
        for one in agreement.installed.values()
        if one.channel == "defaults" and one.name not in meant
    ]
    if not found:
        return passed("no package comes from defaults")
    return Fired(
        reason=f"{count(len(found), 'package')} from defaults",
        evidence=listed(found, lambda one: seen(one.name, said(one), "conda-meta")),
        fix=fix(
            "Add `nodefaults` to the channels of the spec, and make the environment afresh: what "
            "defaults has is built apart from conda-forge's packages, and its terms ask larger "
            "organisations for a licence.",
            "conda env create -f SPEC",
        ),
        title=f"{count(len(found), 'package')} from the channel defaults, which was not asked for",
    )


CON010 = Rule(
    code="CON010",
    title="Packages come from the channel defaults",
    severity=Severity.WARNING,
    check=_con010,
    gate=without_both,
    reads=("conda.packages",),
    url="https://docs.conda.io/projects/conda/en/stable/user-guide/configuration/settings.html",
)


def _gate_con011(subject: Subject) -> Outcome | None:
    contract, agreement = subject.facts.contract, subject.agreement
    settled = without_contract(subject)
    if settled is not None:
        return settled
    if agreement.strict:
        return skipped("the environment has to be the lock: CON001 to CON005 compare them")
    if isinstance(contract.packages, Absent):
        return skipped(contract.packages.reason or "the spec has no lock")
    return (
        None
        if isinstance(contract.packages, Known)
        else missing("contract.packages", contract.packages)
    )


def _con011(subject: Subject) -> Outcome:
    agreement = subject.agreement
    if agreement.unmet:
        return skipped("the environment does not satisfy the spec")
    other = {one.name for one in (*agreement.rechanneled, *agreement.rehashed)}
    changed = {one.name for one in agreement.changed}
    pairs = [one for one in agreement.pairs if one.name in other | changed]
    number = len(pairs) + len(agreement.missing) + len(agreement.extra)
    if not number:
        return passed("the environment is the lock")
    source = lock_source(subject)
    evidence = (
        *listed(pairs, lambda one: pair_evidence(subject, one)),
        *listed(agreement.missing, lambda one: seen(one.name, f"{said(one)} locked only", source)),
        *listed(agreement.extra, lambda one: seen(one.name, f"{said(one)} installed only", source)),
    )
    return Fired(
        reason=f"{count(number, 'package')} not as locked",
        evidence=evidence,
        fix=get_locked(subject),
        title=f"Solved afresh, not from the lock: it satisfies {spec_name(subject)}, and "
        f"{count(number, 'package')} differ{'s' if number == 1 else ''} from what was locked",
    )


CON011 = Rule(
    code="CON011",
    title="The environment satisfies the spec, but was solved afresh and is not the lock",
    severity=Severity.WARNING,
    check=_con011,
    gate=_gate_con011,
    reads=("conda.packages",),
    url="https://conda.github.io/conda-lock/",
)


def _con012(subject: Subject) -> Outcome:
    files = subject.facts.files
    foreign = value_of(files.foreign) or ()
    if not foreign:
        return passed("everything in site-packages belongs to a package")
    number = value_of(files.foreign_count) or len(foreign)
    started = [one for one in foreign if one.endswith((".pth", "/sitecustomize.py"))]
    first = (*started, *(one for one in foreign if one not in started))
    at_start = ", run whenever Python starts" if started else ""
    return Fired(
        reason=f"{number} of nobody",
        evidence=listed(first, lambda one: seen("of no package", one, source_of(files.foreign))),
        fix=fix(
            "Find out what put them there; install it as a package, or make the environment "
            "afresh without it."
        ),
        title=f"{number} {'entry' if number == 1 else 'entries'} in site-packages that no package "
        f"lists{at_start}",
    )


CON012 = Rule(
    code="CON012",
    title="Files in site-packages that belong to no package",
    severity=Severity.WARNING,
    check=_con012,
    reads=("files.foreign",),
    url=_ENVIRONMENTS,
)

RULES = (CON006, CON007, CON008, CON009, CON010, CON011, CON012)

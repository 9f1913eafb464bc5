"""The packages of an environment against its lock, or against its spec where that is enough."""

from __future__ import annotations

from collections.abc import Iterator

from envkit.model.conda_channel import channel_name
from envkit.model.finding import Evidence, Severity
from envkit.model.observed import Known, NotApplicable, value_of
from envkit.rules import pip_agreement
from envkit.rules.agreement import GPU_STACK, Unmet, asked, said, weight
from envkit.rules.con_evidence import (
    count,
    count_are,
    get_locked,
    listed,
    lock_source,
    pair_evidence,
    spec_name,
    spec_source,
    without_contract,
    without_strict_lock,
    without_yardstick,
)
from envkit.rules.outcome import Fired, Outcome, fix, missing, passed, seen, skipped, undecided
from envkit.rules.rule import Rule
from envkit.rules.subject import Subject

_LOCK = "https://conda.github.io/conda-lock/"
_SOLVE = "https://docs.conda.io/projects/conda/en/stable/user-guide/tasks/manage-environments.html"
_BY_LOCK = (
    "an error against a lock that was named or that the environment was made from, and where the "
    "spec itself is not met; what is only solved afresh is CON011"
)


def _gate_con001(subject: Subject) -> Outcome | None:
    settled = without_yardstick(subject)
    conda = subject.facts.conda.packages
    if settled is not None or not isinstance(conda, NotApplicable):
        return settled
    return Fired(
        reason="the target is not a conda environment",
        evidence=(seen("conda packages", conda.reason, "conda-meta"),),
        fix=get_locked(subject),
        title=f"The target is not a conda environment, and {_wanted(subject)} is one",
    )


def _wanted(subject: Subject) -> str:
    request = subject.facts.request
    return value_of(request.spec) or value_of(request.lock) or "what was asked for"


def _con001(subject: Subject) -> Outcome:
    agreement = subject.agreement
    if not agreement.strict:
        gone = [one for one in agreement.unmet if one.installed is None]
        evidence = (*_unmet(subject, gone), *_pip_unmet(subject, missing_ones=True))
        return _by_spec(subject, evidence, "is not installed", "has everything that the spec names")
    locked = listed(
        agreement.missing,
        lambda one: seen(one.name, f"{said(one)} locked, not installed", lock_source(subject)),
    )
    pip = listed(
        pip_agreement.missing(subject.facts),
        lambda one: seen(f"{one.name} (pip)", f"{one.version} locked, not installed", "lock, pip"),
    )
    if not locked and not pip:
        return _pip_untold(subject) or passed("every locked package is installed")
    number = len(agreement.missing) + len(pip_agreement.missing(subject.facts))
    return Fired(
        reason=f"{count(number, 'locked package')} not installed",
        evidence=(*locked, *pip),
        fix=get_locked(subject),
        title=f"{count_are(number, 'locked package')} not installed",
    )


CON001 = Rule(
    code="CON001",
    title="A package of the lock, or of the spec, is not installed",
    severity=Severity.ERROR,
    check=_con001,
    gate=_gate_con001,
    reads=("conda.packages",),
    varies=_BY_LOCK,
    url=_LOCK,
)


def _con002(subject: Subject) -> Outcome:
    agreement = subject.agreement
    by_pip = pip_agreement.unlocked(subject.facts)
    number = len(agreement.extra) + len(agreement.twice) + len(by_pip)
    if not number:
        return passed("nothing is installed that is not locked")
    source = lock_source(subject)
    evidence = (
        *listed(agreement.extra, lambda one: seen(one.name, f"{said(one)}, not locked", source)),
        *listed(
            agreement.twice, lambda one: seen(one.name, f"{said(one)}, a second record", source)
        ),
        *listed(
            by_pip,
            lambda one: seen(
                f"{one.name} (pip)", f"{one.version}, not locked", "lock, *.dist-info"
            ),
        ),
    )
    return Fired(
        reason=f"{count(number, 'package')} not locked",
        evidence=evidence,
        fix=fix(
            "Remove what the experiment does not need; or add it to the spec and lock again, so "
            "that everybody has it.",
            "envkit lock SPEC",
        ),
        title=f"{count_are(number, 'package')} installed that the lock does not have",
    )


CON002 = Rule(
    code="CON002",
    title="A package is installed that the lock does not have",
    severity=Severity.ERROR,
    check=_con002,
    gate=without_strict_lock,
    reads=("conda.packages",),
    url=_LOCK,
)


def _con003(subject: Subject) -> Outcome:
    agreement = subject.agreement
    if not agreement.strict:
        wrong = [
            one for one in agreement.unmet if one.installed is not None and not one.by_channel_alone
        ]
        evidence = (*_unmet(subject, wrong), *_pip_unmet(subject, missing_ones=False))
        return _by_spec(subject, evidence, "is not met", "meets every constraint of the spec")
    changed = agreement.changed
    by_pip = pip_agreement.changed(subject.facts)
    if not changed and not by_pip:
        return _pip_untold(subject) or passed("versions and builds are those of the lock")
    number = len(changed) + len(by_pip)
    first = changed[0].name if changed else by_pip[0][0].name
    return Fired(
        reason=f"{count(number, 'package')} in another version or build",
        evidence=(
            *listed(changed, lambda one: pair_evidence(subject, one)),
            *listed(
                by_pip,
                lambda one: seen(
                    f"{one[0].name} (pip)",
                    f"{one[1].version} installed, {one[0].version} locked",
                    "lock, *.dist-info",
                ),
            ),
        ),
        fix=get_locked(subject),
        title=f"{count_are(number, 'package')} not in the locked version or build"
        f"{f', {first} among them' if first in GPU_STACK and number > 1 else ''}",
    )


CON003 = Rule(
    code="CON003",
    title="A package is not in the version or build of the lock, or of the spec",
    severity=Severity.ERROR,
    check=_con003,
    gate=without_contract,
    reads=("conda.packages",),
    varies=_BY_LOCK,
    url=_LOCK,
)


def _con004(subject: Subject) -> Outcome:
    agreement = subject.agreement
    if not agreement.strict:
        return _con004_by_spec(subject)
    if not agreement.rechanneled:
        return passed("packages come from the channels of the lock")
    number = len(agreement.rechanneled)
    return Fired(
        reason=f"{count(number, 'package')} from another channel",
        evidence=listed(
            agreement.rechanneled,
            lambda one: seen(
                one.name,
                f"from {one.installed.channel}, locked from {one.locked.channel}",
                lock_source(subject),
            ),
        ),
        fix=get_locked(subject),
        title=f"{count(number, 'package')} {'comes' if number == 1 else 'come'} from another "
        "channel than the locked one",
    )


def _con004_by_spec(subject: Subject) -> Outcome:
    agreement = subject.agreement
    wrong = [one for one in agreement.unmet if one.by_channel_alone]
    if wrong:
        return _by_spec(subject, _unmet(subject, wrong), "comes from another channel", "")
    named = value_of(subject.facts.contract.channels)
    if not named:
        return skipped("the spec names no channels")
    known = {channel_name(one.rpartition("::")[2]) for one in named} | {"defaults"}
    foreign = sorted(
        (one for one in agreement.installed.values() if channel_name(one.channel) not in known),
        key=lambda one: weight(one.name),
    )
    if not foreign:
        return passed("packages come from the channels of the spec")
    return Fired(
        reason=f"{count(len(foreign), 'package')} from channels that the spec does not name",
        evidence=listed(foreign, lambda one: seen(one.name, said(one), spec_source(subject))),
        fix=fix("Name the channel in the spec, or install these packages from its own channels."),
        severity=Severity.WARNING,
        title=f"{count_are(len(foreign), 'package')} from a channel that "
        f"{spec_name(subject)} does not name",
    )


CON004 = Rule(
    code="CON004",
    title="A package comes from another channel than the locked one",
    severity=Severity.ERROR,
    check=_con004,
    gate=without_contract,
    reads=("conda.packages",),
    varies=f"{_BY_LOCK}; a warning for a channel that the spec does not name",
    url=_SOLVE,
)


def _con005(subject: Subject) -> Outcome:
    agreement = subject.agreement
    if agreement.rehashed:
        number = len(agreement.rehashed)
        return Fired(
            reason=f"{count(number, 'package')} with another hash",
            evidence=listed(
                agreement.rehashed,
                lambda one: seen(
                    one.name,
                    f"{one.installed.sha256 or one.installed.md5} installed, "
                    f"{one.locked.sha256 or one.locked.md5} locked",
                    lock_source(subject),
                ),
            ),
            fix=get_locked(subject),
            title=f"{count_are(number, 'package')} not the locked file: the hash differs",
        )
    bare = agreement.without_hash
    if bare and len(bare) == len(agreement.pairs) - len(agreement.changed):
        return undecided("no package has a hash that the lock has too")
    if bare:
        return passed(f"hashes are those of the lock; {count(len(bare), 'package')} without one")
    return passed("hashes are those of the lock")


CON005 = Rule(
    code="CON005",
    title="A package is another file than the locked one: its hash differs",
    severity=Severity.ERROR,
    check=_con005,
    gate=without_strict_lock,
    reads=("conda.packages",),
    url=_LOCK,
)


def _by_spec(subject: Subject, evidence: tuple[Evidence, ...], what: str, good: str) -> Outcome:
    """Judge by the spec alone: an environment that does not meet it is another one."""
    pip = subject.facts.pip.distributions
    wanted = value_of(subject.facts.contract.requirements)
    if not evidence and wanted and value_of(pip) is None:
        return missing("pip.distributions", pip)
    if not evidence:
        return passed(f"the environment {good}")
    first = evidence[0].what
    more = f" and {len(evidence) - 1} more" if len(evidence) > 1 else ""
    return Fired(
        reason=f"{first} {what}",
        evidence=evidence,
        fix=get_locked(subject),
        title=f"The environment is not {spec_name(subject)}: {first}{more} {what}",
    )


def _unmet(subject: Subject, unmet: list[Unmet]) -> tuple[Evidence, ...]:
    def show(one: Unmet) -> Evidence:
        has = f"{said(one.installed)} installed" if one.installed else "not installed"
        return seen(one.dependency.name, f"{has}, {asked(one.dependency)} asked for", source)

    source = spec_source(subject)
    return listed(sorted(unmet, key=lambda one: weight(one.dependency.name)), show)


def _pip_unmet(subject: Subject, *, missing_ones: bool) -> Iterator[Evidence]:
    for wanted, version in pip_agreement.unmet(subject.facts):
        if (version is None) == missing_ones:
            has = f"{version} installed" if version is not None else "not installed"
            yield seen(
                f"{wanted.name} (pip)",
                f"{has}, {wanted.name}{wanted.version} asked for",
                spec_source(subject),
            )


def _pip_untold(subject: Subject) -> Outcome | None:
    """Settle the pip half of a lock where the distributions could not be read."""
    pip = subject.facts.pip.distributions
    locked = value_of(subject.facts.contract.distributions)
    if locked and not isinstance(pip, Known | NotApplicable):
        return missing("pip.distributions", pip)
    return None


RULES = (CON001, CON002, CON003, CON004, CON005)

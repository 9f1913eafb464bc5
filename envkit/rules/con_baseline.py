"""What was measured here, against reports that were measured elsewhere."""

from __future__ import annotations

from collections.abc import Iterable

from envkit.model.facts import BaselineComparison
from envkit.model.finding import Evidence, Severity
from envkit.model.observed import NOT_RECORDED, value_of
from envkit.rules.outcome import Fired, Outcome, fix, passed, seen, skipped, undecided
from envkit.rules.rule import Rule
from envkit.rules.subject import Subject

_BY_USER = "--against"


def _not_named(subject: Subject) -> Outcome | None:
    """Skip for what was recorded before there was such a comparison: none was asked for."""
    if subject.facts.contract.baselines != NOT_RECORDED:
        return None
    return skipped("no measured report was named")


def _con013(subject: Subject) -> Outcome:
    compared = value_of(subject.facts.contract.baselines) or ()
    if not compared:
        return skipped("no measured report was named")
    different = [one for one in compared if one.status == "different"]
    if different:
        return _fired(subject, different)
    open_ones = [one for one in compared if one.status == "incomplete"]
    if open_ones:
        first = next((one for one in open_ones if one.named_by == _BY_USER), open_ones[0])
        reason = f"{first.name}: {first.headline.rstrip('.')}"
        return undecided(reason, against=first.named_by == _BY_USER)
    return passed(f"as measured in {', '.join(one.name for one in compared)}")


def _fired(subject: Subject, different: list[BaselineComparison]) -> Outcome:
    first = different[0]
    layers = " and ".join(first.differing)
    counts = subject.agreement.strict or any(one.named_by == _BY_USER for one in different)
    return Fired(
        reason=f"it differs from {first.name} in {layers}",
        evidence=tuple(row for one in different for row in _evidence(one)),
        fix=fix(
            "Save this machine's report (-o FILE) and compare both with `envkit diff`: it lists "
            "every difference, and with --confirm it tries here what it names as the cause."
        ),
        severity=Severity.ERROR if counts else Severity.WARNING,
        title=f"What was measured differs from {first.name} in {layers}",
    )


def _evidence(one: BaselineComparison) -> Iterable[Evidence]:
    yield seen(one.name, one.headline, one.named_by)
    for cause in one.causes:
        yield seen("cause", f"{cause.code} {cause.title}", "envkit diff")
    if one.differences:
        yield seen("differs", ", ".join(one.differences), one.name)


CON013 = Rule(
    code="CON013",
    title="What was measured differs from a report that it has to agree with",
    severity=Severity.ERROR,
    varies="a warning for a report that only the spec names, without --strict",
    check=_con013,
    gate=_not_named,
    reads=("contract.baselines",),
    url="https://docs.pytorch.org/docs/stable/notes/randomness.html",
)

RULES = (CON013,)

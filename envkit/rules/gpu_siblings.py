"""The rule about devices that were measured side by side: one that is unlike the others."""

from __future__ import annotations

from envkit.model.facts import Sibling
from envkit.model.finding import Severity
from envkit.model.observed import NOT_RECORDED, Known, Unreadable
from envkit.rules.outcome import Fired, Outcome, fix, missing, passed, seen, skipped, undecided
from envkit.rules.rule import Rule
from envkit.rules.subject import Subject

_PATH = "gpus.siblings"


def _gpu011(subject: Subject) -> Outcome:
    fact = subject.facts.gpus.siblings
    if isinstance(fact, Unreadable) and fact != NOT_RECORDED:
        return undecided(f"{_PATH}: {fact.reason}", against=True)
    if not isinstance(fact, Known):
        return skipped("one device was asked for") if fact == NOT_RECORDED else missing(_PATH, fact)
    odd = [one for one in fact.value if one.outcome == "differs"]
    if odd:
        return _fired(odd, fact.value, fact.source)
    untold = [one for one in fact.value if one.outcome == "incomplete"]
    if untold:
        words = "; ".join(f"{one.place}: {one.reason}" for one in untold)
        return undecided(f"{_PATH}: {words}", against=True)
    if len(fact.value) == 1:
        return passed("there is one device, and nothing to hold it against")
    return passed(f"{len(fact.value)} devices agree")


def _fired(odd: list[Sibling], siblings: tuple[Sibling, ...], source: str) -> Fired:
    pair = len(siblings) == 2 and odd[0].layers != ("self_test",)  # noqa: PLR2004
    text = (
        "Two that differ do not tell which of them is wrong: hold both against a baseline "
        "(--against), or against another machine's report with `envkit diff`."
        if pair
        else "Keep work off this device until it is understood: look at its memory errors and "
        "temperature, exchange it with another slot, and have it replaced if it stays so."
    )
    return Fired(
        reason=f"{', '.join(one.place for one in odd)} behaves unlike the others",
        evidence=tuple(
            seen(f"{one.place} ({one.name})", f"{', '.join(one.layers)}: {one.reason}", source)
            for one in odd
        ),
        fix=fix(
            text,
            "nvidia-smi --query-gpu=index,name,ecc.errors.uncorrected.volatile.total --format=csv",
        ),
    )


GPU011 = Rule(
    code="GPU011",
    title="A GPU, or the device of a rank, behaves unlike its siblings",
    severity=Severity.ERROR,
    check=_gpu011,
    url="https://docs.nvidia.com/deploy/gpu-debug-guidelines/",
)


RULES = (GPU011,)

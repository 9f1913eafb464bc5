"""The four ways in which a rule ends, and the short forms with which rules say so."""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from envkit.model.finding import Evidence, Fix, Severity
from envkit.model.observed import NotApplicable, Observed, reason_of


class Passed(msgspec.Struct, frozen=True, kw_only=True):
    """Nothing is wrong, and why that can be said."""

    reason: str


class Skipped(msgspec.Struct, frozen=True, kw_only=True):
    """The question has no meaning here."""

    reason: str


class Undecided(msgspec.Struct, frozen=True, kw_only=True):
    """What would decide it is not known."""

    reason: str
    against: bool = False
    """A known fact speaks against the machine and only what would excuse it is not known, or the
    user asked for this very answer: then the verdict stays open."""


class Fired(msgspec.Struct, frozen=True, kw_only=True):
    """Something was found."""

    reason: str
    """One short sentence for the list of checks."""
    evidence: tuple[Evidence, ...]
    fix: Fix
    severity: Severity | None = None
    """Where it depends on the evidence; None: the rule's own."""
    title: str | None = None
    """Where the general title would be vague; None: the rule's own."""


Outcome: TypeAlias = Passed | Skipped | Undecided | Fired


def passed(reason: str) -> Passed:
    """Say that nothing is wrong."""
    return Passed(reason=reason)


def skipped(reason: str) -> Skipped:
    """Say that the question has no meaning here."""
    return Skipped(reason=reason)


def undecided(reason: str, *, against: bool = False) -> Undecided:
    """Say what is missing for an answer, and whether what is known speaks against the machine."""
    return Undecided(reason=reason, against=against)


def missing(path: str, fact: Observed[Any]) -> Undecided | Skipped:
    """Say that a fact is missing for an answer, or that asking for it has no meaning here.

    Args:
        path: `family.name` of the fact.
        fact: its state; not a known one.

    """
    reason = f"{path}: {reason_of(fact)}"
    if isinstance(fact, NotApplicable):
        return Skipped(reason=reason)
    return Undecided(reason=reason)


def seen(what: str, value: object, source: str) -> Evidence:
    """Return one piece of evidence; `source` is never empty."""
    return Evidence(what=what, seen=str(value), source=source or "recorded")


def fix(text: str, command: str | None = None) -> Fix:
    """Return what to do."""
    return Fix(text=text, command=command)

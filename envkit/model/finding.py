"""What a rule concludes: a finding when it fires, a check in every case."""

from __future__ import annotations

import enum

import msgspec


class Severity(enum.Enum):
    """How much a finding weighs: only errors fail a verdict."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


class Status(enum.Enum):
    """How a rule ended."""

    PASS = "pass"  # noqa: S105  (not a password)
    FAIL = "fail"
    SKIP = "skip"
    """A prerequisite did not pass, or the question has no meaning here."""
    UNKNOWN = "unknown"
    """A fact that the rule needs could not be read."""


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was seen."""

    what: str
    seen: str
    source: str
    """Where it was read, or the table row and its source for a threshold."""


class Fix(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What to do about it, in the target's own terms."""

    text: str
    command: str | None = None


class Finding(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A rule that fired."""

    code: str
    severity: Severity
    title: str
    evidence: tuple[Evidence, ...]
    fix: Fix
    url: str
    """Page of the rule, or of the source it rests on."""
    caused_by: str | None = None
    """Code of the finding that this one follows from."""


class Check(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How one rule ended, fired or not."""

    code: str
    status: Status
    reason: str
    against: bool = False
    """Unknown, and yet a known fact speaks against the machine."""

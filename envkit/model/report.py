"""`envkit.report/1`: one machine and one target environment, what was read and what follows."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from envkit.model.facts import Facts
from envkit.model.finding import Check, Finding
from envkit.model.fingerprint import Fingerprint


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """The environment that is judged, and why this one."""

    kind: Literal["conda", "venv", "python", "prefix", "recorded"]
    prefix: str | None
    python: str | None
    """The interpreter; null for a bare prefix or a recorded machine."""
    chosen_by: str
    """The option, variable or default that chose it."""


#: In every reason that a time limit is the cause of (the child's own reasons say it too).
OUT_OF_TIME: Final = "ran out of time"


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The answer, before `--exit-zero`."""

    status: Literal["pass", "fail", "incomplete"]
    exit_code: int
    headline: str


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What `envkit verify` writes."""

    schema: Literal["envkit.report/1"] = "envkit.report/1"
    envkit_version: str
    created: str
    """UTC, RFC 3339."""
    label: str | None
    target: Target
    facts: Facts
    findings: tuple[Finding, ...]
    checks: tuple[Check, ...]
    fingerprint: Fingerprint | None
    verdict: Verdict

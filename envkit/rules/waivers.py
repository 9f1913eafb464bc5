"""Findings that somebody has decided to live with: a code, a reason, and a last day."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable

import msgspec

from envkit.model.finding import Evidence, Finding, Severity
from envkit.rules.engine import order


class Waiver(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One decision."""

    code: str
    reason: str
    last_day: dt.date
    """The last day on which it holds."""


class Waived(msgspec.Struct, frozen=True, kw_only=True):
    """What waivers made of the findings."""

    findings: tuple[Finding, ...]
    """All of them: a waived one has become information and says why."""
    expired: tuple[Waiver, ...]
    """Waivers whose last day is over and whose finding is still there."""
    unused: tuple[Waiver, ...]
    """Waivers for which nothing fired."""


def apply_waivers(
    findings: Iterable[Finding], waivers: Iterable[Waiver], *, today: dt.date, source: str
) -> Waived:
    """Turn waived findings into information; an expired waiver says so and changes nothing else.

    Args:
        findings: of the rules.
        waivers: of the configuration; of several for one code the one that lasts longest counts.
        today: the day to judge by; rules have no clock.
        source: where the waivers were read.

    """
    found = tuple(findings)
    by_code: dict[str, Waiver] = {}
    for waiver in sorted(waivers, key=lambda one: one.last_day):
        by_code[waiver.code] = waiver
    codes = {finding.code for finding in found}
    return Waived(
        findings=order(_apply(one, by_code.get(one.code), today, source) for one in found),
        expired=tuple(
            one for one in by_code.values() if one.code in codes and today > one.last_day
        ),
        unused=tuple(one for one in by_code.values() if one.code not in codes),
    )


def _apply(finding: Finding, waiver: Waiver | None, today: dt.date, source: str) -> Finding:
    if waiver is None:
        return finding
    day = waiver.last_day.isoformat()
    if today > waiver.last_day:
        said = f"expired on {day}, so it no longer holds: {waiver.reason}"
        return _with(finding, said, source, finding.severity)
    said = f"{finding.severity.value} waived up to {day}: {waiver.reason}"
    return _with(finding, said, source, Severity.INFO)


def _with(finding: Finding, said: str, source: str, severity: Severity) -> Finding:
    note = Evidence(what="waiver", seen=said, source=source)
    return msgspec.structs.replace(finding, severity=severity, evidence=(*finding.evidence, note))

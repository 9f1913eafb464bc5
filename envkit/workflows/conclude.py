"""The last step of every way to a report: judge the facts, heed the waivers, give a verdict."""

from __future__ import annotations

import datetime as dt

import msgspec

from envkit import __version__
from envkit.model.facts import Facts, Waiver
from envkit.model.finding import Evidence, Finding, Severity
from envkit.model.fingerprint import Fingerprint
from envkit.model.observed import value_of
from envkit.model.report import Report, Target
from envkit.rules.engine import judge, order
from envkit.rules.verdict import decide


def conclude(
    facts: Facts,
    *,
    target: Target,
    created: str,
    label: str | None,
    fingerprint: Fingerprint | None,
) -> Report:
    """Return the report of facts: the same facts and request always give the same verdict.

    Args:
        facts: what was read, redacted already, with the request among them.
        target: what they are about.
        created: when they were read, UTC in RFC 3339; waivers are judged by that day.
        label: name of the machine.
        fingerprint: what was measured, None if nothing was.

    """
    judgement = judge(facts)
    waivers = value_of(facts.request.waivers) or ()
    findings = order(_waived(finding, waivers, created[:10]) for finding in judgement.findings)
    return Report(
        envkit_version=__version__,
        created=created,
        label=label,
        target=target,
        facts=facts,
        findings=findings,
        checks=judgement.checks,
        fingerprint=fingerprint,
        verdict=decide(facts, findings, judgement.checks, fingerprint),
    )


def now() -> str:
    """Return this second in UTC as RFC 3339."""
    return dt.datetime.now(tz=dt.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def _waived(finding: Finding, waivers: tuple[Waiver, ...], day: str) -> Finding:
    """Turn a waived finding into a note that says so; an expired waiver is only mentioned."""
    waiver = next((one for one in waivers if one.code == finding.code), None)
    if waiver is None:
        return finding
    holds = day <= waiver.until
    evidence = Evidence(
        what="waived" if holds else "waiver expired",
        seen=f"{waiver.reason} (until {waiver.until})",
        source="configuration",
    )
    return msgspec.structs.replace(
        finding,
        severity=Severity.INFO if holds else finding.severity,
        evidence=(*finding.evidence, evidence),
    )

"""The last step of every way to a report: judge the facts, heed the waivers, give a verdict.

Everything it goes by is in the facts, the fingerprint and the date, all of which the report keeps:
a saved report, judged again, gives the verdict that it gave when it was made.
"""

from __future__ import annotations

import datetime as dt
import re

from envkit import __version__
from envkit.model.facts import Facts, RequestFacts
from envkit.model.fingerprint import LAYERS, Fingerprint, ProbeResult
from envkit.model.observed import NOT_RECORDED, Known, Unreadable, value_of
from envkit.model.report import Report, Target
from envkit.rules.engine import judge
from envkit.rules.verdict import FailOn, Probes, decide
from envkit.rules.waivers import Waiver, apply_waivers

#: Probes of a step of the user's own are called so (`verify --call`).
_STEP = "call."
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


def conclude(
    facts: Facts,
    *,
    target: Target,
    created: str,
    label: str | None,
    fingerprint: Fingerprint | None,
) -> Report:
    """Return the report of facts.

    Args:
        facts: what was read, redacted already, with the request among them.
        target: what they are about.
        created: when they were read, UTC in RFC 3339; waivers are judged by that day.
        label: name of the machine.
        fingerprint: what was measured, None if nothing was.

    """
    judgement = judge(facts)
    waived = apply_waivers(
        judgement.findings,
        _waivers(facts.request),
        today=_day(created) or dt.date.max,
        source=facts.request.waivers.source or "configuration",
    )
    verdict = decide(
        facts,
        waived.findings,
        judgement.checks,
        probes=how_probes_went(facts.request, fingerprint),
        fail_on=FailOn[(value_of(facts.request.fail_on) or "error").upper()],
    )
    return Report(
        envkit_version=__version__,
        created=created,
        label=label,
        target=target,
        facts=facts,
        findings=waived.findings,
        checks=judgement.checks,
        fingerprint=fingerprint,
        verdict=verdict,
    )


def now() -> str:
    """Return this second in UTC as RFC 3339."""
    return dt.datetime.now(tz=dt.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def how_probes_went(request: RequestFacts, fingerprint: Fingerprint | None) -> Probes:
    """Say whether the fingerprint that was asked for is there and whole."""
    suite = request.suite
    if fingerprint is None:
        asked = isinstance(suite, Known) or (
            isinstance(suite, Unreadable) and suite != NOT_RECORDED
        )
        if not asked:
            return Probes()
        reason = suite.reason if isinstance(suite, Unreadable) else "the probes gave nothing"
        return Probes(outcome="incomplete", reason=reason)
    on_gpu = fingerprint.key.capability is not None
    missing = what_is_missing(fingerprint)
    if missing:
        return Probes(outcome="incomplete", reason=missing, on_gpu=on_gpu)
    return Probes(outcome="complete", on_gpu=on_gpu)


def what_is_missing(fingerprint: Fingerprint) -> str:
    """Say which probes gave no answer that should have; empty where none is missing."""
    probes: dict[str, ProbeResult] = {}
    for layer in LAYERS:
        for name, probe in getattr(fingerprint.layers, layer).items():
            probes[f"{layer} {name}"] = probe
    # Not those that were not run: that this torch or this device has nothing to run is no fault.
    failed = {name: one for name, one in probes.items() if one.status == "failed"}
    if failed:
        name, first = next(iter(failed.items()))
        because = f": {first.reason}" if first.reason else ""
        if all(f" {_STEP}" in one for one in failed):
            step = name.partition(_STEP)[2].rpartition(".")[0]
            return f"your step {step} could not be measured{because}"
        return f"{len(failed)} of {len(probes)} probes failed, first {name}{because}"
    ran = any(one.status != "not_run" and not one.modelled for one in probes.values())
    return "" if ran else "no probe could be run"


def _waivers(request: RequestFacts) -> list[Waiver]:
    dated = ((one, _day(one.until)) for one in value_of(request.waivers) or ())
    return [
        Waiver(code=one.code, reason=one.reason, last_day=day)
        for one, day in dated
        if day is not None  # a recorded one that is no date waives nothing
    ]


def _day(text: str) -> dt.date | None:
    try:
        return dt.date.fromisoformat(text[:10]) if _DAY.match(text) else None
    except ValueError:
        return None

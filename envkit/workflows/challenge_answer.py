"""Whether a fingerprint answers a challenge: what the number seeds has to be in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from envkit.model.fingerprint import Fingerprint
from envkit.probes.child.challenge import seed_from
from envkit.probes.child.exercises.catalogue import random_trace
from envkit.probes.child.exercises.operations import describe

#: The probe whose operations are known from the challenge alone.
SEEDED: Final = "exercises.random_trace"


def why_unanswered(fingerprint: Fingerprint | None, nonce: str) -> str:
    """Say why a fingerprint does not answer a challenge; empty when it does.

    That it names the number proves nothing: an old report could be made to. The operations of the
    random trace follow from the number, so they have to be there, with what they gave.
    """
    if fingerprint is None:
        return "it has no fingerprint, so it answers no challenge"
    if fingerprint.challenge is None:
        return "it was made without a challenge"
    if fingerprint.challenge != nonce:
        return f"it answers another challenge, {fingerprint.challenge}"
    result = fingerprint.layers.allocator.get(SEEDED)
    if result is None or result.status != "exact" or result.values is None:
        return f"the probe that shows it, {SEEDED}, gave no value"
    asked = [describe(operation) for operation in random_trace(seed_from(nonce))]
    if _operations(result.values.get("steps")) != asked:
        return f"it names the challenge, but {SEEDED} was not seeded with it"
    return ""


def _operations(steps: Any) -> Sequence[Any]:
    rows = steps if isinstance(steps, list) else []
    return [row.get("op") if isinstance(row, dict) else None for row in rows]

"""Proof without a GPU that allocator settings make a difference: both replayed in the model.

The exercises of a fingerprint say which operations were carried out and which counters each one
moved. The model, given the same operations under each side's settings, must give each side's
counters; then nothing but the settings is needed to explain the difference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from envkit.allocator import MODEL_VERSION, ConfigError
from envkit.allocator.fingerprinted import carry_out, model_of, total_bytes
from envkit.compare.contrast import Contrast
from envkit.compare.fingerprints import is_walk
from envkit.model.finding import Evidence
from envkit.model.fingerprint import Fingerprint


class Proof(msgspec.Struct, frozen=True, kw_only=True):
    """How the model's answers compare with what both sides measured."""

    exercises: int
    """Exercises that differ between the two sides."""
    explained: int
    """Of these, those in which the model gives each side's counters under its settings."""
    first_unlike: str = ""


def prove(contrast: Contrast) -> Evidence | None:
    """Replay the exercises that differ under both settings; None where that cannot be done."""
    one, other = contrast.one.fingerprint, contrast.other.fingerprint
    if one is None or other is None:
        return None
    names = [d.key for d in contrast.differences("allocator") if d.key in one.layers.allocator]
    if not names:
        return None
    try:
        proof = _prove(one, other, names)
    except (ConfigError, ValueError) as error:
        seen = f"not possible: {error}"
        return Evidence(what="replay in the model", seen=seen, source="envkit.allocator")
    return Evidence(
        what="replay in the model",
        seen=_said(proof),
        source=f"envkit.allocator, model version {MODEL_VERSION}",
    )


def _prove(one: Fingerprint, other: Fingerprint, names: Sequence[str]) -> Proof:
    explained, unlike = 0, ""
    for name in names:
        fault = _unlike(one, name) or _unlike(other, name)
        explained += not fault
        unlike = unlike or fault
    return Proof(exercises=len(names), explained=explained, first_unlike=unlike)


def _said(proof: Proof) -> str:
    if proof.explained == proof.exercises:
        return (
            f"proved: under each side's settings the model gives that side's counters, in all "
            f"{proof.exercises} exercises that differ"
        )
    return (
        f"in {proof.explained} of {proof.exercises} exercises that differ the model gives each "
        f"side's counters under its settings; not in {proof.first_unlike}"
    )


def _unlike(fingerprint: Fingerprint, name: str) -> str:
    """Name the first operation in which the model does not give what was measured."""
    result = fingerprint.layers.allocator.get(name)
    values = result.values if result is not None else None
    if values is None or not is_walk(values):
        return f"{name}: it has no operations with counters"
    steps = values["steps"]
    model = model_of(fingerprint)
    held: dict[int, int] = {}
    last: Mapping[str, int] = {}
    for number, step in enumerate(steps, 1):
        carry_out(step["op"], model, held, total_bytes(fingerprint))
        now = model.memory_stats()
        for counter, value in step["counters"].items():
            if now.get(counter) != value:
                return f"{name} at operation {number}, {step['op']}: {counter}"
        last = now
    return "" if last else f"{name}: no operation is recorded"

"""Devices that were measured side by side, held against each other: who is unlike the others.

Of one model every layer must agree but the context, which a neighbour's memory moves; across models
what torch itself asks for must (`compare.gate.ACROSS_MODELS`). The majority of a model is what its
devices are compared with, so that one bad card is named and not the good ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

import msgspec

from envkit.compare.compare import compare
from envkit.compare.gate import ACROSS_MODELS
from envkit.compare.groups import group_fingerprints
from envkit.compare.sides import Side
from envkit.model.documents import Difference
from envkit.model.facts import Sibling
from envkit.model.fingerprint import LAYERS, Fingerprint, Layers
from envkit.workflows.conclude import what_is_missing

WITHIN_MODEL: Final = tuple(layer for layer in LAYERS if layer != "context")
#: Families that span all devices: they are measured once, and are no property of any one of them.
_SPREAD: Final = ("collectives.", "sharded.")
#: What makes two devices siblings: name, compute capability, number of multiprocessors.
_Model: TypeAlias = tuple[str, str | None, int | None]


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """One device and what was measured on it."""

    place: str
    """`cuda:1` or `rank 1`."""
    name: str = ""
    fingerprint: Fingerprint | None = None
    problem: str = ""
    """Why there is no fingerprint."""
    wrong: str = ""
    """A self-test that gave a wrong answer."""


def compare_members(members: Sequence[Member]) -> tuple[Sibling, ...]:
    """Compare each device with those of its model, and the models with each other."""
    members = [_alone(one) for one in members]
    references = _references(members)
    first = next(iter(references.values()), None)
    return tuple(_sibling(one, references, first) for one in members)


def _alone(one: Member) -> Member:
    """Return a member without what its fingerprint says of all devices together."""
    if one.fingerprint is None:
        return one
    found = one.fingerprint
    layers = {
        layer: {
            name: probe
            for name, probe in getattr(found.layers, layer).items()
            if not name.startswith(_SPREAD)
        }
        for layer in LAYERS
    }
    alone = msgspec.structs.replace(found, layers=Layers(**layers))
    return msgspec.structs.replace(one, fingerprint=alone)


def _references(members: Sequence[Member]) -> dict[_Model, Member]:
    """Return for each model one device of the largest group that agrees."""
    models: dict[_Model, list[Member]] = {}
    for one in members:
        if one.fingerprint is not None and not one.wrong:
            models.setdefault(_model(one.fingerprint), []).append(one)
    return {
        model: alike[group_fingerprints(one.fingerprint for one in alike)[0].members[0]]
        for model, alike in models.items()
    }


def _model(fingerprint: Fingerprint) -> _Model:
    return fingerprint.device, fingerprint.key.capability, fingerprint.key.sm_count


def _sibling(one: Member, references: dict[_Model, Member], first: Member | None) -> Sibling:
    found = one.fingerprint
    said = Sibling(place=one.place, name=one.name, outcome="agrees")
    if one.wrong:
        return _with(said, outcome="differs", layers=("self_test",), reason=one.wrong)
    if found is None:
        return _with(said, outcome="incomplete", reason=one.problem or "nothing was measured")
    said = _with(said, name=one.name or found.device, mem=found.short.mem, num=found.short.num)
    missing = what_is_missing(found)
    if missing:
        return _with(said, outcome="incomplete", reason=missing)
    reference = references[_model(found)]
    if reference is not one:
        return _compared(said, one, reference, WITHIN_MODEL)
    if first is not None and first is not one:
        return _compared(said, one, first, ACROSS_MODELS)
    return said


def _compared(said: Sibling, one: Member, other: Member, required: Sequence[str]) -> Sibling:
    required = [layer for layer in required if _has(one, layer) or _has(other, layer)]
    sides = [
        Side(label=member.place, kind="fingerprint", path="", fingerprint=member.fingerprint)
        for member in (other, one)
    ]
    document = compare(sides, required).document
    status = document.verdict.status
    if status == "same":
        return said
    layers = tuple(name for name in required if document.agreement[name] == "different")
    if status == "different":
        reason = f"unlike {other.place}: {_first(document.differences, layers)}"
        return _with(said, outcome="differs", layers=layers, reason=reason)
    reason = f"it cannot be compared with {other.place}: {document.verdict.headline}"
    return _with(said, outcome="incomplete", reason=reason)


def _has(one: Member, layer: str) -> bool:
    return one.fingerprint is not None and bool(getattr(one.fingerprint.layers, layer))


def _first(differences: Sequence[Difference], layers: Sequence[str]) -> str:
    keys = [f"{one.layer} {one.key}" for one in differences if one.layer in layers]
    more = f" and {len(keys) - 1} more" if len(keys) > 1 else ""
    return f"{keys[0] if keys else ', '.join(layers)}{more}"


def _with(sibling: Sibling, **changes: object) -> Sibling:
    return msgspec.structs.replace(sibling, **changes)

"""Many machines in groups: who agrees with whom, who is the majority, what sets others apart.

Linear in the number of machines: each is reduced to a signature, and equal signatures are a group.
Machines of different hardware are held against each other over what hardware cannot move: else a
team with four models would always be four groups, and its outlier none of them.
A machine that could not measure something is not put with others: it is alone, and said to be.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from envkit.compare.comparability import MOVED_BY_HARDWARE
from envkit.compare.fingerprints import counts
from envkit.model.fingerprint import DIGEST_LAYERS, Fingerprint, ProbeResult

#: Layers whose values machines are grouped by: peaks and context have tolerances, and a tolerance
#: makes no groups (a near b, b near c, and a not near c).
GROUPED: Final = DIGEST_LAYERS
_PROBE = tuple[str, str]


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """Machines that agree: those of one model in every value that all machines have.

    Those of other models in it agree in what hardware cannot move.
    """

    members: tuple[int, ...]
    """Places in the order of the input."""
    whole: bool = True
    """False for a machine that lacks values, which therefore stands alone."""


class Signature(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept of a fingerprint for grouping."""

    values: dict[_PROBE, bytes]
    """Exact values, hashed; the digest that the file states is part of it."""
    unsteady: frozenset[_PROBE]
    """Probes that do not repeat there, or may lawfully be missing and are: left out for all."""
    lost: frozenset[_PROBE]
    suite: tuple[str, int, str | None]
    model: tuple[Any, ...] = ()
    """Of the GPU or the processor."""


def model_of(fingerprint: Fingerprint) -> tuple[Any, ...]:
    """Return what two machines of the same hardware have in common."""
    return (fingerprint.device, fingerprint.key.capability, fingerprint.key.sm_count)


def signature(fingerprint: Fingerprint) -> Signature:
    """Reduce a fingerprint to what it is grouped by."""
    values: dict[_PROBE, bytes] = {}
    unsteady, lost = set(), set()
    for layer in GROUPED:
        probes: dict[str, ProbeResult] = getattr(fingerprint.layers, layer)
        for name, result in probes.items():
            if counts(layer, result):
                values[(layer, name)] = _hashed([result.digest, result.values])
            elif result.status in {"exact", "unstable"} or (
                result.optional and result.status == "not_run"
            ):
                unsteady.add((layer, name))
            else:
                lost.add((layer, name))
    suite = fingerprint.suite
    return Signature(
        values=values,
        unsteady=frozenset(unsteady),
        lost=frozenset(lost),
        suite=(suite.name, suite.version, fingerprint.challenge),
        model=model_of(fingerprint),
    )


def _hashed(value: Any) -> bytes:
    encoded = msgspec.msgpack.encode(value, order="deterministic")
    return hashlib.blake2b(encoded, digest_size=16).digest()


def group(signatures: Sequence[Signature | None]) -> tuple[Group, ...]:
    """Group machines, the largest group first; None is an input without a fingerprint.

    Returns:
        Groups whose members agree in all that is exact on every machine that measured everything;
        those of other hardware in what does not depend on it.

    """
    whole = [n for n, one in enumerate(signatures) if one is not None and not one.lost]
    probes = _common(signatures[n] for n in whole)
    equal: dict[tuple[Any, ...], list[int]] = {}
    for number in whole:
        key = _key(signatures[number], probes)
        if key is not None:
            equal.setdefault(key, []).append(number)
    together = {n for members in equal.values() for n in members}
    alone = [n for n in range(len(signatures)) if n not in together]
    ordered = sorted(equal.values(), key=_rank)
    groups = [Group(members=tuple(members)) for members in _teams(ordered, signatures, probes)]
    return (*groups, *(Group(members=(number,), whole=False) for number in alone))


def _rank(members: Sequence[int]) -> tuple[int, int]:
    return -len(members), members[0]


def _key(one: Signature | None, probes: Sequence[_PROBE]) -> tuple[Any, ...] | None:
    if one is None or not probes:
        return None
    return (one.suite[1:], *(one.values[probe] for probe in probes))


def _teams(
    equal: Sequence[list[int]], signatures: Sequence[Signature | None], probes: Sequence[_PROBE]
) -> list[list[int]]:
    """Join groups of different models that agree in what hardware cannot move.

    Of each model the largest group that agrees joins, so that its outliers stay apart.
    """
    steady = [probe for probe in probes if probe[0] not in MOVED_BY_HARDWARE]
    teams: dict[tuple[Any, ...], list[int]] = {}
    taken: set[tuple[Any, ...]] = set()
    for number, members in enumerate(equal):
        key = _key(signatures[members[0]], steady) or ()
        models = {(key, one.model) for n in members if (one := signatures[n]) is not None}
        joins = key and not taken & models
        taken |= models
        teams.setdefault(key if joins else (number,), []).extend(members)
    return sorted(map(sorted, teams.values()), key=_rank)


def _common(signatures: Iterable[Signature | None]) -> list[_PROBE]:
    """Return the probes that are exact on all of these machines."""
    common: set[_PROBE] | None = None
    unsteady: set[_PROBE] = set()
    for one in signatures:
        if one is None:
            continue
        unsteady |= one.unsteady
        common = set(one.values) if common is None else common & one.values.keys()
    return sorted((common or set()) - unsteady)


def group_fingerprints(fingerprints: Iterable[Fingerprint | None]) -> tuple[Group, ...]:
    """Group fingerprints that are read one after the other; none of them is kept."""
    return group([None if one is None else signature(one) for one in fingerprints])


def group_lists(lists: Sequence[Any]) -> tuple[Group, ...]:
    """Group inputs by equal values as a whole; None is an input that has none."""
    suite = ("", 0, None)
    nothing: frozenset[_PROBE] = frozenset()
    return group(
        [
            None
            if one is None
            else Signature(
                values={("", ""): _hashed(one)}, unsteady=nothing, lost=nothing, suite=suite
            )
            for one in lists
        ]
    )

"""Two or more fingerprints, layer by layer and probe by probe, over what is exact on all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any, Final

import msgspec

from envkit.compare.comparability import Ground
from envkit.compare.layer import Collector, Kind, LayerResult, Lost
from envkit.compare.peaks import CONTEXT_TOLERANCE_BYTES, take_near, take_peaks
from envkit.compare.streams import is_stream, shape
from envkit.model.counted import counted
from envkit.model.documents import Comparable
from envkit.model.fingerprint import DIGEST_LAYERS, LAYERS, Layer, ProbeResult

#: Values of the context that change from minute to minute.
_VOLATILE: Final = frozenset({"free_bytes"})
_NO_FINGERPRINT: Final = Lost(reason="no fingerprint", lawful=True)
_NOT_IN_SUITE: Final = Lost(reason="not in this suite", lawful=True)
_MISSING: Final = Lost(reason="the probe is missing")
_NOT_ASKED: Final = Lost(reason="this step of the user's was not asked for", lawful=True)
OWN_STEP: Final = "call."
_SEEDED_PROBE: Final = "exercises.random_trace"
MOST_COUNTERS: Final = 6
#: Counters that say most to a reader come first.
_TELLING: Final = frozenset(
    {"reserved_bytes.all.current", "allocated_bytes.all.current", "segment.all.current", "num_ooms"}
)


def compare_fingerprints(ground: Ground) -> tuple[LayerResult, ...]:
    """Compare every layer."""
    return tuple(_compare_layer(layer, ground) for layer in LAYERS)


def _compare_layer(layer: Layer, ground: Ground) -> LayerResult:
    comparable = ground.comparable[layer]
    collector = Collector(layer)
    if comparable.answer == "no":
        return collector.finish(comparable)
    kind: Kind = "expected" if layer in ground.expected else "unexpected"
    probes = [None if one is None else getattr(one.layers, layer) for one in ground.fingerprints]
    names = sorted({name for one in probes if one is not None for name in one})
    left_out = []
    for name in names:
        compared = collector.compared
        results = [_NO_FINGERPRINT if one is None else one.get(name) for one in probes]
        if any(isinstance(one, ProbeResult) and one.optional for one in results):
            lawful = _NOT_ASKED if name.startswith(OWN_STEP) else _NOT_IN_SUITE
            results = [lawful if one is None else one for one in results]
        values = [_value(layer, name, result, ground) for result in results]
        if layer != "peaks" and any(isinstance(v, Lost) and v.unsteady for v in values):
            # Compared is what is exact on all machines: an unstable value accuses nobody.
            values = [v if isinstance(v, Lost) else _LEFT_OUT for v in values]
        _TAKE[layer](collector, name, values, kind)
        if collector.compared == compared:
            left_out.append(name)
    if layer in DIGEST_LAYERS:
        _take_digest(collector, layer, ground, kind)
    return _partly(
        msgspec.structs.replace(
            collector.finish(comparable), probes=tuple(names), left_out=tuple(left_out)
        )
    )


_LEFT_OUT: Final = Lost(reason="exact here, left out", lawful=True)


def _value(layer: Layer, name: str, result: ProbeResult | Lost | None, ground: Ground) -> Any:
    """Return what a probe gave, or why it counts for nothing."""
    if result is None:
        return _MISSING if ground.same_suite else _NOT_IN_SUITE
    if isinstance(result, Lost):
        return result
    if name == _SEEDED_PROBE and not ground.same_challenge:
        return Lost(reason="another challenge seeded it", lawful=True)
    if layer == "peaks" and result.status == "unstable":
        return _steadied(result)
    return result if counts(layer, result) else _why_not(result)


def _steadied(result: ProbeResult) -> ProbeResult | Lost:
    """Return the largest of each peak that moved between runs: peaks have a tolerance anyhow."""
    spread = (result.values or {}).get("spread")
    rows = spread.get("differs") if isinstance(spread, Mapping) else None
    found = {}
    for row in rows if isinstance(rows, list) else ():
        figures = row.get("values") if isinstance(row, Mapping) else None
        if isinstance(figures, list) and figures and all(type(n) is int for n in figures):
            found[str(row.get("path", "")).strip("/")] = max(figures)
    return msgspec.structs.replace(result, values=found) if found else _why_not(result)


def counts(layer: Layer, result: ProbeResult) -> bool:
    """Whether a probe's values may agree with or accuse another machine's."""
    if result.status != "exact" or result.values is None:
        return False
    return layer not in DIGEST_LAYERS or result.digest is not None


def _why_not(result: ProbeResult) -> Lost:
    if result.status == "unstable":
        reason = f"did not repeat: {result.reason or 'runs differ'}"
        return Lost(reason=reason, lawful=True, unsteady=True)
    if result.status == "exact" and result.values is not None:
        reason = result.reason or "need not repeat on this kind of device"
        return Lost(reason=reason, lawful=True, unsteady=True)
    lawful = result.optional and result.status == "not_run"
    return Lost(
        reason=result.reason or f"the probe {result.status.replace('_', ' ')}", lawful=lawful
    )


def _take_stream(collector: Collector, name: str, values: Sequence[Any], kind: Kind) -> None:
    collector.take(name, values, kind=kind, same=_same_result, shown=_shape)


def _take_numbers(collector: Collector, name: str, values: Sequence[Any], kind: Kind) -> None:
    collector.take(name, values, kind=kind, same=_same_result, shown=_differing_outputs)


def _take_exercise(collector: Collector, name: str, values: Sequence[Any], kind: Kind) -> None:
    collector.take(name, values, kind=kind, same=_same_result, shown=_first_operation)


def _take_peaks(collector: Collector, name: str, values: Sequence[Any], kind: Kind) -> None:
    plain = _values_or_lost(values)
    take_peaks(collector, name, plain, kind=kind, by_addresses=_only_addresses(values))


def _only_addresses(values: Sequence[Any]) -> bool:
    """Whether all peaks are those of the model's replay, and it has the same for all without luck.

    Then the same was asked for, and which of equally large free blocks was taken is all that can
    have moved a peak.
    """
    replays = [
        one.replay if isinstance(one, ProbeResult) and _as_replayed(one) else None for one in values
    ]
    first = replays[0] if replays else None
    return first is not None and all(
        one is not None and one.canonical == first.canonical for one in replays
    )


def _as_replayed(result: ProbeResult) -> bool:
    """Whether the measured peaks are those of the replay, as the report says and as they stand."""
    if not result.conforms or result.replay is None or result.values is None:
        return False
    return all(result.values.get(name) == size for name, size in result.replay.observed.items())


def _take_context(collector: Collector, name: str, values: Sequence[Any], kind: Kind) -> None:
    plain = _values_or_lost(values)
    names = {key for one in plain if isinstance(one, Mapping) for key in one} - _VOLATILE
    for key in sorted(names):
        figures = [one if isinstance(one, Lost) else one.get(key) for one in plain]
        tolerance = CONTEXT_TOLERANCE_BYTES if key.endswith("_bytes") else 0
        take_near(collector, f"{name}.{key}", figures, tolerance=tolerance, kind=kind)


_TAKE: Final = {
    "allocator": _take_exercise,
    "tensors": _take_stream,
    "workspaces": _take_stream,
    "peaks": _take_peaks,
    "numerics": _take_numbers,
    "context": _take_context,
}


def _same_result(one: ProbeResult, other: ProbeResult) -> bool:
    """Whether two exact results agree: by their values, and by what their digests say of them."""
    return one.digest == other.digest and one.values == other.values


def _take_digest(collector: Collector, layer: Layer, ground: Ground, kind: Kind) -> None:
    """Compare the digests of whole layers where every probe agreed: they must agree too.

    Not those of different suites, nor of different challenges: these have other probes in them.
    """
    if collector.moved or not (ground.same_suite and ground.same_challenge):
        return
    digests = [None if one is None else one.digests.get(layer) for one in ground.fingerprints]
    if None not in digests and len(set(digests)) > 1:
        collector.differ("digest", digests, kind=kind)


def _partly(result: LayerResult) -> LayerResult:
    """Say how many probes the comparison rests on where not all could be compared."""
    if not result.cannot_compare or result.comparable.answer == "no":
        return result
    said = f"{counted(len(result.cannot_compare), 'probe')} could not be compared"
    whole = result.comparable.why if result.comparable.answer == "partly" else ""
    why = "; ".join(filter(None, (whole, said)))
    return msgspec.structs.replace(result, comparable=Comparable(answer="partly", why=why))


def _plain(results: Sequence[Any]) -> list[Any]:
    return [None if result is None else result.values for result in results]


def _shape(results: Sequence[Any]) -> Sequence[Any]:
    values = _plain(results)
    if all(one is None or is_stream(one) for one in values):
        return shape(values)
    return _differing_outputs(results)


def is_walk(values: Any) -> bool:
    """Whether an exercise's values are operations with counters."""
    steps = values.get("steps") if isinstance(values, Mapping) else None
    return isinstance(steps, list) and all(
        isinstance(step, Mapping)
        and isinstance(step.get("op"), str)
        and isinstance(step.get("counters"), Mapping)
        for step in steps
    )


def _values_or_lost(results: Sequence[Any]) -> list[Any]:
    return [one if isinstance(one, Lost) else one.values for one in results]


def _differing_outputs(results: Sequence[Any]) -> list[Any]:
    """Return of every machine the outputs that are not the same on all of them."""
    values = _plain(results)
    present = [one for one in values if one is not None]
    names = sorted({name for one in present for name in one})
    differing = [n for n in names if any(one.get(n) != present[0].get(n) for one in present[1:])]
    if not differing:
        return [None if result is None else {"digest": result.digest} for result in results]
    return [None if one is None else {n: one.get(n) for n in differing} for one in values]


def _first_operation(results: Sequence[Any]) -> list[Any]:
    """Return of every machine the first operation whose counters are not the same on all."""
    values = _plain(results)
    if not all(one is None or is_walk(one) for one in values):
        return _differing_outputs(results)
    walks = [one.get("steps", []) for one in values if one is not None]
    rows = zip_longest(*walks)
    at = next((n for n, row in enumerate(rows) if any(one != row[0] for one in row[1:])), None)
    if at is None:
        return [None if result is None else {"digest": result.digest} for result in results]
    steps = [None if one is None else one.get("steps", [])[: at + 1] for one in values]
    return _states(steps, at)


def _states(walks: Sequence[Sequence[Any] | None], at: int) -> list[Any]:
    """Return each machine's counters after an operation: those that are not the same on all."""
    counters = [None if walk is None else _accumulated(walk) for walk in walks]
    present = [one for one in counters if one is not None]
    names = {name for one in present for name in one}
    unlike = [n for n in names if any(one.get(n) != present[0].get(n) for one in present[1:])]
    unlike.sort(key=lambda name: (name not in _TELLING, name))
    return [
        None
        if walk is None or mine is None
        else {
            "operation": at + 1,
            "op": walk[at]["op"] if at < len(walk) else "none: the exercise has ended",
            "counters": {name: mine.get(name, 0) for name in unlike[:MOST_COUNTERS]},
            "counters_that_differ": len(unlike),
        }
        for walk, mine in zip(walks, counters, strict=True)
    ]


def _accumulated(steps: Sequence[Any]) -> dict[str, int]:
    """Put together what every operation moved: the counters as they stand after the last one."""
    state: dict[str, int] = {}
    for step in steps:
        state.update(step.get("counters", {}))
    return state

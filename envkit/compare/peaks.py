"""Peaks: compared with a segment of tolerance, and whether one machine fits the other's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from envkit.compare.layer import Collector, Kind, Lost
from envkit.compare.sides import Side
from envkit.model.fingerprint import Fingerprint
from envkit.model.observed import value_of

#: The largest segment that a tie between equal free blocks can move (large pool of torch).
SEGMENT_BYTES: Final = 20 << 20
#: More than any device has: a difference of any size is tolerated.
MAX_BYTES: Final = 1 << 62
CONTEXT_TOLERANCE_BYTES: Final = 64 << 20
#: Peaks in the order of preference: what a process holds of the device.
_STEADY: Final = Lost(reason="not among the figures that are known", lawful=True)
#: Figures that only an allocator with segments has.
_OF_SEGMENTS: Final = frozenset({"segments", "reserved_bytes"})
_HELD: Final = ("reserved_bytes", "allocated_bytes")


class Room(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a machine has room for the largest peak that another one measured."""

    label: str
    of_label: str
    probe: str
    peak_bytes: int
    available_bytes: int
    """Memory of the device without what is used outside this allocator."""

    @property
    def times(self) -> int:
        """How many times the peak fits."""
        return self.available_bytes // self.peak_bytes if self.peak_bytes else 0


def take_peaks(
    collector: Collector, probe: str, values: Sequence[Any], *, kind: Kind, by_addresses: bool
) -> None:
    """Compare the peaks of one workload, figure by figure.

    Args:
        collector: takes what differs.
        probe: name of the workload's peaks.
        values: figures by name, one mapping for each input, or what was lost.
        kind: class of a difference.
        by_addresses: whether the model proves that only addresses set the inputs apart.

    """
    names = sorted({name for one in values if isinstance(one, Mapping) for name in one})
    if not names:
        collector.take(probe, values, kind=kind)
    for name in names:
        figures = [one if isinstance(one, Lost) else one.get(name, _STEADY) for one in values]
        tolerance = MAX_BYTES if by_addresses else peak_tolerance(name, names)
        take_near(collector, f"{probe}.{name}", figures, tolerance=tolerance, kind=kind)


def peak_tolerance(name: str, names: Iterable[str]) -> int:
    """Return how far apart a figure of a peak may be: a segment, in bytes or in number.

    Without segments, as on the CPU, nothing is left to chance and nothing is tolerated.

    Args:
        name: the figure.
        names: all figures of the peak; those that moved between runs can be all that is left.

    """
    if _OF_SEGMENTS.isdisjoint(names):
        return 0
    return SEGMENT_BYTES if name.endswith("_bytes") else 1


def take_near(
    collector: Collector, key: str, figures: Sequence[Any], *, tolerance: int, kind: Kind
) -> None:
    """Compare figures; a difference within the tolerance is shown and moves nothing."""
    numbers = [n for n in figures if isinstance(n, int) and not isinstance(n, bool)]
    near = len(numbers) == len(figures) and max(numbers) - min(numbers) <= tolerance
    if near and len(set(numbers)) > 1:
        collector.count()
        collector.differ(key, figures, kind="expected", within_tolerance=True)
        return
    collector.take(key, figures, kind=kind)


def rooms(sides: Sequence[Side]) -> tuple[Room, ...]:
    """Say for every machine whether it has room for the largest peak that the others measured."""
    measured = [(side, side.fingerprint) for side in sides if side.fingerprint is not None]
    found = []
    for side, fingerprint in measured:
        available = available_bytes(side, fingerprint)
        others = [(label, *peak) for label, peak in _peaks(measured, without=side)]
        if available is None or not others:
            continue
        label, probe, peak = max(others, key=lambda other: other[2])
        found.append(
            Room(
                label=side.label,
                of_label=label,
                probe=probe,
                peak_bytes=peak,
                available_bytes=available,
            )
        )
    return tuple(found)


def available_bytes(side: Side, fingerprint: Fingerprint) -> int | None:
    """Return the device's memory without its context and its neighbours; None if not known."""
    context = fingerprint.layers.context.get("context.memory")
    values = (context.values if context is not None else None) or {}
    total, outside = (
        values.get("total_bytes"),
        values.get("used_outside_this_allocator_bytes", 0),
    )
    if not isinstance(total, int):
        gpus = value_of(side.facts.gpus.devices) if side.facts is not None else None
        total = value_of(gpus[0].memory_bytes) if gpus else None
    if not isinstance(total, int) or not isinstance(outside, int):
        return None
    return max(0, total - outside)


def _peaks(
    measured: Sequence[tuple[Side, Fingerprint]], *, without: Side
) -> list[tuple[str, tuple[str, int]]]:
    return [
        (side.label, (probe, peak))
        for side, fingerprint in measured
        if side is not without and fingerprint.key.capability is not None
        for probe, peak in _held(fingerprint)
    ]


def _held(fingerprint: Fingerprint) -> list[tuple[str, int]]:
    found = []
    for probe, result in fingerprint.layers.peaks.items():
        values = result.values or {}
        sizes = [values[name] for name in _HELD if isinstance(values.get(name), int)]
        if sizes:
            found.append((probe, sizes[0]))
    return found

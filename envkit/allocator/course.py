"""How memory went during a replay: after every event, and the segments at a few of them."""

from __future__ import annotations

from array import array
from collections.abc import Collection
from typing import Final

import msgspec

from envkit.allocator.model import CachingAllocator
from envkit.allocator.recording import Recording
from envkit.allocator.replay import (
    ALLOC,
    SEGMENT_ALLOC,
    SEGMENT_FREE,
    SEGMENT_MAP,
    SEGMENT_UNMAP,
)
from envkit.allocator.stats import ALL, BYTES
from envkit.model.thinning import thin

#: Points are kept for a drawing of so many pixels' width.
COLUMNS: Final = 1000


class HeldSegment(msgspec.Struct, frozen=True, kw_only=True):
    """A segment at one moment."""

    address: int
    stream: int
    blocks: tuple[tuple[int, bool], ...]
    """One behind the other: bytes, and whether they were in use."""


class Moment(msgspec.Struct, frozen=True, kw_only=True):
    """All segments after one event."""

    event: int
    segments: tuple[HeldSegment, ...]


class Course(msgspec.Struct, frozen=True, kw_only=True):
    """Memory over the events of a replay, thinned to `COLUMNS`; peaks are whole."""

    events: tuple[int, ...]
    allocated_bytes: tuple[int, ...]
    """Whole blocks, as the allocator rounds requests."""
    reserved_bytes: tuple[int, ...]
    moments: tuple[Moment, ...]
    ooms: tuple[int, ...] = ()
    """Events at which memory ran out."""


def most_reserved_at(recording: Recording) -> int | None:
    """Return the allocation for which most was taken from the driver; None: nothing was taken."""
    reserved = highest = 0
    grown, at = False, None
    for index, (action, _, size, _) in enumerate(recording.events):
        if action in {SEGMENT_ALLOC, SEGMENT_MAP}:
            reserved += size
            grown = grown or reserved > highest
            highest = max(highest, reserved)
        elif action in {SEGMENT_FREE, SEGMENT_UNMAP}:
            reserved -= size
        elif action == ALLOC and grown:
            grown, at = False, index
    return at


class Watch:
    """Looks at an allocator after every event of a replay.

    Args:
        allocator: that answers.
        moments: events after which the segments are kept.

    """

    def __init__(self, allocator: CachingAllocator, moments: Collection[int]) -> None:
        self._allocator = allocator
        self._wanted = frozenset(moments)
        self._allocated = array("q")
        self._reserved = array("q")
        self._moments: dict[int, Moment] = {}
        self._ooms: tuple[int, ...] = ()

    def after(self, event: int) -> None:
        """Note what there is; to be called for every event in turn."""
        heap = self._allocator.heap
        self._allocated.append(heap.ledger.gauge(ALL, BYTES))
        self._reserved.append(heap.reserved_bytes)
        if event in self._wanted:
            self._keep(event)

    def stopped(self, event: int) -> None:
        """Note an allocation that failed and ended the replay; keep the segments."""
        self._keep(event)
        self._ooms = (event,)

    def course(self) -> Course:
        """Return what was noted."""
        allocated, reserved = self._allocated, self._reserved
        places = range(len(allocated))
        kept = sorted({*thin(places, allocated, COLUMNS), *thin(places, reserved, COLUMNS)})
        return Course(
            events=tuple(kept),
            allocated_bytes=tuple(allocated[at] for at in kept),
            reserved_bytes=tuple(reserved[at] for at in kept),
            moments=tuple(self._moments.values()),
            ooms=self._ooms,
        )

    def _keep(self, event: int) -> None:
        segments = tuple(
            HeldSegment(
                address=segment["address"],
                stream=segment["stream"],
                blocks=tuple((b["size"], b["state"] != "inactive") for b in segment["blocks"]),
            )
            for segment in self._allocator.snapshot()
        )
        self._moments[event] = Moment(event=event, segments=segments)

"""Feeding a recorded stream of allocations and frees to the model.

A stream is what torch's memory history records, shortened: `(action, address, size, stream)`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from envkit.allocator.messages import OutOfMemory
from envkit.allocator.model import CachingAllocator
from envkit.allocator.stats import Values

#: Action, address, bytes, stream. The size of an allocation is what was asked for.
Event = tuple[str, int, int, int]

ALLOC, FREE, FREE_REQUESTED = "a", "c", "f"
SEGMENT_ALLOC, SEGMENT_FREE, SEGMENT_MAP, SEGMENT_UNMAP = "S", "R", "M", "U"
#: Short forms of torch's names of actions.
ACTIONS: Final[Mapping[str, str]] = {
    "alloc": ALLOC,
    "free_requested": FREE_REQUESTED,
    "free_completed": FREE,
    "segment_alloc": SEGMENT_ALLOC,
    "segment_free": SEGMENT_FREE,
    "segment_map": SEGMENT_MAP,
    "segment_unmap": SEGMENT_UNMAP,
}


class Replay(msgspec.Struct, frozen=True, kw_only=True):
    """What came out of a replay."""

    events: int
    """Events gone through; all of them unless memory ran out."""
    allocations: int
    at_recorded_address: int
    """Allocations that the model put where torch had put them."""
    foreign_frees: int
    """Frees of what the stream did not allocate; left out."""
    ran_out_at: int | None
    """Index of the allocation that failed, where the replay ended."""
    stats: Values
    """`memory_stats` at the end."""


def events_from_history(entries: Iterable[Mapping[str, Any]]) -> list[Event]:
    """Shorten the entries of one device's trace in a torch memory snapshot.

    Entries that are no allocation, free or segment change (`oom`, `snapshot`) are left out.
    """
    return [
        (ACTIONS[entry["action"]], entry["addr"], entry["size"], entry.get("stream", 0))
        for entry in entries
        if entry["action"] in ACTIONS
    ]


def replay(
    events: Sequence[Event], allocator: CachingAllocator, *, observed_addresses: bool = True
) -> Replay:
    """Let the model answer a stream.

    Frees happen where torch completed them, so waiting for other streams needs no model here.

    Args:
        events: the stream, from the start of the process.
        allocator: a fresh model; its settings may differ from those of the recording.
        observed_addresses: place new segments where the recording has them. Right for the
            settings of the recording; under others segments differ, so leave it off.

    """
    malloc, free = allocator.malloc, allocator.free
    held: dict[int, int] = {}
    release = held.pop
    hint: int | None = None
    same = allocations = foreign = index = 0
    ran_out_at = None
    try:
        for index, (action, address, size, stream) in enumerate(events):  # noqa: B007  (read after)
            if action == ALLOC:
                held[address] = mine = malloc(size, stream, hint)
                hint = None
                allocations += 1
                if mine == address:
                    same += 1
            elif action == FREE:
                given = release(address, None)
                if given is None:
                    foreign += 1
                else:
                    free(given)
            elif action == SEGMENT_ALLOC and observed_addresses:
                hint = address
    except OutOfMemory:
        ran_out_at = index
    return Replay(
        events=len(events) if ran_out_at is None else ran_out_at + 1,
        allocations=allocations,
        at_recorded_address=same,
        foreign_frees=foreign,
        ran_out_at=ran_out_at,
        stats=allocator.memory_stats(),
    )

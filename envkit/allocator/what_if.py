"""What a recorded history would have needed under other settings, or on another card."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import msgspec

from envkit.allocator.addresses import AddressSpace
from envkit.allocator.blocks import DEFAULT_POOL
from envkit.allocator.chunks import CHUNK_BYTES, DriverAddresses
from envkit.allocator.config import Config, ConfigError
from envkit.allocator.course import Course, Watch
from envkit.allocator.messages import OutOfMemory
from envkit.allocator.model import CachingAllocator
from envkit.allocator.options import LAST_VERSION, Version
from envkit.allocator.prove import NO_LIMIT_BYTES, RecordedAddresses, malloc_in
from envkit.allocator.recording import OOM, PoolMap, Recording
from envkit.allocator.replay import (
    ALLOC,
    FREE,
    FREE_REQUESTED,
    SEGMENT_ALLOC,
    SEGMENT_FREE,
    SEGMENT_MAP,
    SEGMENT_UNMAP,
)
from envkit.allocator.restore import restore
from envkit.allocator.rewind import StartSegment
from envkit.allocator.sizes import ceil_to

#: The settings that are tried when none are given.
USEFUL_CONFS: Final = (
    "",
    "expandable_segments:True",
    "max_split_size_mb:128",
    "max_split_size_mb:512",
    "roundup_power2_divisions:4",
)
#: Where an empty process's segments begin; below it there is room for any ranges.
_FIRST: Final = 0x7F0000000000


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What came out for one setting."""

    conf: str
    total_memory_bytes: int | None
    """What torch could have; None: no end to it."""
    peak_reserved_bytes: int
    peak_allocated_bytes: int
    ran_out_at_event: int | None
    retries: int
    """Times that the cache had to be flushed for an allocation."""
    course: Course | None = None
    """Where it was asked for."""


def version_for(conf: str, recorded: Version) -> Version:
    """Return the release under which a setting is read: the recorded one, else the newest.

    Raises:
        ConfigError: neither knows it.

    """
    try:
        Config.parse(conf, recorded)
    except ConfigError:
        Config.parse(conf, LAST_VERSION)
        return LAST_VERSION
    return recorded


def what_if(
    recording: Recording,
    start: list[StartSegment],
    conf: str,
    total_memory_bytes: int | None,
    *,
    moments: Collection[int] | None = None,
) -> Outcome:
    """Replay a history under other settings; new segments go where the driver would put them.

    Args:
        recording: the history.
        start: the state where it begins.
        conf: the settings.
        total_memory_bytes: what torch can have.
        moments: events after which the segments are kept; None: no course is wanted.

    Raises:
        ConfigError: torch would refuse the settings.
        ValueError: a backend that is not modelled.

    """
    config = Config.parse(conf, version_for(conf, recording.version))
    allocator = CachingAllocator(
        conf,
        total_memory=NO_LIMIT_BYTES if total_memory_bytes is None else total_memory_bytes,
        version=version_for(conf, recording.version),
        addresses=_addresses(start, expandable=config.expandable_segments),
    )
    held, ran_out = {}, None
    if start and _can_be_kept(start, config):
        restore(allocator.heap, start)
        held = {address: address for address in allocator.heap.live}
        ran_out = _shrink(allocator, total_memory_bytes)
    elif start:
        ran_out = _lay_out_anew(allocator, start, held)
    watch = Watch(allocator, moments) if moments is not None else None
    if ran_out is None:
        ran_out = _go_through(recording, allocator, held, watch)
    stats = allocator.memory_stats()
    return Outcome(
        conf=conf,
        total_memory_bytes=total_memory_bytes,
        peak_reserved_bytes=stats["reserved_bytes.all.peak"],
        peak_allocated_bytes=stats["allocated_bytes.all.peak"],
        ran_out_at_event=ran_out,
        retries=stats["num_alloc_retries"],
        course=watch.course() if watch is not None else None,
    )


def _addresses(start: list[StartSegment], *, expandable: bool) -> AddressSpace:
    if expandable:
        return RecordedAddresses(_FIRST)  # ranges of their own: nothing depends on where they are
    lowest = min((segment.address for segment in start), default=_FIRST)
    if lowest < _FIRST // 2:  # Windows: how its driver goes on is not known
        lowest = _FIRST
    return DriverAddresses(ceil_to(lowest, CHUNK_BYTES) - CHUNK_BYTES)


def _can_be_kept(start: list[StartSegment], config: Config) -> bool:
    """Tell whether the layout at the start is one that these settings could have made."""
    if any(segment.is_expandable != config.expandable_segments for segment in start):
        return False
    ends = [segment.address + segment.size for segment in start]
    if any(end > segment.address for end, segment in zip(ends, start[1:], strict=False)):
        return False  # no state of any allocator: the proof has said so
    if any(not _holds(segment) for segment in start):
        return False
    # Of a segment from this size on nothing is ever split off.
    return all(
        segment.size < config.max_split_size_bytes
        or not segment.blocks
        or segment.blocks[0].size == segment.size
        for segment in start
    )


def _holds(segment: StartSegment) -> bool:
    """Tell whether the blocks of a segment lie in it, one behind the other."""
    at = segment.address
    for block in segment.blocks:
        if block.address < at:
            return False
        at = block.address + block.size
    return at <= segment.address + segment.size


def _shrink(allocator: CachingAllocator, room: int | None) -> int | None:
    """Give back what the start had cached if there is no room for it; return 0 if that fails."""
    if room is None or allocator.heap.reserved_bytes <= room:
        return None
    allocator.empty_cache()
    allocator.reset_peak()
    return 0 if allocator.heap.reserved_bytes > room else None


def _lay_out_anew(
    allocator: CachingAllocator, start: list[StartSegment], held: dict[int, int]
) -> int | None:
    """Allocate what lived at the start one after the other; return 0 if there is no room."""
    try:
        for segment in start:
            for block in segment.blocks:
                held[block.address] = allocator.malloc(block.requested, segment.stream)
    except OutOfMemory:
        return 0
    return None


def _go_through(  # noqa: C901  (hot path: one loop, no calls for common events)
    recording: Recording, allocator: CachingAllocator, held: dict[int, int], watch: Watch | None
) -> int | None:
    """Replay the events; return where memory ran out."""
    flushes = user_flushes(recording)
    pools = PoolMap(recording)
    malloc, free, release = allocator.malloc, allocator.free, held.pop
    index = 0
    try:
        for index, (action, address, size, stream) in enumerate(recording.events):
            if action == ALLOC:
                if pools and (pool := pools.pool_of(address, index)) != DEFAULT_POOL:
                    held[address] = malloc_in(allocator, pool, (size, stream, None))
                else:
                    held[address] = malloc(size, stream)
            elif action == FREE:
                if mine := release(address, 0):
                    free(mine)
            elif action == OOM:
                free(malloc(size, stream))
            elif index in flushes:
                allocator.empty_cache()
            if watch is not None:
                watch.after(index)
    except OutOfMemory:
        if watch is not None:
            watch.stopped(index)
        return index
    return None


def user_flushes(recording: Recording) -> set[int]:
    """Return the events at which the program itself gave the cache back (`empty_cache`).

    A history does not say why segments are released. It was the program unless new memory was
    taken right afterwards that would have been more than was ever reserved: then memory was short.
    """
    flushes: set[int] = set()
    begun: int | None = None
    reserved = before = highest = 0
    for index, (action, _, size, _) in enumerate(recording.events):
        if action in {SEGMENT_FREE, SEGMENT_UNMAP}:
            if begun is None:
                begun, before = index, reserved
            reserved -= size
            continue
        if action in {FREE, FREE_REQUESTED} and begun is not None:
            continue
        grows = action in {SEGMENT_ALLOC, SEGMENT_MAP}
        if begun is not None:
            if action != OOM and not (grows and before + size > highest):
                flushes.add(begun)
            begun = None
        if grows:
            reserved += size
            highest = max(highest, reserved)
    return flushes

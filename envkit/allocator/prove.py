"""Holding the model against a recorded history: the same addresses, the same end, the same OOMs."""

from __future__ import annotations

import contextlib
from bisect import bisect_left
from collections.abc import Collection
from typing import Final

import msgspec

from envkit.allocator.addresses import AddressSpace
from envkit.allocator.blocks import DEFAULT_POOL, Block, PoolId
from envkit.allocator.config import Config
from envkit.allocator.course import Course, Watch
from envkit.allocator.growth import grow
from envkit.allocator.heap import Heap
from envkit.allocator.messages import OutOfMemory
from envkit.allocator.model import CachingAllocator
from envkit.allocator.recording import OOM, PoolMap, Recording
from envkit.allocator.release import release_segment, unmap
from envkit.allocator.replay import (
    ALLOC,
    FREE,
    FREE_REQUESTED,
    SEGMENT_ALLOC,
    SEGMENT_FREE,
    SEGMENT_MAP,
    SEGMENT_UNMAP,
    Event,
)
from envkit.allocator.restore import restore
from envkit.allocator.rewind import StartSegment, state_at_start
from envkit.allocator.search import choose
from envkit.allocator.sizes import SMALL_LIMIT_BYTES, segment_size
from envkit.allocator.stats import ALL, BYTES

#: More than any device has: in the proof the recording decides where memory ends.
NO_LIMIT_BYTES: Final = 1 << 44
#: Where segments go that the recording does not have.
_NOWHERE: Final = 1 << 60


class RecordedAddresses(AddressSpace):
    """The addresses of the recording, unchecked; a segment that it does not have goes far away."""

    __slots__ = ()

    def claim(self, size: int, observed: int | None) -> int:
        """Return the observed address, or one that no device has."""
        if observed is not None:
            return observed
        start, self._next = self._next, self._next + size
        return start

    def give_up(self, start: int) -> None:
        """Forget nothing: nothing was kept."""


class Proof(msgspec.Struct, frozen=True, kw_only=True):
    """How far the model followed."""

    allocations: int
    at_recorded_address: int
    end_state_equal: bool
    ooms: int
    """Recorded ones."""
    ooms_reproduced: bool
    """None of them could have been served from what the model had cached."""
    left_track_at: int | None
    """First event at which model and recording differ."""
    reason: str
    """What differed there; empty if nothing did."""
    live_at_start: int
    """Blocks that lived before the history began."""
    peak_allocated_bytes: int
    peak_allocated_at: int
    """Event at which it was reached; -1 before the first."""
    peak_reserved_bytes: int
    first_oom_at: int | None
    """Event of the first recorded OOM."""
    room_bytes: int | None
    """What the process could have at the first recorded OOM; None without one."""


def prove(recording: Recording) -> tuple[Proof, list[StartSegment]]:
    """Replay a history under its own settings, with the recorded addresses of new segments.

    Returns:
        The proof, and the state at the start, for further replays.

    Raises:
        ConfigError: the recorded settings cannot be read.
        ValueError: a backend that is not modelled.

    """
    config = Config.parse(recording.conf, recording.version)
    start = state_at_start(recording, config)
    run = _Run(recording)
    try:
        restore(run.heap, start)
    except ValueError as error:
        return run.proof(str(error)), start
    try:
        run.follow()
    except OutOfMemory as error:
        return run.proof(f"the history asks for more than any device has ({error})"), start
    return run.proof(), start


def retrace(recording: Recording, start: list[StartSegment], moments: Collection[int]) -> Course:
    """Go through a history that was proved once more, and look after every event.

    Args:
        recording: the history.
        start: the state where it begins, from `prove`.
        moments: events after which the segments are kept.

    """
    run = _Run(recording)
    run.watch = watch = Watch(run.allocator, moments)
    with contextlib.suppress(ValueError, OutOfMemory):  # the proof has said so
        restore(run.heap, start)
        run.follow()
    ooms = tuple(index for index, event in enumerate(recording.events) if event[0] == OOM)
    return msgspec.structs.replace(watch.course(), ooms=ooms)


class _Run:
    """One replay beside the recording."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.allocator = CachingAllocator(
            recording.conf,
            total_memory=NO_LIMIT_BYTES,
            version=recording.version,
            addresses=RecordedAddresses(_NOWHERE),
        )
        self.heap: Heap = self.allocator.heap
        self.pools = PoolMap(recording)
        self.allocations = self.same = self.ooms = 0
        self.served_ooms = 0
        self.left_at: int | None = None
        self.reason = ""
        self.peak, self.peak_at, self.now = 0, -1, 0
        self.room: int | None = None
        self.first_oom_at: int | None = None
        self.live_at_start = 0
        self.watch: Watch | None = None

    def follow(self) -> None:  # noqa: C901, PLR0912  (hot path: one loop, no calls for common events)
        """Go through the history."""
        held = {address: address for address in self.heap.live}
        self.live_at_start = len(held)
        pools = self.pools
        live, malloc, free = self.heap.live, self.allocator.malloc, self.allocator.free
        now = peak = self.heap.ledger.gauge(ALL, BYTES)
        peak_at = -1
        hint: int | None = None
        late = False  # whether a block came back for which other streams were waited for
        growing = self.recording.is_expandable
        events = self.recording.events
        for index, event in enumerate(events):
            action, address, size, stream = event
            if action == ALLOC:
                if pools and (pool := pools.pool_of(address, index)) != DEFAULT_POOL:
                    mine = malloc_in(self.allocator, pool, (size, stream, hint))
                elif late or (growing and self._may_have_waited(index, hint)):
                    mine = self._malloc_after_wait(event, hint)
                    late = False
                else:
                    mine = malloc(size, stream, hint)
                hint = None
                held[address] = mine
                self.allocations += 1
                if mine == address:
                    self.same += 1
                else:
                    self._leave(index, _elsewhere(size, address, mine))
                if mine:
                    now += live[mine].size
                if now > peak:
                    peak, peak_at = now, index
            elif action == FREE:
                mine = held.pop(address, 0)
                late = late or index == 0 or events[index - 1][:2] != (FREE_REQUESTED, address)
                block = live.get(mine)
                if block is not None:
                    now -= block.size
                    free(mine)
                elif size:
                    self._leave(index, f"a block at {address:#x} is freed that is not in use")
            elif action in {SEGMENT_ALLOC, SEGMENT_MAP}:
                hint = address if hint is None else hint
            else:
                self._rarely(index, event, late=late)
            if self.watch is not None:
                self.watch.after(index)
        self.peak, self.peak_at = peak, peak_at

    def _malloc_after_wait(self, event: Event, hint: int | None) -> int:
        """Allocate where torch may have waited for other streams because memory was short.

        What came back while it waited is not looked at: it takes new memory at once. Of expandable
        segments that may be memory which is mapped already; then only the place tells.
        """
        _, address, size, stream = event
        wanted = self.heap.kind_of(max(size, 1)).block_bytes
        tempting = fitting(self.heap, wanted, stream)
        if tempting is None:
            return self.allocator.malloc(size, stream, hint)
        if hint is None and (not self.recording.is_expandable or tempting.address == address):
            return self.allocator.malloc(size, stream, hint)
        taken = grow(self.heap, tempting.home, wanted, hint)
        hidden: list[Block] = []
        while (block := fitting(self.heap, wanted, stream)) not in {None, taken}:
            block.home.drop(block)
            hidden.append(block)
        mine = self.allocator.malloc(size, stream)
        for block in hidden:
            block.home.add(block)
        return mine

    def _rarely(self, index: int, event: Event, *, late: bool) -> None:
        action, address, size, stream = event
        if action == OOM:
            self.ooms += 1
            # With private pools, or after waiting for streams, what torch looked at is not known.
            if not self.pools and not late and not self._has_just_freed(index):
                self.served_ooms += fitting(self.heap, size, stream) is not None
            if self.room is None:
                self.room = self._room(address, size)
                self.first_oom_at = index
        elif action == SEGMENT_FREE:
            block = _free_block(self.heap, address)
            if block is None or block.address != address or block.size != size or block.is_part:
                self._leave(index, f"the segment at {address:#x} is released but not free")
            else:
                release_segment(self.heap, block)
        elif action == SEGMENT_UNMAP:
            block = _free_block(self.heap, address)
            if block is None or address + size > block.address + block.size:
                self._leave(index, f"{size} bytes at {address:#x} are unmapped but not free")
            else:
                unmap(self.heap, block)

    def _room(self, driver_free: int, size: int) -> int:
        """Return what the process could have, at least, when a request failed."""
        if driver_free < segment_size(size):
            return self.heap.reserved_bytes + driver_free
        # The driver had it: a memory fraction was in the way, which no snapshot tells.
        return self.allocator.memory_stats()["reserved_bytes.all.peak"]

    def _may_have_waited(self, index: int, hint: int | None) -> bool:
        """Tell whether the free before an allocation may be one that was waited for."""
        flushed = index > 0 and self.recording.events[index - 1][0] == SEGMENT_UNMAP
        return (flushed or hint is not None) and self._has_just_freed(index)

    def _has_just_freed(self, index: int) -> bool:
        """Tell whether what came last, segments left out, is a free: perhaps one waited for."""
        segments = {SEGMENT_ALLOC, SEGMENT_MAP, SEGMENT_FREE, SEGMENT_UNMAP}
        before = (e[0] for e in reversed(self.recording.events[max(0, index - 9999) : index]))
        return next((action for action in before if action not in segments), "") == FREE

    def _leave(self, index: int, reason: str) -> None:
        if self.left_at is None:
            self.left_at, self.reason = index, reason

    def proof(self, fault: str = "") -> Proof:
        """Return what came out; `fault` is why it could not even begin."""
        equal = not fault and self._layout() == _recorded_layout(self.recording)
        left_at, reason = self.left_at, self.reason
        if fault:
            left_at, reason = 0, fault
        elif left_at is None and not equal:
            left_at, reason = len(self.recording.events), "the segments at the end differ"
        return Proof(
            allocations=self.allocations,
            at_recorded_address=self.same,
            end_state_equal=equal,
            ooms=self.ooms,
            ooms_reproduced=not self.served_ooms,
            left_track_at=left_at,
            reason=reason,
            live_at_start=self.live_at_start,
            peak_allocated_bytes=self.peak,
            peak_allocated_at=self.peak_at,
            peak_reserved_bytes=self.allocator.memory_stats()["reserved_bytes.all.peak"],
            first_oom_at=self.first_oom_at,
            room_bytes=self.room,
        )

    def _layout(self) -> list[tuple[object, ...]]:
        return [
            (
                segment["address"],
                segment["total_size"],
                segment["stream"],
                [
                    (block["address"], block["size"], block["state"] != "inactive")
                    for block in segment["blocks"]
                ],
            )
            for segment in self.allocator.snapshot()
        ]


def _recorded_layout(recording: Recording) -> list[tuple[object, ...]]:
    return [
        (
            segment.address,
            segment.size,
            segment.stream,
            [(block.address, block.size, block.is_active) for block in segment.blocks],
        )
        for segment in sorted(recording.segments)
    ]


def _elsewhere(size: int, address: int, mine: int) -> str:
    return f"torch put {size} bytes at {address:#x}, the model at {mine:#x}"


def malloc_in(
    allocator: CachingAllocator, pool_id: PoolId, request: tuple[int, int, int | None]
) -> int:
    """Allocate in a private pool, as a capture or `use_mem_pool` does."""
    allocator.begin_pool(pool_id)
    try:
        return allocator.malloc(*request)
    finally:
        allocator.end_pool(pool_id)


def fitting(heap: Heap, size: int, stream: int) -> Block | None:
    """Return the cached block that would serve a request of this rounded size."""
    pool = heap.small if size <= SMALL_LIMIT_BYTES else heap.large
    home = pool.lists.get(stream)
    if home is None:
        return None
    at = bisect_left(home.keys, size << 64)
    if heap.choosy:
        at = choose(heap.config, home, size, at)
    return home.blocks[at] if at < len(home.blocks) else None


def _free_block(heap: Heap, address: int) -> Block | None:
    """Find the free block that an address lies in."""
    for pool in heap.pools():
        for home in pool.lists.values():
            for block in home.blocks:
                if block.address <= address < block.address + block.size:
                    return block
    return None

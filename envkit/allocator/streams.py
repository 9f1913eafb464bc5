"""Blocks that other streams still use: events after a free, and taking blocks back.

`give_back` is also the common end of every free and so written for speed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from typing import Final

from envkit.allocator.blocks import Block, PoolId
from envkit.allocator.heap import Heap
from envkit.allocator.stats import (
    BYTES,
    COUNT,
    FALL,
    GUARD,
    ROSE_SPLIT,
    ROSE_USE,
    SPLIT_BYTES,
    SPLITS,
)

#: Free neighbours on both sides.
_BOTH: Final = 2


def give_back(heap: Heap, block: Block) -> None:  # noqa: C901, PLR0912, PLR0915  (hot path: every free)
    """Merge a block that nobody uses with its free neighbours and make it available."""
    home = block.home
    keys, blocks = home.keys, home.blocks
    own_size = size = block.size
    merged = at = 0
    other = block.prev
    if other is not None and other.key:
        at = bisect_left(keys, other.key)
        merged = 1
        size += other.size
        block.address = other.address
        block.prev = before = other.prev
        if before is not None:
            before.next = block
        other.key = 0
        heap.spare.append(other)
    other = block.next
    if other is not None and other.key:
        if merged:
            del keys[at], blocks[at]
        at = bisect_left(keys, other.key)
        merged += 1
        size += other.size
        block.next = after = other.next
        if after is not None:
            after.prev = block
        other.key = 0
        heap.spare.append(other)
    block.size = size
    block.key = key = size << 64 | block.address
    block.freed_at = home.pool.searches
    if not merged:
        at = bisect_left(keys, key)
        keys.insert(at, key)
        blocks.insert(at, block)
    elif at + 1 == len(keys) or keys[at + 1] > key:
        # It takes the place of the neighbour, which was hardly smaller.
        keys[at] = key
        blocks[at] = block
    else:
        del keys[at], blocks[at]
        at = bisect_left(keys, key, at)
        keys.insert(at, key)
        blocks.insert(at, block)
    kind = block.kind
    ledger = heap.ledger
    if block.area is not None or (not merged and block.prev is None and block.next is None):
        if ledger.rose & ROSE_USE and (ledger.lanes + ledger.ceiling) & GUARD:
            ledger.settle_peaks()
        ledger.lanes += kind.give
    elif block.prev is not None or block.next is not None:
        if (ledger.rose & ROSE_USE or (merged == _BOTH and ledger.rose)) and (
            ledger.lanes + ledger.ceiling
        ) & GUARD:
            ledger.settle_peaks()
        ledger.lanes += kind.give_part[merged]
        ledger.rose = ROSE_SPLIT
    else:
        if ledger.rose and (ledger.lanes + ledger.ceiling) & GUARD:
            ledger.settle_peaks()
        fall = FALL[kind.scope - 1]
        ledger.lanes += kind.give - merged * fall[SPLITS] - (size - own_size) * fall[SPLIT_BYTES]


def wait_for_streams(heap: Heap, block: Block) -> None:
    """Keep a freed block aside until the streams that use it have come past this point."""
    kind = block.kind
    fall = FALL[kind.scope - 1]
    heap.ledger.settle_peaks()
    heap.ledger.lanes -= fall[COUNT] + kind.block_bytes * fall[BYTES]
    heap.ledger.wait(kind.scope, kind.block_bytes, 1)
    heap.waiting[block.address] = block
    if heap.routes:
        heap.put_off.append(block)
    else:
        _record_events(heap, block)
    heap.update_watch()


def reap_events(heap: Heap) -> None:
    """Take back the blocks whose events are done, stream by stream up to the first that is not."""
    _record_put_off(heap)
    for stream in list(heap.events):
        queue = heap.events[stream]
        while queue and queue[0][0] <= heap.done_tick:
            _one_event_less(heap, queue.popleft()[1])
        if not queue:
            del heap.events[stream]
    heap.update_watch()


def finish_all(heap: Heap, owner: PoolId | None = None) -> None:
    """Wait for every event and take back all blocks that waited, or those of one pool only."""
    if not heap.routes:
        _record_put_off(heap)
    if owner is None:
        synchronize(heap)
    for stream in list(heap.events):
        queue = heap.events.pop(stream)
        other = deque(row for row in queue if owner not in {None, row[1].home.pool.owner})
        for row in queue:
            if owner in {None, row[1].home.pool.owner}:
                _one_event_less(heap, row[1])
        if other:
            heap.events[stream] = other
    heap.update_watch()


def synchronize(heap: Heap) -> None:
    """Let all work queued so far finish."""
    heap.tick += 1
    heap.done_tick = heap.tick


def _record_put_off(heap: Heap) -> None:
    for block in heap.put_off:
        _record_events(heap, block)
    heap.put_off.clear()


def _record_events(heap: Heap, block: Block) -> None:
    streams, block.uses = block.uses, ()
    for stream in streams:
        heap.tick += 1
        block.pending += 1
        heap.events.setdefault(stream, deque()).append((heap.tick, block))


def _one_event_less(heap: Heap, block: Block) -> None:
    block.pending -= 1
    if block.pending:
        return
    kind = block.kind
    del heap.waiting[block.address]
    ledger, fall = heap.ledger, FALL[kind.scope - 1]
    ledger.wait(kind.scope, kind.block_bytes, -1)
    # It counts as allocated for this one moment, so that giving back is the same as for others.
    ledger.settle_peaks()
    ledger.lanes += fall[COUNT] + kind.block_bytes * fall[BYTES]
    give_back(heap, block)

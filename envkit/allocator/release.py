"""Giving memory back to the driver: empty_cache, the oversize rule, the garbage collection."""

from __future__ import annotations

from bisect import bisect_left

from envkit.allocator.blocks import DEFAULT_POOL, Block, FreeList, Pool, PoolId, absorb
from envkit.allocator.heap import Heap
from envkit.allocator.sizes import UNLIMITED_BYTES
from envkit.allocator.streams import finish_all


def release_everything(heap: Heap) -> None:
    """Wait for all streams, then release every whole free segment and every whole free page.

    While allocations are sent to a private pool, torch leaves alone what is not private, and waits
    for nothing (pytorch pull request 158152; measured on an H200 with torch 2.11).
    """
    if not heap.routes:
        heap.ledger.count("num_sync_all_streams")
        finish_all(heap)
        for pool in (heap.large, heap.small):
            _release_pool(heap, pool)
    for pool_id in sorted(heap.private):
        if not heap.private[pool_id].users:
            _release_private(heap, pool_id)


def release_private(heap: Heap, pool_id: PoolId) -> None:
    """Wait for what uses blocks of one private pool without users, then release what is free."""
    heap.ledger.count("num_sync_all_streams")
    finish_all(heap, owner=pool_id)
    _release_private(heap, pool_id)


def _release_private(heap: Heap, pool_id: PoolId) -> None:
    one = heap.private[pool_id]
    _release_pool(heap, one.large)
    _release_pool(heap, one.small)
    reserved = heap.ledger.private_reserved.get(pool_id)
    if reserved is None or reserved.scopes[0].current == 0:
        del heap.private[pool_id]
        heap.ledger.private_reserved.pop(pool_id, None)


def release_oversize(heap: Heap, home: FreeList, size: int) -> bool:
    """Release free blocks of `max_split_size` and more until `size` could be had.

    Returns:
        Whether enough was released; if not, what was released stays released.

    """
    least = heap.config.max_split_size_bytes
    if least == UNLIMITED_BYTES:
        return False
    goal = max(size, least)
    at = bisect_left(home.keys, goal << 64)
    if at < len(home.keys) and home.blocks[at].area is None:
        release_segment(heap, home.blocks[at])
        return True
    freed = 0
    for block in reversed(home.blocks[:at]):
        if freed >= goal or block.size < least:
            break
        if block.area is None:
            freed += block.size
            release_segment(heap, block)
    return freed >= goal


def collect_garbage(heap: Heap) -> None:
    """Release old free segments of the large pool once the threshold is passed."""
    threshold = int(heap.config.garbage_collection_threshold * float(heap.limit or 0))
    goal = heap.reserved_bytes - threshold
    pool = heap.large
    whole = [block for block in pool.free_blocks() if not block.is_part]
    ages = sum(pool.searches - block.freed_at for block in whole)
    candidates = [block for block in whole if block.area is None]
    count = len(whole)  # expandable blocks count for the mean but are never released
    freed = 0
    while freed < goal and count:
        mean = ages / count
        old = [block for block in candidates if pool.searches - block.freed_at >= mean]
        if not old:
            return
        for block in old:
            freed += block.size
            ages -= pool.searches - block.freed_at
            count -= 1
            candidates.remove(block)
            release_segment(heap, block)


def release_segment(heap: Heap, block: Block) -> None:
    """Release a free block that is a whole segment."""
    pool = block.home.pool
    block.home.drop(block)
    heap.addresses.give_up(block.address)
    heap.ledger.segments.down(pool.scope, 1)
    heap.unreserve(pool, block.size)
    if block.size >= heap.config.max_split_size_bytes:
        heap.ledger.oversize_segments.down(1)


def _release_pool(heap: Heap, pool: Pool) -> None:
    expandable = []
    for block in pool.free_blocks():
        if block.area is not None:
            expandable.append(block)
        elif not block.is_part:
            release_segment(heap, block)
    for block in expandable:
        unmap(heap, block)


def unmap(heap: Heap, block: Block) -> None:
    """Unmap the whole pages inside a free block; give up a range without mapped pages."""
    area, home = block.area, block.home
    if area is None:
        return
    page = area.page_bytes
    start = area.base - (area.base - block.address) // page * page
    end = area.base + (block.address + block.size - area.base) // page * page
    if start >= end:
        return
    home.drop(block)
    before, after = start - block.address, block.address + block.size - end
    if before:
        front = Block(home, block.address, before, area)
        front.put_between(block.prev, block)
        home.add(front)
    if after:
        back = Block(home, end, after, area)
        back.put_between(block, block.next)
        home.add(back)
    block.address, block.size, block.mapped = start, end - start, False
    absorb(block, block.prev)
    absorb(block, block.next)
    heap.unreserve(home.pool, end - start)
    if block.is_part:
        home.add_unmapped(block)
    else:
        heap.addresses.give_up(area.base)


def private_free_bytes(heap: Heap) -> int:
    """Return the bytes cached in private pools, which only these pools can use."""
    return sum(
        block.size
        for pool in heap.pools()
        if pool.owner != DEFAULT_POOL
        for block in pool.free_blocks()
    )

"""Taking memory from the driver: plain segments, and expandable ones page by page."""

from __future__ import annotations

from envkit.allocator.blocks import Area, Block, FreeList, Pool, absorb
from envkit.allocator.heap import Heap
from envkit.allocator.sizes import SMALL_SEGMENT_BYTES, ceil_to, segment_size
from envkit.allocator.stats import SMALL


def grow(heap: Heap, home: FreeList, size: int, hint: int | None) -> Block | None:
    """Return a new free block that holds `size` bytes, or None where there is no memory.

    Args:
        heap: the state.
        home: free list of the pool and stream that ask.
        size: the rounded request.
        hint: address that the driver gave to the new segment, where it is known.

    """
    want = segment_size(size, heap.config.large_segment_bytes)
    if heap.limit is not None and heap.reserved_bytes + want > heap.limit:
        return None
    if heap.config.expandable_segments:
        return _grow_area(heap, home, size, hint)
    if heap.reserved_bytes + want > heap.capacity:
        return None
    block = Block(home, heap.addresses.claim(want, hint), want)
    home.add(block)
    heap.reserve(home.pool, want)
    heap.ledger.segments.up(home.pool.scope, 1)
    if want >= heap.config.max_split_size_bytes:
        heap.ledger.oversize_segments.up(1)
    return block


def _grow_area(heap: Heap, home: FreeList, size: int, hint: int | None) -> Block | None:
    block = _start(home, size) or _new_area(heap, home, hint)
    if not block.mapped and not _map(heap, block, min(block.size, size)):
        return None
    while block.size < size:
        following = block.next
        # The start was chosen so that idle and unmapped neighbours reach far enough.
        if following is None or not _map(heap, following, min(size - block.size, following.size)):
            return None
        block = following  # mapping it merged the free block before it
    return block


def _start(home: FreeList, size: int) -> Block | None:
    """Find the first idle stretch around unmapped memory that holds `size` bytes."""
    for unmapped in home.unmapped:
        first = unmapped
        if unmapped.prev is not None and unmapped.prev.is_idle:
            first = unmapped.prev
        room = 0
        block: Block | None = first
        while block is not None and block.is_idle and room < size:
            room += block.size
            block = block.next
        if room >= size:
            return first
    return None


def _page_bytes(heap: Heap, pool: Pool) -> int:
    return SMALL_SEGMENT_BYTES if pool.scope == SMALL else heap.config.large_segment_bytes


def _new_area(heap: Heap, home: FreeList, hint: int | None) -> Block:
    page = _page_bytes(heap, home.pool)
    span = ceil_to(heap.total_memory + heap.total_memory // 8, page)
    area = Area(heap.addresses.claim(span, hint), page, span)
    block = Block(home, area.base, span, area)
    block.mapped = False
    home.add_unmapped(block)
    return block


def _map(heap: Heap, block: Block, size: int) -> bool:
    """Map whole pages from the start of an unmapped block; False where memory is used up."""
    area, home = block.area, block.home
    if area is None:
        return False
    got = ceil_to(block.address - area.base + size, area.page_bytes) - (
        (block.address - area.base) // area.page_bytes * area.page_bytes
    )
    if heap.reserved_bytes + got > heap.capacity:
        return False
    home.unmapped.remove(block)
    block.mapped = True
    if got < block.size:
        rest = Block(home, block.address + got, block.size - got, area)
        rest.mapped = False
        rest.put_between(block, block.next)
        block.size = got
        home.add_unmapped(rest)
    absorb(block, block.prev)
    absorb(block, block.next)
    home.add(block)
    heap.reserve(home.pool, got)
    return True

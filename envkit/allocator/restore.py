"""Putting a model into a given state: segments with live blocks, as a snapshot shows them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from envkit.allocator.blocks import DEFAULT_POOL, Area, Block, FreeList, Pool
from envkit.allocator.heap import Heap, PrivatePool
from envkit.allocator.rewind import StartBlock, StartSegment
from envkit.allocator.sizes import SMALL_SEGMENT_BYTES, ceil_to
from envkit.allocator.stats import RISE, SMALL, SPLIT_BYTES, SPLITS, Kind


def restore(heap: Heap, segments: Iterable[StartSegment]) -> None:
    """Fill an empty allocator; its statistics begin with what is there.

    Raises:
        ValueError: segments or blocks lie on one another.

    """
    areas: dict[tuple[int, bool, tuple[int, int]], list[StartSegment]] = {}
    for segment in segments:
        if segment.is_expandable:
            key = (segment.stream, segment.is_small, segment.pool_id)
            areas.setdefault(key, []).append(segment)
        else:
            _restore_plain(heap, segment)
    for runs in areas.values():
        _restore_area(heap, runs)


def _restore_plain(heap: Heap, segment: StartSegment) -> None:
    home = _home(heap, segment)
    heap.addresses.claim(segment.size, segment.address)
    _link(heap, home, list(_pieces(heap, home, segment, None)))
    heap.reserve(home.pool, segment.size)
    heap.ledger.segments.up(home.pool.scope, 1)
    if segment.size >= heap.config.max_split_size_bytes:
        heap.ledger.oversize_segments.up(1)


def _restore_area(heap: Heap, runs: list[StartSegment]) -> None:
    """Restore the mapped runs of one range, and the unmapped stretches between and behind them."""
    runs = sorted(runs)
    home = _home(heap, runs[0])
    small = home.pool.scope == SMALL
    page = SMALL_SEGMENT_BYTES if small else heap.config.large_segment_bytes
    base = runs[0].address
    used = runs[-1].address + runs[-1].size - base
    span = max(ceil_to(heap.total_memory + heap.total_memory // 8, page), ceil_to(used, page))
    area = Area(heap.addresses.claim(span, base), page, span)
    blocks: list[tuple[Block, StartBlock | None]] = []
    at = base
    for run in runs:
        if run.address > at:
            blocks.append((_unmapped(home, at, run.address, area), None))
        blocks.extend(_pieces(heap, home, run, area))
        if run.size:
            heap.reserve(home.pool, run.size)
        at = run.address + run.size
    if at < base + span:
        blocks.append((_unmapped(home, at, base + span, area), None))
    _link(heap, home, blocks)


def _home(heap: Heap, segment: StartSegment) -> FreeList:
    small, large = heap.small, heap.large
    if segment.pool_id != DEFAULT_POOL:
        private = heap.private.get(segment.pool_id)
        if private is None:
            private = PrivatePool(segment.pool_id, use_on_oom=False, no_split=False)
            private.users = 1
            heap.private[segment.pool_id] = private
        small, large = private.small, private.large
    pool: Pool = small if segment.is_small else large
    return pool.list_of(segment.stream)


def _unmapped(home: FreeList, start: int, end: int, area: Area) -> Block:
    block = Block(home, start, end - start, area)
    block.mapped = False
    return block


def _pieces(
    heap: Heap, home: FreeList, segment: StartSegment, area: Area | None
) -> Iterator[tuple[Block, StartBlock | None]]:
    """Yield the blocks of a segment: the live ones, and what is free between them."""
    at, end = segment.address, segment.address + segment.size
    for live in segment.blocks:
        if live.address < at or live.address + live.size > end:
            message = f"the block at {live.address:#x} lies outside its place"
            raise ValueError(message)
        if live.address > at:
            yield Block(home, at, live.address - at, area), None
        block = Block(home, live.address, live.size, area)
        block.kind = _kind(heap, home, live)
        yield block, live
        at = live.address + live.size
    if at < end:
        yield Block(home, at, end - at, area), None


def _kind(heap: Heap, home: FreeList, live: StartBlock) -> Kind:
    """Return a kind of this size; its pool is the segment's, whatever was asked for."""
    base = heap.kind_of(max(live.requested, 1))
    if base.block_bytes == live.size and base.scope == home.pool.scope:
        return base
    return Kind(
        request_bytes=live.requested,
        block_bytes=live.size,
        scope=home.pool.scope,
        tail_bytes=base.tail_bytes,
        oversize=live.size >= heap.config.max_split_size_bytes,
    )


def _link(heap: Heap, home: FreeList, blocks: list[tuple[Block, StartBlock | None]]) -> None:
    before: Block | None = None
    for block, _ in blocks:
        block.put_between(before, None)
        before = block
    rise = RISE[home.pool.scope - 1]
    for block, live in blocks:
        if live is not None:
            heap.live[block.address] = block
            heap.ledger.lanes += block.kind.take
            if block.kind.oversize:
                heap.ledger.oversize_allocations.up(1)
        elif not block.mapped:
            home.add_unmapped(block)
        else:
            home.add(block)
            if block.area is None and block.is_part:
                heap.ledger.lanes += rise[SPLITS] + block.size * rise[SPLIT_BYTES]
    heap.ledger.settle_peaks()

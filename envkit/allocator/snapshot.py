"""The segments and blocks of an allocator, laid out as `torch.cuda.memory_snapshot()` does."""

from __future__ import annotations

from typing import TypedDict

from envkit.allocator.blocks import Block, PoolId
from envkit.allocator.heap import Heap
from envkit.allocator.stats import SMALL


class BlockRow(TypedDict):
    """One block; sizes in bytes."""

    address: int
    size: int
    requested_size: int
    state: str


class Segment(TypedDict):
    """One segment, or one contiguous mapped run of an expandable segment; sizes in bytes."""

    device: int
    address: int
    total_size: int
    allocated_size: int
    active_size: int
    requested_size: int
    stream: int
    segment_type: str
    segment_pool_id: PoolId
    is_expandable: bool
    blocks: list[BlockRow]


def segments_of(heap: Heap) -> list[Segment]:
    """Return all segments in address order."""
    free = (block for pool in heap.pools() for block in pool.free_blocks())
    heads = {
        block.address: block
        for block in (*heap.live.values(), *heap.waiting.values(), *free)
        if block.prev is None or not block.prev.mapped
    }
    return [_segment(heap, heads[address]) for address in sorted(heads)]


def _segment(heap: Heap, head: Block) -> Segment:
    pool = head.home.pool
    rows: list[BlockRow] = []
    block: Block | None = head
    while block is not None and block.mapped:
        rows.append(_row(heap, block))
        block = block.next
    active = [row for row in rows if row["state"] != "inactive"]
    return Segment(
        device=0,
        address=head.address,
        total_size=sum(row["size"] for row in rows),
        allocated_size=sum(row["size"] for row in rows if row["state"] == "active_allocated"),
        active_size=sum(row["size"] for row in active),
        requested_size=sum(row["requested_size"] for row in active),
        stream=head.home.stream,
        segment_type="small" if pool.scope == SMALL else "large",
        segment_pool_id=pool.owner,
        is_expandable=head.area is not None,
        blocks=rows,
    )


def _row(heap: Heap, block: Block) -> BlockRow:
    if block.key:
        state = "inactive"
    elif block.address in heap.waiting:
        state = "active_pending_free"
    else:
        state = "active_allocated"
    return BlockRow(
        address=block.address,
        size=block.size,
        requested_size=block.kind.request_bytes,
        state=state,
    )

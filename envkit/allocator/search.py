"""What an allocation does besides taking the first large enough block."""

from __future__ import annotations

from bisect import bisect_left

from envkit.allocator.blocks import Block, FreeList, Pool
from envkit.allocator.config import Config
from envkit.allocator.growth import grow
from envkit.allocator.heap import Heap
from envkit.allocator.messages import out_of_memory, rejection
from envkit.allocator.release import collect_garbage, release_everything, release_oversize
from envkit.allocator.sizes import segment_size
from envkit.allocator.stats import SMALL, Kind
from envkit.allocator.streams import reap_events


def attend(heap: Heap, pool: Pool, stream: int) -> Pool:
    """Look at events, let the pool age, and return the pool that the allocation goes to."""
    if not heap.routes:
        reap_events(heap)
    for pool_id, streams in heap.routes:
        if streams is None or stream in streams:
            one = heap.private[pool_id]
            pool = one.small if pool.scope == SMALL else one.large
            break
    if heap.collects_garbage:
        pool.searches += 1
    return pool


def choose(config: Config, home: FreeList, size: int, at: int) -> int:
    """Return which free block is used where the first large enough one may be wrong.

    Args:
        config: the settings.
        home: the free list.
        size: the rounded request.
        at: place of the first block that is large enough.

    Returns:
        A place in the list; its length if none of the blocks may be used.

    """
    blocks = home.blocks
    none = len(blocks)
    if at < none and blocks[at].area is not None:
        while at + 1 < none and blocks[at].area is not None:
            if _reach(blocks[at + 1]) >= _reach(blocks[at]):
                break
            at += 1
    if at == none:
        return none
    found, limit = blocks[at].size, config.max_split_size_bytes
    if size < limit <= found:
        return none
    if size >= limit and found >= size + config.max_non_split_rounding_bytes:
        return none
    return at


def _reach(block: Block) -> int:
    """Return how far a free block could grow without a new range."""
    after = block.next
    return block.size if after is None or after.mapped else block.size + after.size


def new_memory(heap: Heap, home: FreeList, kind: Kind, hint: int | None) -> Block:
    """Return a free block for a request that no cached block serves.

    Raises:
        OutOfMemory: the limit or the device is full, also after the cache was released.

    """
    size = kind.block_bytes
    if heap.collects_garbage:
        collect_garbage(heap)
    _reject(heap, size)
    block = grow(heap, home, size, hint) or _borrow(heap, home, size)
    if block is None and release_oversize(heap, home, size):
        block = grow(heap, home, size, hint)
    if block is None and not heap.routes:
        release_everything(heap)
        heap.ledger.count("num_alloc_retries")
        block = grow(heap, home, size, hint)
    if block is None:
        heap.ledger.count("num_ooms")
        raise out_of_memory(heap, segment_size(size, heap.config.large_segment_bytes))
    return block


def _reject(heap: Heap, size: int) -> None:
    if not heap.config.throw_on_oom or heap.limit is None:
        return
    want = segment_size(size, heap.config.large_segment_bytes)
    if heap.reserved_bytes + want > heap.limit:
        heap.ledger.count("num_oom_rejections")
        raise rejection(heap, want)


def _borrow(heap: Heap, home: FreeList, size: int) -> Block | None:
    """Look for a cached block in the private pools that lend in need."""
    for pool_id in sorted(heap.private):
        one = heap.private[pool_id]
        pool = one.small if home.pool.scope == SMALL else one.large
        other = pool.lists.get(home.stream)
        if not one.use_on_oom or pool is home.pool or other is None:
            continue
        at = bisect_left(other.keys, size << 64)
        if heap.choosy:
            at = choose(heap.config, other, size, at)
        if at < len(other.blocks):
            return other.blocks[at]
    return None

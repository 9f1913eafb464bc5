"""Blocks, the index of free blocks, pools, and the address ranges of expandable segments.

A free block has a key: its size in the high bits, its address in the low 64. Keys of one pool and
stream are kept in a sorted list beside the list of their blocks, so that "the smallest block that
is large enough, ties to the lowest address" is one bisection over plain integers.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import Final

from envkit.allocator.stats import NO_KIND, Kind

ADDRESS_BITS: Final = 64
#: Id of the pools that are no private pools.
DEFAULT_POOL: Final = (0, 0)

PoolId = tuple[int, int]


class Block:
    """A piece of a segment: in use, free, waiting for other streams, or (expandable) unmapped."""

    __slots__ = (
        "address",
        "area",
        "freed_at",
        "home",
        "key",
        "kind",
        "mapped",
        "next",
        "pending",
        "prev",
        "size",
        "uses",
    )

    def __init__(self, home: FreeList, address: int, size: int, area: Area | None = None) -> None:
        self.home = home
        self.address = address
        self.size = size
        #: The expandable range it lies in; None for memory from plain segments.
        self.area = area
        self.mapped = True
        #: Size << 64 | address while it is in the free index, else 0.
        self.key = 0
        #: The request it serves, or served last (torch keeps showing that size).
        self.kind: Kind = NO_KIND
        self.prev: Block | None = None
        self.next: Block | None = None
        #: Streams named by record_stream.
        self.uses: tuple[int, ...] = ()
        #: Events that it waits for.
        self.pending = 0
        #: Number of searches of the pool when it became free, for the garbage collection; it looks
        #: at whole segments only, so it is not kept up for the rest of a split.
        self.freed_at = 0

    @property
    def is_part(self) -> bool:
        """Whether the segment holds other blocks too."""
        return self.prev is not None or self.next is not None

    @property
    def is_idle(self) -> bool:
        """Whether nobody uses or waits for it: free, or unmapped."""
        return self.key != 0 or not self.mapped

    def put_between(self, before: Block | None, after: Block | None) -> None:
        """Link it in between two neighbours."""
        self.prev, self.next = before, after
        if before is not None:
            before.next = self
        if after is not None:
            after.prev = self


class FreeList:
    """The free blocks of one pool and stream, by size and address; and its unmapped ranges."""

    __slots__ = ("blocks", "keys", "pool", "stream", "unmapped")

    def __init__(self, pool: Pool, stream: int) -> None:
        self.pool = pool
        self.stream = stream
        self.keys: list[int] = []
        self.blocks: list[Block] = []
        #: Unmapped blocks of expandable ranges, by address.
        self.unmapped: list[Block] = []

    def add(self, block: Block) -> None:
        """Make a block available."""
        block.freed_at = self.pool.searches
        block.key = key = block.size << ADDRESS_BITS | block.address
        at = bisect_left(self.keys, key)
        self.keys.insert(at, key)
        self.blocks.insert(at, block)

    def drop(self, block: Block) -> None:
        """Take a block out."""
        at = bisect_left(self.keys, block.key)
        del self.keys[at], self.blocks[at]
        block.key = 0

    def add_unmapped(self, block: Block) -> None:
        """Note an unmapped block."""
        addresses = [other.address for other in self.unmapped]
        self.unmapped.insert(bisect_left(addresses, block.address), block)


class Pool:
    """The small or the large half of the default pools or of a private pool."""

    __slots__ = ("lists", "no_split", "owner", "scope", "searches")

    def __init__(self, scope: int, owner: PoolId = DEFAULT_POOL, *, no_split: bool = False) -> None:
        self.scope = scope
        self.owner = owner
        self.no_split = no_split
        self.lists: dict[int, FreeList] = {}
        #: Searches while the garbage collection is on: the clock by which blocks age.
        self.searches = 0

    def list_of(self, stream: int) -> FreeList:
        """Return the free list of a stream, made at its first use."""
        found = self.lists.get(stream)
        if found is None:
            found = self.lists[stream] = FreeList(self, stream)
        return found

    def free_blocks(self) -> Iterator[Block]:
        """Go through a copy of all free blocks, by stream, size and address."""
        for stream in sorted(self.lists):
            yield from tuple(self.lists[stream].blocks)


class Area:
    """The address range of one expandable segment, mapped page by page."""

    __slots__ = ("base", "page_bytes", "size")

    def __init__(self, base: int, page_bytes: int, size: int) -> None:
        self.base = base
        self.page_bytes = page_bytes
        self.size = size


def absorb(block: Block, other: Block | None) -> None:
    """Merge an idle neighbour of the same mapping state into `block`, which is in no index."""
    if other is None or not other.is_idle or other.mapped != block.mapped:
        return
    if other.mapped:
        other.home.drop(other)
    else:
        other.home.unmapped.remove(other)
    if block.prev is other:
        block.address = other.address
        block.prev = other.prev
        if block.prev is not None:
            block.prev.next = block
    else:
        block.next = other.next
        if block.next is not None:
            block.next.prev = block
    block.size += other.size

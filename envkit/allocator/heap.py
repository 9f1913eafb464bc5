"""The state of one device's allocator: pools, blocks in use, limits, and what waits for streams."""

from __future__ import annotations

from collections import deque
from typing import Final

from envkit.allocator.addresses import AddressSpace
from envkit.allocator.blocks import DEFAULT_POOL, Block, Pool, PoolId
from envkit.allocator.config import Config
from envkit.allocator.sizes import (
    MIN_BLOCK_BYTES,
    SMALL_LIMIT_BYTES,
    UNLIMITED_BYTES,
    round_request,
)
from envkit.allocator.stats import ALL, LARGE, SMALL, Gauges, Kind, Ledger

#: Kinds kept before the table is emptied: a program asks for far fewer different sizes.
_KINDS_KEPT: Final = 1 << 16


class PrivatePool:
    """A pool pair of its own: a CUDA graph's, or a MemPool's."""

    __slots__ = ("large", "pool_id", "small", "use_on_oom", "users")

    def __init__(self, pool_id: PoolId, *, use_on_oom: bool, no_split: bool) -> None:
        self.pool_id = pool_id
        self.small = Pool(SMALL, pool_id, no_split=no_split)
        self.large = Pool(LARGE, pool_id, no_split=no_split)
        self.use_on_oom = use_on_oom
        #: Graphs and MemPool objects that keep its segments.
        self.users = 0


class Heap:
    """What the operations in `growth`, `release`, `streams` and `model` work on."""

    __slots__ = (
        "addresses",
        "capacity",
        "choosy",
        "config",
        "done_tick",
        "events",
        "kinds",
        "large",
        "ledger",
        "limit",
        "live",
        "odd_kinds",
        "private",
        "put_off",
        "routes",
        "small",
        "spare",
        "split_limit",
        "tick",
        "total_memory",
        "version",
        "waiting",
        "watch",
    )

    def __init__(
        self, config: Config, *, total_memory: int, capacity: int, first_address: int
    ) -> None:
        self.config = config
        self.version = config.version
        #: Bytes of the device, the base of the memory fraction.
        self.total_memory = total_memory
        #: Bytes that the driver can still give this process altogether.
        self.capacity = capacity
        self.addresses = AddressSpace(first_address)
        self.ledger = Ledger(_counters(config.version))
        self.small = Pool(SMALL)
        self.large = Pool(LARGE)
        self.private: dict[PoolId, PrivatePool] = {}
        #: Pools that take the allocations of some streams (None: all) now, newest last.
        self.routes: list[tuple[PoolId, frozenset[int] | None]] = []
        #: Blocks in use by address.
        self.live: dict[int, Block] = {}
        #: Freed blocks that wait for other streams, by address.
        self.waiting: dict[int, Block] = {}
        #: Those whose events cannot be recorded before a capture ends.
        self.put_off: list[Block] = []
        self.events: dict[int, deque[tuple[int, Block]]] = {}
        self.tick = 0
        self.done_tick = 0
        self.limit: int | None = None
        #: Block objects that merging left over.
        self.spare: list[Block] = []
        self.kinds: dict[int, Kind] = {}
        self.odd_kinds: dict[tuple[int, int], Kind] = {}
        #: Whether the first large enough free block may be the wrong one.
        self.choosy = config.expandable_segments or config.max_split_size_bytes != UNLIMITED_BYTES
        self.split_limit = config.max_split_size_bytes
        #: Whether an allocation has to look at events, captures or ages first.
        self.watch = False

    @property
    def reserved_bytes(self) -> int:
        """Bytes taken from the driver."""
        return self.ledger.reserved.scopes[ALL].current

    @property
    def collects_garbage(self) -> bool:
        """Whether the garbage collection threshold is in force."""
        return self.limit is not None and self.config.garbage_collection_threshold > 0.0

    def update_watch(self) -> None:
        """Set `watch` after one of its reasons changed."""
        self.watch = bool(self.routes or self.events or self.put_off or self.collects_garbage)

    def kind_of(self, request_bytes: int) -> Kind:
        """Return the kind of a request that is met for the first time."""
        size = round_request(request_bytes, self.config.roundup_divisions)
        small = size <= SMALL_LIMIT_BYTES
        if small or self.config.expandable_segments:
            tail = MIN_BLOCK_BYTES - 1
        elif size < self.config.max_split_size_bytes:
            tail = SMALL_LIMIT_BYTES
        else:
            tail = UNLIMITED_BYTES
        if len(self.kinds) >= _KINDS_KEPT:
            self.kinds.clear()
        kind = self.kinds[request_bytes] = Kind(
            request_bytes=request_bytes,
            block_bytes=size,
            scope=SMALL if small else LARGE,
            tail_bytes=tail,
            oversize=size >= self.config.max_split_size_bytes,
        )
        return kind

    def loose_kind(self, kind: Kind, block_bytes: int) -> Kind:
        """Return the kind of a request that gets a larger block than it needs."""
        found = self.odd_kinds.get((kind.request_bytes, block_bytes))
        if found is None:
            if len(self.odd_kinds) >= _KINDS_KEPT:
                self.odd_kinds.clear()
            found = self.odd_kinds[kind.request_bytes, block_bytes] = Kind(
                request_bytes=kind.request_bytes,
                block_bytes=block_bytes,
                scope=kind.scope,
                tail_bytes=kind.tail_bytes,
                oversize=block_bytes >= self.config.max_split_size_bytes,
            )
        return found

    def reserve(self, pool: Pool, size: int) -> None:
        """Account for memory that the driver gave."""
        self.ledger.reserved.up(pool.scope, size)
        self.ledger.count("num_device_alloc")
        if pool.owner != DEFAULT_POOL:
            self.ledger.private_reserved.setdefault(pool.owner, Gauges()).up(pool.scope, size)

    def unreserve(self, pool: Pool, size: int) -> None:
        """Account for memory given back to the driver."""
        self.ledger.reserved.down(pool.scope, size)
        self.ledger.count("num_device_free")
        if pool.owner != DEFAULT_POOL:
            self.ledger.private_reserved[pool.owner].down(pool.scope, size)

    def pools(self) -> list[Pool]:
        """Return all pools: the default ones first, then private ones by id."""
        private = (self.private[pool_id] for pool_id in sorted(self.private))
        return [
            self.large,
            self.small,
            *(half for one in private for half in (one.large, one.small)),
        ]


def _counters(version: tuple[int, int]) -> tuple[str, ...]:
    names = ["num_alloc_retries", "num_ooms"]
    if version >= (2, 3):
        names += ["num_sync_all_streams", "num_device_alloc", "num_device_free"]
    if version >= (2, 12):
        names.append("num_oom_rejections")
    return tuple(names)

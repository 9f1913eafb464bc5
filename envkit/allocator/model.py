"""The reference model of PyTorch's native CUDA caching allocator on one device.

What it models, what not, and what was measured: `docs/reference/allocator-model.md`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping

from envkit.allocator import private
from envkit.allocator.addresses import AddressSpace
from envkit.allocator.blocks import Block, PoolId
from envkit.allocator.config import Config
from envkit.allocator.heap import Heap
from envkit.allocator.messages import absurd_request
from envkit.allocator.options import FIRST_VERSION, LAST_VERSION, Version
from envkit.allocator.release import release_everything
from envkit.allocator.search import attend, choose, new_memory
from envkit.allocator.sizes import ABSURD_BYTES, GIB, UNLIMITED_BYTES
from envkit.allocator.snapshot import Segment, segments_of
from envkit.allocator.stats import (
    GUARD,
    RISE,
    ROSE_SPLIT,
    ROSE_USE,
    SMALL,
    SPLIT_BYTES,
    SPLITS,
    Nested,
    Values,
)
from envkit.allocator.streams import give_back, synchronize, wait_for_streams


class CachingAllocator:
    """Answers allocations and frees as torch does, and keeps the same statistics.

    Args:
        conf: the settings text, as in PYTORCH_CUDA_ALLOC_CONF.
        total_memory: bytes of the device; the memory fraction is a share of it.
        capacity: bytes the driver can give this process; by default all of `total_memory`.
        version: release of torch, from 2.1 to 2.14.
        bump_base: where addresses start that no recording gives. Torch takes the lowest of
            equally large free blocks, so results can depend on the addresses the driver gives.
        addresses: where the driver puts new segments; by default one above the other, from
            `bump_base` on.

    Raises:
        ConfigError: torch would refuse the settings.
        ValueError: a release or a backend that is not modelled.

    """

    __slots__ = ("_heap", "_kinds", "_live")

    def __init__(  # noqa: PLR0913  (what a device and its driver are)
        self,
        conf: str | None = "",
        *,
        total_memory: int = 80 * GIB,
        capacity: int | None = None,
        version: Version = (2, 11),
        bump_base: int = 0x7F0000000000,
        addresses: AddressSpace | None = None,
    ) -> None:
        if not FIRST_VERSION <= version <= LAST_VERSION:
            message = "the allocator of torch {}.{} is not modelled, only 2.1 to 2.14".format(
                *version
            )
            raise ValueError(message)
        config = Config.parse(conf, version)
        if config.backend != "native":
            message = f"the allocator backend {config.backend!r} is not modelled, only 'native'"
            raise ValueError(message)
        self._heap = Heap(
            config,
            total_memory=total_memory,
            capacity=total_memory if capacity is None else capacity,
            first_address=bump_base,
        )
        if addresses is not None:
            self._heap.addresses = addresses
        self._kinds = self._heap.kinds
        self._live = self._heap.live
        if config.memory_fraction is not None:
            self.set_memory_fraction(config.memory_fraction)

    @property
    def heap(self) -> Heap:
        """The state behind it, for what replays and restores; it must be left consistent."""
        return self._heap

    @property
    def config(self) -> Config:
        """The settings in force."""
        return self._heap.config

    def malloc(  # noqa: C901, PLR0912, PLR0915  (hot path: one function, no calls for common cases)
        self, nbytes: int, stream: int = 0, addr_hint: int | None = None
    ) -> int:
        """Allocate and return the address; 0 for a request of 0 bytes.

        Args:
            nbytes: the request.
            stream: handle of the stream.
            addr_hint: where the driver placed the new segment, if this request needs one.

        Raises:
            OutOfMemory: the limit or the device is full.
            ValueError: a new segment is needed and cannot lie at `addr_hint`.

        """
        kind = self._kinds.get(nbytes)
        if kind is None:
            if nbytes <= 0:
                return 0
            if nbytes >= ABSURD_BYTES:
                raise absurd_request()
            kind = self._heap.kind_of(nbytes)
        heap = self._heap
        pool = heap.small if kind.scope == SMALL else heap.large
        if heap.watch:
            pool = attend(heap, pool, stream)
        try:
            home = pool.lists[stream]
        except KeyError:
            home = pool.list_of(stream)
        keys = home.keys
        at = bisect_left(keys, kind.key)
        if heap.choosy and at < len(keys):
            block = home.blocks[at]
            if block.area is not None or kind.oversize or block.size >= heap.split_limit:
                at = choose(heap.config, home, kind.block_bytes, at)
        if at == len(keys):
            block = new_memory(heap, home, kind, addr_hint)
            home = block.home
            pool, keys = home.pool, home.keys
            at = bisect_left(keys, block.key)
        ledger = heap.ledger
        block = home.blocks[at]
        address = block.address
        before = block.prev
        size = kind.block_bytes
        rest = block.size - size
        if rest > kind.tail_bytes and not pool.no_split:
            # The front is handed out; the rest stays in the list, mostly at the same place.
            key = rest << 64 | address + size
            if at and keys[at - 1] > key:
                del keys[at], home.blocks[at]
                at = bisect_left(keys, key, 0, at)
                keys.insert(at, key)
                home.blocks.insert(at, block)
            else:
                keys[at] = key
            block.key = key
            block.size = rest
            block.address = address + size
            if heap.spare:
                front = heap.spare.pop()
                front.home = home
                front.address = address
                front.size = size
                front.area = block.area
            else:
                front = Block(home, address, size, block.area)
            front.prev = before
            front.next = block
            block.prev = front
            if before is not None:
                before.next = front
            if block.area is not None:
                ledger.lanes += kind.take
                ledger.rose |= ROSE_USE
            elif before is None and block.next is None:
                rise = RISE[kind.scope - 1]
                ledger.lanes += kind.take + rise[SPLITS] + rest * rise[SPLIT_BYTES]
                ledger.rose = ROSE_USE | ROSE_SPLIT
            else:
                if ledger.rose & ROSE_SPLIT and (ledger.lanes + ledger.ceiling) & GUARD:
                    ledger.settle_peaks()
                ledger.lanes += kind.shrink
                ledger.rose = ROSE_USE
            block = front
        else:
            del keys[at], home.blocks[at]
            block.key = 0
            if rest:
                kind = heap.loose_kind(kind, block.size)
            if block.area is None and (before is not None or block.next is not None):
                if ledger.rose & ROSE_SPLIT and (ledger.lanes + ledger.ceiling) & GUARD:
                    ledger.settle_peaks()
                ledger.lanes += kind.take_part
                ledger.rose = ROSE_USE
            else:
                ledger.lanes += kind.take
                ledger.rose |= ROSE_USE
        block.kind = kind
        self._live[address] = block
        if kind.oversize:
            ledger.oversize_allocations.up(1)
        if heap.waiting:
            ledger.lift_active()
        return address

    def free(self, address: int) -> None:
        """Free what `malloc` returned.

        Raises:
            KeyError: nothing in use starts at this address.

        """
        block = self._live.pop(address)
        heap = self._heap
        if block.kind.oversize:
            heap.ledger.oversize_allocations.down(1)
        if block.uses:
            wait_for_streams(heap, block)
        else:
            give_back(heap, block)

    def record_stream(self, address: int, stream: int) -> None:
        """Note that another stream uses the block, as `Tensor.record_stream` does.

        Raises:
            KeyError: nothing in use starts at this address.

        """
        block = self._live[address]
        if stream != block.home.stream and stream not in block.uses:
            block.uses = (*block.uses, stream)

    def synchronize(self) -> None:
        """Let all work queued so far finish, as `torch.cuda.synchronize()` does."""
        synchronize(self._heap)

    def empty_cache(self) -> None:
        """Release all whole free segments and pages, as `torch.cuda.empty_cache()` does."""
        release_everything(self._heap)

    def set_memory_fraction(self, fraction: float) -> None:
        """Limit this process to a share of the device.

        Up to torch 2.9 the share 1.0 sets a limit too; since 2.10 it removes the limit.

        Raises:
            ValueError: the share is not within 0 and 1.

        """
        if not 0.0 <= fraction <= 1.0:
            message = f"the memory fraction is {fraction} but must be from 0 to 1"
            raise ValueError(message)
        heap = self._heap
        removes = fraction == 1.0 and heap.version >= (2, 10)
        heap.limit = None if removes else int(fraction * float(heap.total_memory))
        heap.update_watch()

    def reset_peak(self) -> None:
        """Set all peaks to the current values."""
        self._heap.ledger.reset_peak()

    def reset_accumulated(self) -> None:
        """Set all totals and counters to zero."""
        self._heap.ledger.reset_accumulated()

    def memory_stats_nested(self) -> Nested:
        """Return what `torch.cuda.memory_stats_as_nested_dict()` returns in this release."""
        heap = self._heap
        out = heap.ledger.nested()
        limit = heap.config.max_split_size_bytes
        out["max_split_size"] = -1 if limit == UNLIMITED_BYTES else limit
        if heap.version >= (2, 13):
            out["reserved_bytes_by_private_pools"] = {
                "{}_{}".format(*pool_id): gauges.values()
                for pool_id, gauges in sorted(heap.ledger.private_reserved.items())
            }
        return out

    def memory_stats(self) -> Values:
        """Return what `torch.cuda.memory_stats()` returns: flat names, in order."""
        return dict(sorted(_flat("", self.memory_stats_nested())))

    def snapshot(self) -> list[Segment]:
        """Return the segments and their blocks in address order, as `memory_snapshot()` does."""
        return segments_of(self._heap)

    def create_pool(
        self, pool_id: PoolId, *, use_on_oom: bool = False, no_split: bool = False
    ) -> None:
        """Make a private pool with one user, as `torch.cuda.MemPool()` does.

        Args:
            pool_id: its id, not (0, 0).
            use_on_oom: other allocations may take its cached blocks before they fail (2.8).
            no_split: its blocks are never split (2.10).

        Raises:
            ValueError: the id is taken, or this release has no such option.

        """
        private.create(self._heap, pool_id, use_on_oom=use_on_oom, no_split=no_split)

    def begin_pool(self, pool_id: PoolId, streams: Collection[int] | None = None) -> None:
        """Send the allocations of some streams (None: all) to a pool, which gets one more user.

        This is what a graph capture and `torch.cuda.use_mem_pool` do. Until `end_pool` no event is
        looked at and the cache is not flushed when memory runs out.

        Raises:
            ValueError: the id is that of the default pools, or already receives allocations.

        """
        private.begin(self._heap, pool_id, streams)

    def end_pool(self, pool_id: PoolId) -> None:
        """End what `begin_pool` began; the pool keeps its user.

        Raises:
            KeyError: no allocations are sent to this pool.

        """
        private.end(self._heap, pool_id)

    def release_pool(self, pool_id: PoolId) -> None:
        """Take one user away, as the reset of a graph and the end of `use_mem_pool` do.

        Without users, what is free in whole segments goes with the next `empty_cache`.

        Raises:
            KeyError: there is no such pool, or it has no user.

        """
        private.release(self._heap, pool_id)

    def drop_pool(self, pool_id: PoolId) -> None:
        """Take the user away that `create_pool` made, as the end of a `torch.cuda.MemPool` does.

        If it was the last one, the pool's free segments go at once, after one synchronisation with
        what still uses its blocks; the rest goes with an `empty_cache` after it was freed.

        Raises:
            KeyError: there is no such pool, or it has no user.

        """
        private.drop(self._heap, pool_id)


def _flat(prefix: str, values: Mapping[str, object]) -> Iterator[tuple[str, int]]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _flat(f"{prefix}{name}.", value)
        elif isinstance(value, int):
            yield prefix + name, value

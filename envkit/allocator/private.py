"""Private pools: what graph captures and MemPool do to the allocator.

Written from the sources, and held against what torch 2.11.0+cu130 did on an NVIDIA H200 on
2026-12-01 (18 programs of pools and captures, `tests/allocator/test_pool_recordings.py`). Other
releases were not measured.
"""

from __future__ import annotations

from collections.abc import Collection

from envkit.allocator.blocks import DEFAULT_POOL, PoolId
from envkit.allocator.heap import Heap, PrivatePool
from envkit.allocator.release import release_private

_USE_ON_OOM_SINCE = (2, 8)
_NO_SPLIT_SINCE = (2, 10)
#: pytorch issue 161193, mended by pull request 168382 in December 2025; measured with 2.11.
_INNERMOST_SINCE = (2, 10)


def create(heap: Heap, pool_id: PoolId, *, use_on_oom: bool, no_split: bool) -> None:
    """Add a private pool with one user."""
    if pool_id == DEFAULT_POOL or pool_id in heap.private:
        message = f"the pool id {pool_id} is taken"
        raise ValueError(message)
    for option, given, since in (
        ("use_on_oom", use_on_oom, _USE_ON_OOM_SINCE),
        ("no_split", no_split, _NO_SPLIT_SINCE),
    ):
        if given and heap.version < since:
            message = "torch {}.{} has no MemPool option {}".format(*heap.version, option)
            raise ValueError(message)
    pool = heap.private[pool_id] = PrivatePool(pool_id, use_on_oom=use_on_oom, no_split=no_split)
    pool.users = 1


def begin(heap: Heap, pool_id: PoolId, streams: Collection[int] | None) -> None:
    """Send the allocations of some streams to a pool."""
    if any(pool_id == other for other, _ in heap.routes):
        message = f"allocations are sent to the pool {pool_id} already"
        raise ValueError(message)
    if pool_id in heap.private:
        heap.private[pool_id].users += 1
    else:
        create(heap, pool_id, use_on_oom=False, no_split=False)
    route = (pool_id, None if streams is None else frozenset(streams))
    # The first that fits is used: the innermost pool, and before that was mended the outermost.
    heap.routes.insert(0 if heap.version >= _INNERMOST_SINCE else len(heap.routes), route)
    heap.update_watch()


def end(heap: Heap, pool_id: PoolId) -> None:
    """Send no more allocations to a pool."""
    for route in heap.routes:
        if route[0] == pool_id:
            heap.routes.remove(route)
            heap.update_watch()
            return
    message = f"no allocations are sent to the pool {pool_id}"
    raise KeyError(message)


def release(heap: Heap, pool_id: PoolId) -> None:
    """Take one user of a pool away."""
    pool = heap.private.get(pool_id)
    if pool is None or pool.users == 0:
        message = f"the pool {pool_id} has no user"
        raise KeyError(message)
    pool.users -= 1


def drop(heap: Heap, pool_id: PoolId) -> None:
    """Take away the user that a MemPool object is, and empty the pool if it was the last one."""
    release(heap, pool_id)
    if not heap.private[pool_id].users:
        release_private(heap, pool_id)

"""Private pools: the rules as read from the sources, and what was measured of them on an H200."""

from __future__ import annotations

import pytest

from envkit.allocator import CachingAllocator, OutOfMemory
from envkit.allocator.sizes import GIB, MIB

POOL = (0, 1)
RESERVED = "reserved_bytes.all.current"
COUNTED = (
    RESERVED,
    *(f"{name}.all.current" for name in ("segment", "active", "allocation", "inactive_split")),
    *("allocated_bytes.all.current", "inactive_split_bytes.all.current"),
    *("num_sync_all_streams", "num_device_alloc", "num_device_free", "num_alloc_retries"),
)


def test_routed_allocations_get_segments_of_their_own() -> None:
    allocator = CachingAllocator()
    allocator.free(allocator.malloc(4 * MIB))
    allocator.begin_pool(POOL, streams=[7])
    allocator.malloc(4 * MIB, stream=0)
    allocator.malloc(4 * MIB, stream=7)
    allocator.end_pool(POOL)
    allocator.malloc(4 * MIB, stream=7)
    owners = [segment["segment_pool_id"] for segment in allocator.snapshot()]
    assert owners == [(0, 0), POOL, (0, 0)]


def test_segments_stay_while_the_pool_has_a_user() -> None:
    allocator = CachingAllocator(version=(2, 13))
    allocator.begin_pool(POOL)
    allocator.free(allocator.malloc(30 * MIB))
    kept = allocator.malloc(1)
    allocator.end_pool(POOL)
    allocator.empty_cache()
    assert allocator.memory_stats()[RESERVED] == 32 * MIB
    assert allocator.memory_stats()["reserved_bytes_by_private_pools.0_1.all.current"] == 32 * MIB
    allocator.release_pool(POOL)
    assert allocator.memory_stats()[RESERVED] == 32 * MIB
    allocator.empty_cache()
    assert allocator.memory_stats()[RESERVED] == 2 * MIB
    allocator.free(kept)
    allocator.empty_cache()
    assert allocator.memory_stats()[RESERVED] == 0
    assert len(allocator.memory_stats()) == 123


def test_a_private_pool_adds_twelve_statistics() -> None:
    allocator = CachingAllocator(version=(2, 13))
    allocator.begin_pool(POOL)
    allocator.malloc(1)
    assert len(allocator.memory_stats()) == 123 + 12


def test_a_pool_used_twice_needs_two_releases() -> None:
    allocator = CachingAllocator()
    for _ in range(2):
        allocator.begin_pool(POOL)
        allocator.free(allocator.malloc(30 * MIB))
        allocator.end_pool(POOL)
    assert allocator.memory_stats()[RESERVED] == 30 * MIB
    allocator.release_pool(POOL)
    allocator.empty_cache()
    assert allocator.memory_stats()[RESERVED] == 30 * MIB
    allocator.release_pool(POOL)
    allocator.empty_cache()
    assert allocator.memory_stats()[RESERVED] == 0
    with pytest.raises(KeyError):
        allocator.release_pool(POOL)


def test_a_capture_neither_looks_at_events_nor_flushes_the_cache() -> None:
    allocator = CachingAllocator(total_memory=100 * MIB)
    cached = allocator.malloc(40 * MIB)
    allocator.free(cached)
    allocator.begin_pool(POOL)
    shared = allocator.malloc(20 * MIB)
    allocator.record_stream(shared, 3)
    allocator.free(shared)
    allocator.synchronize()
    with pytest.raises(OutOfMemory):
        allocator.malloc(60 * MIB)
    stats = allocator.memory_stats()
    assert stats["num_alloc_retries"] == 0
    assert stats["active_bytes.all.current"] == 20 * MIB
    allocator.end_pool(POOL)
    allocator.malloc(1)  # records the event that was put off
    assert allocator.memory_stats()["active_bytes.all.current"] == 20 * MIB + 512
    allocator.synchronize()
    allocator.malloc(1)
    assert allocator.memory_stats()["active_bytes.all.current"] == 2 * 512


def test_an_event_of_before_a_capture_is_not_looked_at_in_it() -> None:
    allocator = CachingAllocator()
    address = allocator.malloc(20 * MIB)
    allocator.record_stream(address, 3)
    allocator.free(address)
    allocator.synchronize()
    allocator.begin_pool(POOL)
    allocator.malloc(1)
    assert allocator.memory_stats()["active.all.current"] == 2
    allocator.end_pool(POOL)
    allocator.malloc(1)
    assert allocator.memory_stats()["active.all.current"] == 2
    assert allocator.memory_stats()["active_bytes.all.current"] == 2 * 512


def test_a_lending_pool_is_asked_before_the_cache_is_flushed() -> None:
    allocator = CachingAllocator(total_memory=100 * MIB)
    allocator.create_pool(POOL, use_on_oom=True)
    allocator.begin_pool(POOL)
    lent = allocator.malloc(60 * MIB)
    allocator.free(lent)
    allocator.end_pool(POOL)
    assert allocator.malloc(50 * MIB) == lent
    assert allocator.memory_stats()["num_alloc_retries"] == 0
    with pytest.raises(OutOfMemory):
        allocator.malloc(60 * MIB)


def test_a_pool_that_does_not_lend_fails_with_its_free_bytes_in_the_message() -> None:
    allocator = CachingAllocator(total_memory=GIB)
    allocator.begin_pool(POOL)
    allocator.free(allocator.malloc(600 * MIB))
    allocator.end_pool(POOL)
    with pytest.raises(OutOfMemory) as caught:
        allocator.malloc(500 * MIB)
    assert (
        "600.00 MiB is allocated by PyTorch, with 600.00 MiB allocated in private pools "
        "(e.g., CUDA Graphs), and 0 bytes is reserved" in str(caught.value)
    )


def test_blocks_of_an_unsplit_pool_are_used_whole() -> None:
    allocator = CachingAllocator()
    allocator.create_pool(POOL, no_split=True)
    allocator.begin_pool(POOL)
    allocator.malloc(1)
    assert allocator.memory_stats()["allocated_bytes.all.current"] == 2 * MIB


def test_the_end_of_a_mempool_gives_back_at_once_what_is_free_in_it() -> None:
    """Measured on an NVIDIA H200 with torch 2.11.0+cu130, 2026-11-30: one synchronisation more."""
    allocator = CachingAllocator()
    cached = allocator.malloc(4 * MIB)
    allocator.free(cached)  # of the default pool: it stays
    allocator.create_pool(POOL)
    allocator.begin_pool(POOL)
    kept, free = allocator.malloc(30 * MIB), allocator.malloc(4 * MIB)
    allocator.end_pool(POOL)
    allocator.release_pool(POOL)  # the end of use_mem_pool
    allocator.free(free)
    before = allocator.memory_stats()
    allocator.drop_pool(POOL)
    after = allocator.memory_stats()
    changed = {name: after[name] - before[name] for name in COUNTED if after[name] != before[name]}
    assert changed == {
        RESERVED: -20 * MIB,
        "segment.all.current": -1,
        "num_sync_all_streams": 1,
        "num_device_free": 1,
    }
    allocator.free(kept)
    assert allocator.memory_stats()[RESERVED] == 50 * MIB
    allocator.empty_cache()
    assert allocator.memory_stats()[RESERVED] == 0


def test_a_mempool_that_is_still_used_is_not_emptied() -> None:
    allocator = CachingAllocator()
    allocator.create_pool(POOL)
    allocator.begin_pool(POOL)
    allocator.free(allocator.malloc(30 * MIB))
    allocator.end_pool(POOL)
    allocator.drop_pool(POOL)
    assert allocator.memory_stats()[RESERVED] == 30 * MIB
    assert allocator.memory_stats()["num_sync_all_streams"] == 0
    allocator.release_pool(POOL)
    allocator.empty_cache()
    assert allocator.memory_stats()[RESERVED] == 0


def test_the_end_of_a_mempool_waits_for_its_own_blocks_only() -> None:
    allocator = CachingAllocator()
    other = allocator.malloc(30 * MIB)
    allocator.record_stream(other, 3)
    allocator.create_pool(POOL)
    allocator.begin_pool(POOL)
    own = allocator.malloc(30 * MIB)
    allocator.record_stream(own, 3)
    allocator.end_pool(POOL)
    allocator.release_pool(POOL)
    allocator.free(other)
    allocator.free(own)
    assert allocator.memory_stats()["active.all.current"] == 2
    allocator.drop_pool(POOL)
    assert allocator.memory_stats()["active.all.current"] == 1
    assert allocator.memory_stats()[RESERVED] == 30 * MIB


def test_a_graph_gives_back_with_empty_cache_only() -> None:
    allocator = CachingAllocator()
    allocator.begin_pool(POOL, [77])
    allocator.free(allocator.malloc(30 * MIB, 77))
    allocator.end_pool(POOL)
    allocator.release_pool(POOL)  # the graph's reset
    assert allocator.memory_stats()[RESERVED] == 30 * MIB
    allocator.empty_cache()
    assert allocator.memory_stats()[RESERVED] == 0


@pytest.mark.parametrize(("option", "version"), [("use_on_oom", (2, 7)), ("no_split", (2, 9))])
def test_pool_options_belong_to_releases(option: str, version: tuple[int, int]) -> None:
    allocator = CachingAllocator(version=version)
    with pytest.raises(ValueError, match=option):
        allocator.create_pool(POOL, **{option: True})


def test_pool_ids_are_checked() -> None:
    allocator = CachingAllocator()
    with pytest.raises(ValueError, match="taken"):
        allocator.create_pool((0, 0))
    allocator.begin_pool(POOL)
    with pytest.raises(ValueError, match="already"):
        allocator.begin_pool(POOL)
    allocator.end_pool(POOL)
    with pytest.raises(KeyError, match="no allocations"):
        allocator.end_pool(POOL)

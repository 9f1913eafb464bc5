"""Rules of the model one by one, each in the smallest program that shows it."""

from __future__ import annotations

import pytest

from envkit.allocator import CachingAllocator, OutOfMemory, heap
from envkit.allocator.sizes import GIB, MIB

ALLOCATED = "allocated_bytes.all.current"
RESERVED = "reserved_bytes.all.current"
SEGMENTS = "segment.all.current"


def stat(allocator: CachingAllocator, name: str) -> int:
    return allocator.memory_stats()[name]


def test_one_byte_takes_512_out_of_a_2_mib_segment() -> None:
    allocator = CachingAllocator()
    address = allocator.malloc(1)
    stats = allocator.memory_stats()
    assert stats[ALLOCATED] == 512
    assert stats["requested_bytes.all.current"] == 1
    assert stats["reserved_bytes.small_pool.current"] == 2 * MIB
    assert stats["inactive_split_bytes.all.current"] == 2 * MIB - 512
    allocator.free(address)
    stats = allocator.memory_stats()
    assert stats["inactive_split.all.freed"] == 1
    assert stats["inactive_split_bytes.all.current"] == 0
    assert stats[RESERVED] == 2 * MIB
    allocator.empty_cache()
    assert stat(allocator, RESERVED) == 0


@pytest.mark.parametrize("request_bytes", [0, -5])
def test_nothing_asked_for_is_nothing(request_bytes: int) -> None:
    allocator = CachingAllocator()
    before = allocator.memory_stats()
    assert allocator.malloc(request_bytes) == 0
    assert allocator.memory_stats() == before


def test_a_rest_of_exactly_1_mib_stays_with_its_block() -> None:
    allocator = CachingAllocator()
    allocator.malloc(3 * MIB)
    allocator.malloc(16 * MIB)  # 17 MiB are left of the 20 MiB segment
    assert stat(allocator, ALLOCATED) == 20 * MIB
    assert stat(allocator, SEGMENTS) == 1


def test_of_equally_large_blocks_the_lowest_address_is_used() -> None:
    allocator = CachingAllocator()
    for hint in (0x30000000, 0x10000000, 0x20000000):
        allocator.malloc(30 * MIB, addr_hint=hint)
    for address in (0x30000000, 0x10000000, 0x20000000):
        allocator.free(address)
    assert allocator.malloc(30 * MIB) == 0x10000000


def test_streams_do_not_share_cached_blocks() -> None:
    allocator = CachingAllocator()
    allocator.free(allocator.malloc(2 * MIB, stream=1))
    allocator.malloc(2 * MIB, stream=2)
    assert stat(allocator, SEGMENTS) == 2


def test_a_block_that_another_stream_uses_stays_active_until_the_event_is_seen() -> None:
    allocator = CachingAllocator()
    address = allocator.malloc(2 * MIB, stream=1)
    allocator.record_stream(address, 2)
    allocator.free(address)
    stats = allocator.memory_stats()
    assert stats[ALLOCATED] == 0
    assert stats["active_bytes.all.current"] == stats["requested_bytes.all.current"] == 2 * MIB
    assert allocator.snapshot()[0]["blocks"][0]["state"] == "active_pending_free"
    assert allocator.malloc(2 * MIB, stream=1) == address + 2 * MIB
    assert stat(allocator, "active.all.peak") == 2
    allocator.synchronize()
    assert stat(allocator, "active.all.current") == 2  # seen at the next allocation only
    assert allocator.malloc(2 * MIB, stream=1) == address


def test_recording_the_own_stream_changes_nothing() -> None:
    allocator = CachingAllocator()
    address = allocator.malloc(2 * MIB, stream=1)
    allocator.record_stream(address, 1)
    allocator.free(address)
    assert stat(allocator, "active.all.current") == 0


def test_oversize_blocks_are_neither_split_nor_lent_to_small_requests() -> None:
    allocator = CachingAllocator("max_split_size_mb:64")
    allocator.free(allocator.malloc(100 * MIB))
    allocator.malloc(30 * MIB)
    stats = allocator.memory_stats()
    assert stats[SEGMENTS] == 2
    assert stats["oversize_segments.current"] == 1
    assert stats["oversize_allocations.allocated"] == 1
    assert stats["max_split_size"] == 64 * MIB
    allocator.malloc(90 * MIB)  # within 20 MiB of the cached block: it is used whole
    assert stat(allocator, ALLOCATED) == 130 * MIB


@pytest.mark.parametrize(("cached", "segments"), [(108, 1), (110, 2)])
def test_an_oversize_block_20_mib_too_large_is_not_used(cached: int, segments: int) -> None:
    allocator = CachingAllocator("max_split_size_mb:64")
    allocator.free(allocator.malloc(cached * MIB))
    allocator.malloc(90 * MIB)
    assert stat(allocator, SEGMENTS) == segments


def test_the_peak_of_free_parts_is_seen_before_two_of_them_merge() -> None:
    allocator = CachingAllocator()
    left, middle, right, _ = (allocator.malloc(512) for _ in range(4))
    allocator.free(left)
    allocator.free(right)
    allocator.free(middle)
    stats = allocator.memory_stats()
    assert stats["inactive_split.all.peak"] == 3
    assert stats["inactive_split.all.current"] == 2


def test_out_of_memory_flushes_and_retries_once() -> None:
    allocator = CachingAllocator(total_memory=GIB)
    allocator.set_memory_fraction(0.25)
    allocator.free(allocator.malloc(200 * MIB))
    allocator.malloc(100 * MIB)
    allocator.malloc(99 * MIB)
    with pytest.raises(OutOfMemory) as caught:
        allocator.malloc(80 * MIB)
    assert str(caught.value) == (
        "CUDA out of memory. Tried to allocate 80.00 MiB. GPU 0 has a total capacity of 1024.00 MiB"
        " of which 824.00 MiB is free. 256.00 MiB allowed; Of the allocated memory 200.00 MiB is"
        " allocated by PyTorch, and 0 bytes is reserved by PyTorch but unallocated."
    )
    assert caught.value.info == {
        "requested_segment": 80 * MIB,
        "allocated": 200 * MIB,
        "reserved": 200 * MIB,
        "limit": 256 * MIB,
    }
    stats = allocator.memory_stats()
    assert [stats[name] for name in ("num_ooms", "num_alloc_retries")] == [1, 1]
    assert stats["num_sync_all_streams"] == 1


def test_torch_2_1_misspells_capacity() -> None:
    with pytest.raises(OutOfMemory, match="total capacty of"):
        CachingAllocator(total_memory=MIB, version=(2, 1)).malloc(1)


def test_absurd_requests_fail_at_once() -> None:
    allocator = CachingAllocator()
    with pytest.raises(OutOfMemory, match="more than 1EB"):
        allocator.malloc(1 << 60)
    assert stat(allocator, "num_alloc_retries") == 0


def test_expandable_segments_map_pages_and_count_no_segments() -> None:
    allocator = CachingAllocator("expandable_segments:True", total_memory=GIB)
    first = allocator.malloc(30 * MIB)
    stats = allocator.memory_stats()
    assert stats[RESERVED] == 40 * MIB
    assert stats[SEGMENTS] == stats["inactive_split_bytes.all.current"] == 0
    assert stats["num_device_alloc"] == 1
    second = allocator.malloc(15 * MIB)
    assert second == first + 30 * MIB
    assert stat(allocator, RESERVED) == 60 * MIB
    allocator.free(first)
    allocator.empty_cache()  # only the first of the two pages is free as a whole
    assert stat(allocator, RESERVED) == 40 * MIB
    allocator.free(second)
    allocator.empty_cache()
    assert stat(allocator, RESERVED) == 0
    assert allocator.snapshot() == []


def test_a_hole_in_expandable_memory_is_mapped_again() -> None:
    allocator = CachingAllocator("expandable_segments:True", total_memory=GIB)
    _, hole, free, _ = (allocator.malloc(20 * MIB) for _ in range(4))
    allocator.free(hole)
    allocator.empty_cache()
    allocator.free(free)
    assert stat(allocator, RESERVED) == 60 * MIB
    assert len(allocator.snapshot()) == 2
    assert allocator.malloc(40 * MIB) == hole
    assert stat(allocator, RESERVED) == 80 * MIB
    assert stat(allocator, "num_device_alloc") == 5
    assert len(allocator.snapshot()) == 1


def test_garbage_collection_releases_old_segments_under_a_limit_only() -> None:
    def run(limit: float) -> int:
        allocator = CachingAllocator("garbage_collection_threshold:0.5", total_memory=GIB)
        allocator.set_memory_fraction(limit)
        for size in (100, 110, 120, 130):
            allocator.free(allocator.malloc(size * MIB))
        return stat(allocator, "num_device_free")

    assert run(0.5) > 0
    assert run(1.0) == 0


@pytest.mark.parametrize(("version", "limited"), [((2, 9), True), ((2, 10), False)])
def test_the_whole_device_as_a_limit(*, version: tuple[int, int], limited: bool) -> None:
    allocator = CachingAllocator(total_memory=GIB, capacity=2 * GIB, version=version)
    allocator.set_memory_fraction(1.0)
    allocator.malloc(GIB)
    if limited:
        with pytest.raises(OutOfMemory, match="allowed"):
            allocator.malloc(1)
    else:
        assert allocator.malloc(1)


def test_the_fraction_can_stand_in_the_settings() -> None:
    allocator = CachingAllocator("per_process_memory_fraction:0.5", total_memory=GIB)
    with pytest.raises(OutOfMemory, match=r"512\.00 MiB allowed"):
        allocator.malloc(600 * MIB)


def test_an_early_rejection_leaves_the_cache_alone() -> None:
    conf = "throw_on_cudamalloc_oom:True,per_process_memory_fraction:0.5"
    allocator = CachingAllocator(conf, total_memory=GIB, version=(2, 12))
    allocator.free(allocator.malloc(400 * MIB))
    with pytest.raises(OutOfMemory, match=r"preemptively rejected.*500\.00 MiB"):
        allocator.malloc(500 * MIB)
    stats = allocator.memory_stats()
    assert stats["num_oom_rejections"] == 1
    assert stats["num_ooms"] == 0
    assert stats[RESERVED] == 400 * MIB


@pytest.mark.parametrize(
    ("version", "names"),
    [((2, 1), 119), ((2, 2), 119), ((2, 3), 122), ((2, 11), 122), ((2, 12), 123), ((2, 14), 123)],
)
def test_each_release_has_its_statistics(version: tuple[int, int], names: int) -> None:
    assert len(CachingAllocator(version=version).memory_stats()) == names


@pytest.mark.parametrize("version", [(2, 0), (2, 15), (1, 13)])
def test_other_releases_are_refused(version: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match=r"only 2\.1 to 2\.14"):
        CachingAllocator(version=version)


def test_the_other_backend_is_refused() -> None:
    with pytest.raises(ValueError, match="cudaMallocAsync"):
        CachingAllocator("backend:cudaMallocAsync")


@pytest.mark.parametrize("fraction", [-0.1, 1.1])
def test_a_fraction_is_a_share(fraction: float) -> None:
    with pytest.raises(ValueError, match="from 0 to 1"):
        CachingAllocator().set_memory_fraction(fraction)


@pytest.mark.parametrize("hint", [-1, 1 << 64])
def test_an_observed_address_has_64_bits(hint: int) -> None:
    with pytest.raises(ValueError, match="64 bit"):
        CachingAllocator().malloc(1, addr_hint=hint)


def test_an_observed_address_may_not_lie_on_another_segment() -> None:
    allocator = CachingAllocator()
    allocator.malloc(40 * MIB, addr_hint=0x1000_0000)
    for hint in (0x1000_0000, 0x1000_0000 + 38 * MIB, 0x1000_0000 - 38 * MIB):
        with pytest.raises(ValueError, match="another segment is there"):
            allocator.malloc(40 * MIB, addr_hint=hint)
    allocator.malloc(40 * MIB, addr_hint=0x1000_0000 - 40 * MIB)


def test_released_addresses_can_be_observed_again() -> None:
    for conf in ("", "expandable_segments:True"):
        allocator = CachingAllocator(conf)
        for _ in range(2):
            address = allocator.malloc(40 * MIB, addr_hint=0x1000_0000)
            assert address == 0x1000_0000
            allocator.free(address)
            allocator.empty_cache()


def test_addresses_of_our_own_keep_clear_of_observed_ones() -> None:
    allocator = CachingAllocator(bump_base=0x1000_0000)
    allocator.malloc(40 * MIB, addr_hint=0x1000_0000 + 10 * MIB)
    assert allocator.malloc(40 * MIB) == 0x1000_0000 + 50 * MIB


def test_freeing_twice_is_an_error() -> None:
    allocator = CachingAllocator()
    address = allocator.malloc(1)
    allocator.free(address)
    with pytest.raises(KeyError):
        allocator.free(address)


def test_resets_forget_peaks_and_sums() -> None:
    allocator = CachingAllocator()
    address = allocator.malloc(3 * MIB)
    allocator.malloc(1 * MIB)
    allocator.free(address)
    allocator.reset_peak()
    allocator.reset_accumulated()
    stats = allocator.memory_stats()
    assert stats["allocated_bytes.all.peak"] == stats[ALLOCATED] == MIB
    assert stats["allocated_bytes.all.allocated"] == stats["allocated_bytes.all.freed"] == 0
    assert stats["num_device_alloc"] == 0
    assert stats[RESERVED] == 22 * MIB


def test_many_different_sizes_do_not_grow_the_tables_without_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(heap, "_KINDS_KEPT", 3)
    allocator = CachingAllocator()
    addresses = [allocator.malloc(size) for size in range(1, 10)]
    assert len(allocator._heap.kinds) <= 3
    for address in addresses:
        allocator.free(address)
    assert stat(allocator, "requested_bytes.all.current") == 0

"""Replaying streams: what is counted, and where a replay ends."""

from __future__ import annotations

from envkit.allocator import CachingAllocator, Event, events_from_history, replay
from envkit.allocator.sizes import GIB, MIB


def entry(action: str, addr: int, size: int) -> dict[str, object]:
    return {"action": action, "addr": addr, "size": size, "frames": [], "stream": 3}


def test_a_history_of_torch_is_shortened() -> None:
    history = [
        entry("segment_alloc", 0x1000, 2 * MIB),
        entry("alloc", 0x1000, 100),
        entry("snapshot", 0, 0),
        entry("free_requested", 0x1000, 100),
        entry("free_completed", 0x1000, 100),
        {"action": "segment_free", "addr": 0x1000, "size": 2 * MIB},
    ]
    assert events_from_history(history) == [
        ("S", 0x1000, 2 * MIB, 3),
        ("a", 0x1000, 100, 3),
        ("f", 0x1000, 100, 3),
        ("c", 0x1000, 100, 3),
        ("R", 0x1000, 2 * MIB, 0),
    ]


STREAM: list[Event] = [
    ("S", 0x5000_0000, 20 * MIB, 0),
    ("a", 0x5000_0000, 4 * MIB, 0),
    ("f", 0x7777_0000, 512, 0),
    ("c", 0x7777_0000, 512, 0),  # made before the recording began
    ("S", 0x9000_0000, 30 * MIB, 0),
    ("a", 0x9000_0000, 30 * MIB, 0),
    ("f", 0x5000_0000, 4 * MIB, 0),
    ("c", 0x5000_0000, 4 * MIB, 0),
    ("a", 0x5000_0000, 4 * MIB, 0),
]


def test_observed_addresses_are_used() -> None:
    result = replay(STREAM, CachingAllocator())
    assert (result.events, result.allocations, result.at_recorded_address) == (9, 3, 3)
    assert result.foreign_frees == 1
    assert result.ran_out_at is None
    assert result.stats["reserved_bytes.all.peak"] == 50 * MIB
    assert result.stats["allocation.all.freed"] == 1


def test_without_observed_addresses_the_model_chooses() -> None:
    result = replay(STREAM, CachingAllocator(), observed_addresses=False)
    assert result.at_recorded_address == 0
    assert result.stats["reserved_bytes.all.peak"] == 50 * MIB


def test_a_replay_ends_where_memory_runs_out() -> None:
    allocator = CachingAllocator(total_memory=GIB)
    allocator.set_memory_fraction(40 * MIB / GIB)
    result = replay(STREAM, allocator)
    assert result.ran_out_at == 5
    assert (result.events, result.allocations) == (6, 1)
    assert result.stats["num_ooms"] == 1


def test_an_empty_stream_is_no_work() -> None:
    result = replay([], CachingAllocator())
    assert (result.events, result.ran_out_at) == (0, None)
    assert set(result.stats.values()) == {0, -1}

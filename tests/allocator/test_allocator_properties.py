"""Laws that hold after every operation, and slow references that say the same in plain words."""

from __future__ import annotations

import importlib.util
import random
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envkit.allocator import CachingAllocator, Config, OutOfMemory, Segment
from envkit.allocator.sizes import GIB, KIB, MIB, format_size, round_request, segment_size

CONFS = (
    "",
    "roundup_power2_divisions:8",
    "max_split_size_mb:50",
    "expandable_segments:True",
    "garbage_collection_threshold:0.6",
    "large_segment_size_mb:40",
    "max_split_size_mb:40,expandable_segments:True",
    "garbage_collection_threshold:0.4,max_split_size_mb:30",
)
FIGURES = (
    "allocation",
    "segment",
    "active",
    "inactive_split",
    "allocated_bytes",
    "reserved_bytes",
    "active_bytes",
    "inactive_split_bytes",
    "requested_bytes",
)
SCOPES = ("all", "small_pool", "large_pool")

SIZES = st.one_of(
    st.sampled_from([1, 512, 4 * KIB, MIB, MIB + 1, 3 * MIB, 16 * MIB, 30 * MIB, 45 * MIB]),
    st.integers(1, 2 * MIB),
    st.integers(1, 120 * MIB),
)
STREAMS = st.sampled_from([0, 0, 0, 7])
ALLOC = st.tuples(st.just("malloc"), SIZES, STREAMS)
FREE = st.tuples(st.just("free"), st.integers(0, 1000))
CALLS = st.sampled_from(["empty_cache", "synchronize", "reset_peak", "reset_accumulated"])
CALL = st.tuples(CALLS)
RECORD = st.tuples(st.just("record_stream"), st.integers(0, 1000), st.sampled_from([0, 7, 9]))
POOL = st.tuples(st.sampled_from(["begin_pool", "end_pool", "release_pool"]))
SIMPLE = st.lists(st.one_of(ALLOC, ALLOC, FREE, FREE), max_size=80)
EVERYTHING = st.lists(st.one_of(ALLOC, ALLOC, ALLOC, FREE, FREE, CALL, RECORD, POOL), max_size=60)


class Program:
    """Carries out operations on a model and remembers what is in use."""

    def __init__(self, allocator: CachingAllocator, failure: type[Exception] = OutOfMemory) -> None:
        self.allocator = allocator
        self.failure = failure
        self.live: dict[int, int] = {}
        self.in_pool = False
        self.users = 0

    def run(self, operation: tuple[Any, ...]) -> None:
        name, *arguments = operation
        if name == "malloc":
            self.malloc(*arguments)
        elif name in {"free", "record_stream"}:
            if self.live:
                address = list(self.live)[arguments[0] % len(self.live)]
                if name == "free":
                    del self.live[address]
                getattr(self.allocator, name)(address, *arguments[1:])
        elif name.endswith("_pool"):
            self.pool(name)
        else:
            getattr(self.allocator, name)()

    def malloc(self, size: int, stream: int) -> None:
        try:
            address = self.allocator.malloc(size, stream)
        except self.failure:
            return
        assert address not in self.live
        self.live[address] = size

    def pool(self, name: str) -> None:
        if name == "begin_pool" and not self.in_pool:
            self.users += 1
            self.in_pool = True
        elif name == "end_pool" and self.in_pool:
            self.in_pool = False
        elif name == "release_pool" and self.users and not self.in_pool:
            self.users -= 1
        else:
            return
        getattr(self.allocator, name)((0, 1))

    def finish(self) -> None:
        """Free everything and give all memory back."""
        if self.in_pool:
            self.pool("end_pool")
        while self.users:
            self.pool("release_pool")
        for address in self.live:
            self.allocator.free(address)
        self.allocator.empty_cache()


def figures(segments: list[Segment]) -> dict[tuple[str, str], int]:
    """Count what a snapshot shows, for each figure and scope."""
    out = {(figure, scope): 0 for figure in FIGURES for scope in SCOPES}
    for segment in segments:
        for scope in ("all", f"{segment['segment_type']}_pool"):
            for figure, value in segment_figures(segment).items():
                out[figure, scope] += value
    return out


def segment_figures(segment: Segment) -> dict[str, int]:
    blocks = segment["blocks"]
    active = [block for block in blocks if block["state"] != "inactive"]
    allocated = [block for block in blocks if block["state"] == "active_allocated"]
    inactive = [block for block in blocks if block["state"] == "inactive"]
    split = inactive if len(blocks) > 1 and not segment["is_expandable"] else []
    return {
        "allocation": len(allocated),
        "segment": 0 if segment["is_expandable"] else 1,
        "active": len(active),
        "inactive_split": len(split),
        "allocated_bytes": sum(block["size"] for block in allocated),
        "reserved_bytes": sum(block["size"] for block in blocks),
        "active_bytes": sum(block["size"] for block in active),
        "inactive_split_bytes": sum(block["size"] for block in split),
        "requested_bytes": sum(block["requested_size"] for block in active),
    }


def check_layout(segments: list[Segment], live: dict[int, int]) -> None:
    end = 0
    found = {}
    for segment in segments:
        assert segment["address"] >= end, "segments overlap"
        end = segment["address"]
        previous = ""
        for block in segment["blocks"]:
            assert block["address"] == end, "blocks do not tile the segment"
            assert block["size"] > 0
            assert block["size"] % 512 == 0
            assert not previous == block["state"] == "inactive", "free neighbours are not merged"
            previous = block["state"]
            end += block["size"]
            if previous == "active_allocated":
                found[block["address"]] = block["requested_size"]
                assert block["size"] >= block["requested_size"]
        assert end == segment["address"] + segment["total_size"]
    assert found == live


def check_counters(allocator: CachingAllocator, segments: list[Segment]) -> None:
    stats = allocator.memory_stats()
    for (figure, scope), value in figures(segments).items():
        assert stats[f"{figure}.{scope}.current"] == value, (figure, scope)
        assert stats[f"{figure}.{scope}.peak"] >= value
    for figure in FIGURES:
        for which in ("current", "allocated", "freed"):
            small, large = (stats[f"{figure}.{scope}.{which}"] for scope in SCOPES[1:])
            assert stats[f"{figure}.all.{which}"] == small + large
    assert min(value for name, value in stats.items() if name != "max_split_size") >= 0


@settings(deadline=None, max_examples=200)
@given(conf=st.sampled_from(CONFS), share=st.sampled_from([0.1, 1.0]), operations=EVERYTHING)
def test_layout_and_counters_agree_after_every_operation(
    conf: str, share: float, operations: list[tuple[Any, ...]]
) -> None:
    allocator = CachingAllocator(conf, total_memory=4 * GIB)
    allocator.set_memory_fraction(share)
    program = Program(allocator)
    for operation in operations:
        program.run(operation)
        segments = allocator.snapshot()
        check_layout(segments, program.live)
        check_counters(allocator, segments)
    program.finish()
    assert allocator.memory_stats()["reserved_bytes.all.current"] == 0
    assert allocator.snapshot() == []


@settings(deadline=None, max_examples=100)
@given(conf=st.sampled_from(CONFS), operations=SIMPLE)
def test_peaks_and_sums_are_those_of_the_layouts_gone_through(
    conf: str, operations: list[tuple[Any, ...]]
) -> None:
    program = Program(CachingAllocator(conf, total_memory=1 << 40))
    before = figures([])
    peak, up, down = dict(before), dict(before), dict(before)
    for operation in operations:
        program.run(operation)
        now = figures(program.allocator.snapshot())
        for key, value in now.items():
            peak[key] = max(peak[key], value)
            up[key] += max(0, value - before[key])
            down[key] += max(0, before[key] - value)
        before = now
    stats = program.allocator.memory_stats()
    for (figure, scope), value in peak.items():
        name = f"{figure}.{scope}"
        assert stats[f"{name}.peak"] == value, name
        assert stats[f"{name}.allocated"] == up[figure, scope], name
        assert stats[f"{name}.freed"] == down[figure, scope], name


@settings(deadline=None, max_examples=100)
@given(operations=SIMPLE, size=SIZES, stream=STREAMS)
def test_the_smallest_then_lowest_free_block_is_used(
    operations: list[tuple[Any, ...]], size: int, stream: int
) -> None:
    program = Program(CachingAllocator(total_memory=1 << 40))
    for operation in operations:
        program.run(operation)
    rounded = -(-size // 512) * 512
    fitting = [
        (block["size"], block["address"])
        for segment in program.allocator.snapshot()
        if segment["stream"] == stream
        and segment["segment_type"] == ("small" if rounded <= MIB else "large")
        for block in segment["blocks"]
        if block["state"] == "inactive" and block["size"] >= rounded
    ]
    before = program.allocator.memory_stats()["num_device_alloc"]
    address = program.allocator.malloc(size, stream)
    grown = program.allocator.memory_stats()["num_device_alloc"] - before
    if fitting:
        assert (address, grown) == (min(fitting)[1], 0)
    else:
        assert grown == 1


def slow_round(size: int, divisions: int) -> int:
    """Round a request by trying every step between two powers of two."""
    if size < 512:
        return 512
    if divisions > 1 and size > 512 * divisions:
        floor = 1
        while floor * 2 <= size:
            floor *= 2
        candidates = [floor + floor * part // divisions for part in range(divisions + 1)]
        return min(candidate for candidate in candidates if candidate >= size)
    while size % 512:
        size += 1
    return size


@settings(deadline=None)
@given(size=st.integers(1, 1 << 36), power=st.integers(0, 8))
def test_requests_are_rounded_as_the_slow_reference_says(size: int, power: int) -> None:
    config = Config.parse(f"roundup_power2_divisions:{1 << power}")
    rounded = round_request(size, config.roundup_divisions)
    assert rounded == slow_round(size, 1 << power)
    assert round_request(rounded, config.roundup_divisions) == rounded


@settings(deadline=None)
@given(size=st.integers(1, 1 << 36), text=st.sampled_from(["[256:1,512:2,1024:4,>:8]", "[1:4]"]))
def test_the_interval_of_a_request_decides_its_divisions(size: int, text: str) -> None:
    config = Config.parse(f"roundup_power2_divisions:{text}")
    slot = 0
    while slot < 15 and size >= MIB << slot + 1:
        slot += 1
    expected = slow_round(size, config.roundup_divisions[slot])
    assert round_request(size, config.roundup_divisions) == expected


@pytest.mark.parametrize(
    ("block", "segment"),
    [
        (512, 2 * MIB),
        (MIB, 2 * MIB),
        (MIB + 512, 20 * MIB),
        (10 * MIB - 512, 20 * MIB),
        (10 * MIB, 10 * MIB),
        (10 * MIB + 512, 12 * MIB),
    ],
)
def test_segments_come_in_three_sizes(block: int, segment: int) -> None:
    assert segment_size(block) == segment


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 bytes"),
        (KIB, "1024 bytes"),
        (KIB + 1, "1.00 KiB"),
        (MIB, "1024.00 KiB"),
        (20 * MIB, "20.00 MiB"),
        (GIB, "1024.00 MiB"),
        (3 * GIB // 2, "1.50 GiB"),
    ],
)
def test_sizes_are_printed_as_torch_does(size: int, text: str) -> None:
    assert format_size(size) == text


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("allocator_prototype", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("conf", CONFS)
def test_the_measured_prototype_says_the_same_on_random_programs(
    shared: Path, monkeypatch: pytest.MonkeyPatch, conf: str
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    prototype = load(shared / "facts" / "allocator" / "sim.py")
    for seed in range(4):
        rng = random.Random(seed)  # noqa: S311  (a reproducible program, no secret)
        ours = Program(CachingAllocator(conf, total_memory=GIB))
        theirs = Program(prototype.CachingAllocator(conf, total_memory=GIB), prototype.OutOfMemory)
        for _ in range(300):
            size, number = int(2 ** rng.uniform(0, 28)), rng.randrange(1000)
            operation = rng.choice(
                [("malloc", size, rng.choice([0, 0, 7]))] * 40
                + [("free", number)] * 34
                + [("record_stream", number, 9)] * 6
                + [("empty_cache",), ("synchronize",), ("reset_peak",), ("reset_accumulated",)]
            )
            for program in (ours, theirs):
                program.run(operation)
            assert ours.live == theirs.live
            assert ours.allocator.memory_stats() == theirs.allocator.memory_stats()
        assert ours.allocator.snapshot() == theirs.allocator.snapshot()

from __future__ import annotations

import json
import random
from typing import Any

import pytest

GIB = 1 << 30
TOTAL_BYTES = 140 * GIB
SEED = 20261132
NAMES = (
    "five_tensors",
    "size_ladder",
    "checkerboard",
    "small_checkerboard",
    "empty_cache",
    "memory_limit",
    "streams",
    "random_trace",
)
SETTINGS = (
    "",
    "expandable_segments:True",
    "roundup_power2_divisions:4",
    "roundup_power2_divisions:16",
    "max_split_size_mb:64",
    "garbage_collection_threshold:0.6",
)


@pytest.fixture(scope="module")
def catalogue(child: Any) -> Any:
    return child("exercises.catalogue")


@pytest.fixture(scope="module")
def operations(child: Any) -> Any:
    return child("exercises.operations")


class Scattered:
    """The model with every new segment at an address of its own choosing."""

    def __init__(self, model: Any, conf: str, seed: int) -> None:
        self._core = model.CachingAllocator(conf, total_memory=TOTAL_BYTES)
        rng = random.Random(seed)  # noqa: S311  (not for secrets)
        self._addresses = iter(rng.sample(range(1 << 10, 1 << 16), 2000))

    def malloc(self, nbytes: int, stream: int = 0) -> int:
        hint = next(self._addresses) * GIB
        return int(self._core.malloc(nbytes, stream, addr_hint=hint))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._core, name)


def walk(operations: Any, model: Any, allocator: Any, steps: Any) -> Any:
    return operations.carry_out(steps, allocator, TOTAL_BYTES, model.OutOfMemory)


def test_the_suite_has_exactly_these_exercises(catalogue: Any, child: Any) -> None:
    assert tuple(catalogue.EXERCISES) == NAMES == child("members").EXERCISES
    assert child("challenge").SEED == SEED


@pytest.mark.parametrize("case", [(name, conf) for name in NAMES for conf in SETTINGS])
def test_addresses_never_decide_a_counter(
    operations: Any, catalogue: Any, model: Any, case: tuple[str, str]
) -> None:
    name, conf = case
    steps = catalogue.EXERCISES[name](SEED)
    first, second, third = (
        walk(operations, model, Scattered(model, conf, seed), steps).steps for seed in range(3)
    )
    assert first == second == third


@pytest.mark.parametrize("name", NAMES)
def test_an_exercise_is_json_and_ends_with_nothing_reserved(
    operations: Any, catalogue: Any, model: Any, name: str
) -> None:
    steps = catalogue.EXERCISES[name](1)
    assert json.loads(json.dumps(steps)) == steps
    core = model.CachingAllocator("", total_memory=TOTAL_BYTES)
    walk(operations, model, core, steps)
    assert core.memory_stats()["reserved_bytes.all.current"] == 0


def counters(operations: Any, catalogue: Any, model: Any, name: str) -> dict[str, int]:
    core = model.CachingAllocator("", total_memory=TOTAL_BYTES)
    steps = catalogue.EXERCISES[name](SEED)[:-1]  # before the last empty_cache
    walk(operations, model, core, steps)
    return dict(core.memory_stats())


def test_five_tensors_keep_one_segment_reserved(
    operations: Any, catalogue: Any, model: Any
) -> None:
    stats = counters(operations, catalogue, model, "five_tensors")
    # 16,777,216 bytes held after five loops: FINGERPRINT.md, measured on an H200.
    assert stats["reserved_bytes.all.current"] == 16777216
    assert stats["segment.all.allocated"] == 1


def test_the_checkerboard_has_a_request_that_no_hole_serves(
    operations: Any, catalogue: Any, model: Any
) -> None:
    stats = counters(operations, catalogue, model, "checkerboard")
    assert stats["segment.all.allocated"] == 2


def test_the_limit_is_run_into_and_recovered_from(
    operations: Any, catalogue: Any, model: Any
) -> None:
    stats = counters(operations, catalogue, model, "memory_limit")
    assert stats["num_ooms"] == 2
    assert stats["num_alloc_retries"] > stats["num_ooms"]
    assert stats["allocated_bytes.all.allocated"] > 120 << 20


def test_memory_of_another_stream_is_not_reused(
    operations: Any, catalogue: Any, model: Any
) -> None:
    stats = counters(operations, catalogue, model, "streams")
    assert stats["segment.all.allocated"] == 3


def test_the_seed_makes_the_random_trace_and_nothing_else(catalogue: Any) -> None:
    moved = [name for name, make in catalogue.EXERCISES.items() if make(SEED) != make(SEED + 1)]
    assert moved == ["random_trace"]
    assert catalogue.random_trace(5) == catalogue.random_trace(5)


def test_a_step_names_only_the_counters_that_moved(operations: Any, model: Any) -> None:
    core = model.CachingAllocator("", total_memory=TOTAL_BYTES)
    steps = walk(operations, model, core, [["malloc", 1, 512, 0], ["free", 1], ["reset_peak"]])
    assert [step["op"] for step in steps.steps] == ["malloc 1 512 0", "free 1", "reset_peak"]
    assert steps.steps[1]["counters"]["allocated_bytes.all.current"] == 0
    assert "reserved_bytes.all.current" not in steps.steps[1]["counters"]


def test_freeing_what_ran_out_of_memory_is_no_operation(operations: Any, model: Any) -> None:
    core = model.CachingAllocator("", total_memory=TOTAL_BYTES)
    listed = [["limit", 1 << 20], ["malloc", 1, 8 << 20, 0], ["free", 1]]
    found = walk(operations, model, core, listed)
    assert found.addresses == [None, None, None]
    assert found.steps[2]["counters"] == {}

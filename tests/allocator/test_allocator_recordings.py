"""The model against what torch did on an H200: counters, pointers, layouts, peaks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from envkit.allocator import CachingAllocator, OutOfMemory, replay

CONFIGS = (
    "default",
    "expand",
    "expsplit",
    "gc",
    "gcsplit",
    "large40",
    "round4",
    "roundlist",
    "split25",
    "split64",
)


class Player:
    """Carries out recorded operations, whose codes are in tests/data/allocator/README.md."""

    def __init__(self, worker: dict[str, Any]) -> None:
        self.streams: list[int] = worker["meta"]["streams"]
        self.total: int = worker["meta"]["total_memory"]
        self.allocator = CachingAllocator(worker["conf"], total_memory=self.total, version=(2, 11))
        self.held: dict[int, int] = {}
        self.simple: dict[str, Callable[[], None]] = {
            "e": self.allocator.empty_cache,
            "p": self.allocator.reset_peak,
            "r": self.allocator.reset_accumulated,
            "s": self.allocator.synchronize,
        }

    def perform(self, operation: list[Any], hint: int | None) -> int | str | None:
        """Carry out one operation and return what an allocation got."""
        code, *rest = operation
        if code == "a":
            return self.allocate(rest[0], rest[1], rest[2], hint)
        if code == "l":
            self.allocator.set_memory_fraction(rest[0] / self.total if rest[0] else 1.0)
        elif code in self.simple:
            self.simple[code]()
        elif rest[0] in self.held:  # else the allocation had failed
            if code == "f":
                self.allocator.free(self.held.pop(rest[0]))
            else:
                assert code == "u"
                self.allocator.record_stream(self.held[rest[0]], self.streams[rest[1]])
        return None

    def allocate(self, number: int, size: int, stream: int, hint: int | None) -> int | str:
        try:
            self.held[number] = self.allocator.malloc(size, self.streams[stream], hint)
        except OutOfMemory:
            return "O"
        return self.held[number]


def layout(allocator: CachingAllocator, streams: list[int]) -> list[Any]:
    """Return the segments in the form of the recording."""
    states = {"inactive": 0, "active_allocated": 1, "active_pending_free": 2}
    return [
        [
            segment["address"],
            segment["total_size"],
            int(segment["segment_type"] == "large"),
            int(segment["is_expandable"]),
            streams.index(segment["stream"]),
            [
                [block["size"], states[block["state"]], block["requested_size"]]
                for block in segment["blocks"]
            ],
        ]
        for segment in allocator.snapshot()
    ]


def changes(flat: list[int]) -> dict[int, int]:
    return dict(zip(flat[::2], flat[1::2], strict=True))


def replay_trace(worker: dict[str, Any], trace: dict[str, Any], keys: list[str]) -> int:
    """Replay one trace, compare after every operation, and return the number of operations."""
    player = Player(worker)
    recorded = dict.fromkeys(range(len(keys)), 0) | changes(trace["start"])
    for index, (operation, (pointer, changed)) in enumerate(
        zip(trace["ops"], trace["res"], strict=True)
    ):
        where = f"{worker['name']}/{trace['kind']} {trace['seed']}, operation {index} {operation}"
        hint = pointer if isinstance(pointer, int) else None
        given = player.perform(operation, hint)
        if operation[0] == "a":
            assert given == pointer, where
        recorded |= changes(changed)
        stats = player.allocator.memory_stats()
        assert {key: stats[key] for key in keys} == dict(
            zip(keys, recorded.values(), strict=True)
        ), where
    assert layout(player.allocator, player.streams) == trace["snap"]
    return len(trace["ops"])


@pytest.mark.parametrize("name", CONFIGS)
def test_every_counter_pointer_and_layout_is_that_of_the_gpu(
    exercises: dict[str, Any], name: str
) -> None:
    worker = next(one for one in exercises["workers"] if one["name"] == name)
    for trace in worker["traces"]:
        replay_trace(worker, trace, exercises["keys"])


def test_the_recording_is_complete(exercises: dict[str, Any]) -> None:
    traces = [trace for worker in exercises["workers"] for trace in worker["traces"]]
    assert {worker["name"] for worker in exercises["workers"]} == set(CONFIGS)
    assert len(traces) == 204
    assert sum(len(trace["ops"]) for trace in traces) == 17_140
    assert len(exercises["keys"]) == 50


def test_the_comparison_notices_one_wrong_counter(exercises: dict[str, Any]) -> None:
    worker = exercises["workers"][0]
    trace = worker["traces"][0]
    pointer, changed = trace["res"][0]
    bent = [[pointer, [changed[0], changed[1] + 1, *changed[2:]]], *trace["res"][1:]]
    with pytest.raises(AssertionError, match="operation 0"):
        replay_trace(worker, {**trace, "res": bent}, exercises["keys"])


def test_statistics_have_the_names_that_torch_gives_them(exercises: dict[str, Any]) -> None:
    assert sorted(CachingAllocator().memory_stats()) == sorted(exercises["stat_keys"])


def test_a_snapshot_has_the_names_that_torch_gives_them(exercises: dict[str, Any]) -> None:
    allocator = CachingAllocator()
    allocator.malloc(1)
    segment = allocator.snapshot()[0]
    assert sorted({*segment, "frames"}) == exercises["segment_keys"]
    assert sorted({*segment["blocks"][0], "frames"}) == exercises["block_keys"]


def test_training_runs_have_the_measured_statistics(trainings: list[dict[str, Any]]) -> None:
    assert len(trainings) == 5
    for run in trainings:
        events = [tuple(event) for event in run["events"]]
        allocator = CachingAllocator(run["conf"], total_memory=run["total_memory"])
        result = replay(events, allocator)
        measured = run["stats"]
        assert {name: result.stats[name] for name in measured} == measured, run["conf"]
        assert result.ran_out_at is None
        assert result.foreign_frees == 0
        assert result.events == len(events)
        if "expandable" not in run["conf"]:  # their ranges' starts are not in the recording
            assert result.at_recorded_address == result.allocations


def test_training_streams_do_not_depend_on_the_settings(trainings: list[dict[str, Any]]) -> None:
    streams = [
        [(action, size) for action, _, size, _ in run["events"] if action in "ac"]
        for run in trainings
    ]
    assert all(stream == streams[0] for stream in streams)


@pytest.mark.parametrize(
    ("name", "bound"), [("allocated_bytes.all.peak", 0.0027), ("reserved_bytes.all.peak", 0.039)]
)
def test_other_settings_are_predicted_from_the_default_run(
    trainings: list[dict[str, Any]], name: str, bound: float
) -> None:
    events = [tuple(event) for event in trainings[0]["events"]]
    for run in trainings:
        allocator = CachingAllocator(run["conf"], total_memory=run["total_memory"])
        predicted = replay(events, allocator, observed_addresses=False).stats
        if "expandable" in run["conf"]:
            assert predicted[name] == run["stats"][name]
            assert predicted["num_device_alloc"] == run["stats"]["num_device_alloc"]
        else:
            assert abs(predicted[name] / run["stats"][name] - 1) <= bound


def test_settings_are_reported_as_torch_reports_them(trainings: list[dict[str, Any]]) -> None:
    for run in trainings:
        reported = CachingAllocator(run["conf"]).config.as_torch_reports()
        assert {key: str(value) for key, value in reported.items()}.items() <= run[
            "settings"
        ].items()

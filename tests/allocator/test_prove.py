"""Recorded histories are followed exactly, from their start or from any moment in their middle."""

from __future__ import annotations

import gzip
import json
import pickle
import pickletools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recorded_process import STACK, RecordedProcess, busy

from envkit.allocator.peak import EARLIER, groups_at_peak, line_of, size_class
from envkit.allocator.prove import prove
from envkit.allocator.recording import Recording, recordings_of
from envkit.allocator.replay import ACTIONS
from envkit.allocator.sizes import MIB
from envkit.allocator.snapshot_pickle import read_pickle
from envkit.errors import InputError

CONFS = [
    "",
    "expandable_segments:True",
    "max_split_size_mb:24",
    "roundup_power2_divisions:4",
    "max_split_size_mb:64,roundup_power2_divisions:2",
]

#: Settings under which segments do not grow.
FIXED = [conf for conf in CONFS if "expandable" not in conf]


def recording_of(snapshot: dict[str, Any]) -> Recording:
    (recording,) = recordings_of(snapshot, origin="test", size_bytes=len(pickle.dumps(snapshot)))
    return recording


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), conf=st.sampled_from(FIXED), pools=st.booleans())
def test_any_whole_history_is_followed_exactly(seed: int, conf: str, *, pools: bool) -> None:
    # Where private pools give segments back, no snapshot says whose they were.
    process = busy(seed, conf, pools=pools and not conf)
    proof, _ = prove(recording_of(process.snapshot()))
    assert proof.reason == ""
    assert proof.left_track_at is None
    assert proof.at_recorded_address == proof.allocations
    assert proof.end_state_equal
    assert proof.ooms_reproduced


@pytest.mark.parametrize("seed", [104, 222, 399, 433, 2461, 691761])
def test_a_range_grows_from_its_first_idle_stretch_after_waiting_for_streams(seed: int) -> None:
    # Memory was short, blocks came back that other streams had used, and torch took the first
    # stretch of the range that was long enough, although one of those blocks fitted better.
    proof, _ = prove(recording_of(busy(seed, "expandable_segments:True").snapshot()))
    assert proof.reason == ""
    assert proof.end_state_equal
    assert proof.at_recorded_address == proof.allocations


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), conf=st.sampled_from(CONFS), share=st.floats(0.02, 1))
def test_a_history_that_begins_anywhere_is_exact_or_says_where_it_is_not(
    seed: int, conf: str, share: float
) -> None:
    process = busy(seed, conf)
    last = max(1, int(len(process.trace) * share))
    proof, _ = prove(recording_of(process.snapshot(last)))
    exact = proof.at_recorded_address == proof.allocations and proof.end_state_equal
    assert exact == (proof.left_track_at is None)


def test_nearly_every_beginning_can_be_rebuilt() -> None:
    # What was not split off an early block is sometimes seen by nothing in the history.
    exact = total = 0
    for seed in range(10):
        for conf in CONFS[:4]:
            process = busy(seed, conf)
            for share in (0.75, 0.5, 0.25, 0.1):
                recording = recording_of(process.snapshot(int(len(process.trace) * share)))
                exact += prove(recording)[0].left_track_at is None
                total += 1
    assert total == 160
    assert exact >= 0.98 * total


def test_a_whole_history_has_the_peaks_of_the_process() -> None:
    process = busy(3)
    proof, start = prove(recording_of(process.snapshot()))
    stats = process.allocator.memory_stats()
    assert start == []
    assert proof.live_at_start == 0
    assert proof.peak_reserved_bytes == stats["reserved_bytes.all.peak"]
    # A block that waits for another stream counts until it is completed.
    assert proof.peak_allocated_bytes == stats["active_bytes.all.peak"]


def test_an_oom_is_reproduced_and_says_what_there_was() -> None:
    process = RecordedProcess(capacity=100 * MIB)
    process.malloc(60 * MIB)
    process.malloc(50 * MIB)
    proof, _ = prove(recording_of(process.snapshot()))
    assert (proof.ooms, proof.ooms_reproduced, proof.first_oom_at) == (1, True, 2)
    assert proof.room_bytes == 100 * MIB


def test_where_the_driver_had_memory_a_fraction_was_the_limit() -> None:
    process = RecordedProcess(capacity=100 * MIB)
    process.free(process.malloc(80 * MIB))
    process.malloc(60 * MIB)
    process.malloc(50 * MIB)
    process.trace[-1]["device_free"] = 70 << 30
    proof, _ = prove(recording_of(process.snapshot()))
    assert (proof.ooms, proof.room_bytes) == (1, 80 * MIB)


def test_an_oom_that_the_cache_could_have_served_is_not_reproduced() -> None:
    process = RecordedProcess()
    process.free(process.malloc(60 * MIB))
    process.malloc(500)
    process.trace.append({"action": "oom", "device_free": 0, "size": 50 * MIB, "stream": 0})
    proof, _ = prove(recording_of(process.snapshot()))
    assert not proof.ooms_reproduced


@pytest.mark.parametrize(
    ("event", "key", "value", "said"),
    [
        (1, "addr", 0x7F3000000000, "torch put"),
        (2, "addr", 0x123000, "is freed that is not in use"),
    ],
)
def test_a_history_of_another_allocator_leaves_the_track(
    event: int, key: str, value: int, said: str
) -> None:
    process = RecordedProcess()
    process.free(process.malloc(60 * MIB))
    snapshot = process.snapshot()
    frees = [entry for entry in snapshot["device_traces"][1] if entry["action"] != "x"]
    index = event if event == 1 else len(frees) - 1
    frees[index][key] = value
    proof, _ = prove(recording_of(snapshot))
    assert proof.left_track_at is not None
    assert said in proof.reason or not proof.end_state_equal


def test_segments_at_the_end_that_differ_are_noticed() -> None:
    process = busy(5)
    snapshot = process.snapshot()
    snapshot["segments"] = snapshot["segments"][:-1]
    proof, _ = prove(recording_of(snapshot))
    assert not proof.end_state_equal
    assert proof.left_track_at is not None


def test_what_was_alive_at_the_peak_by_line_and_by_size() -> None:
    process = RecordedProcess()
    process.malloc(60 * MIB)
    first = len(process.trace)
    process.malloc(3 * MIB)
    process.malloc(5 * MIB)
    recording = recording_of(process.snapshot(len(process.trace) - first))
    proof, start = prove(recording)
    groups = groups_at_peak(recording, start, proof.peak_allocated_at)
    assert [(group.where, group.size_bytes, group.blocks) for group in groups] == [
        (EARLIER, 60 * MIB, 1),
        ("train.py:42 step", 8 * MIB, 2),
    ]
    bare = process.snapshot()
    for entry in bare["device_traces"][1]:
        entry.pop("frames")
    recording = recording_of(bare)
    groups = groups_at_peak(recording, [], len(recording.events))
    assert [group.where for group in groups] == ["32 to 64 MiB", "4 to 8 MiB", "2 to 4 MiB"]


def test_the_line_of_a_stack_is_the_users() -> None:
    assert line_of(STACK) == "train.py:42 step"
    assert line_of(STACK[:1]) == "module.py:7 _call"
    assert line_of([{"filename": "??", "line": 0, "name": "f"}]) == ""
    assert size_class(1) == "up to 1 MiB"
    assert size_class(2 * MIB) == "1 to 2 MiB"


@pytest.mark.parametrize(
    "snapshot",
    [
        None,
        [],
        {"segments": []},
        {"segments": [], "device_traces": [[{"action": "alloc", "addr": -1, "size": 1}]]},
        {"segments": [], "device_traces": [[{"action": "alloc", "addr": "x", "size": 1}]]},
        {"segments": [{"device": 0}], "device_traces": [[{"action": "snapshot"}]]},
        {"segments": 3, "device_traces": [[]]},
        {"segments": [], "device_traces": [3]},
    ],
)
def test_what_is_no_snapshot_is_refused(snapshot: Any) -> None:
    with pytest.raises(InputError, match="is not a memory snapshot"):
        recordings_of(snapshot, origin="test", size_bytes=1 << 20)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_any_snapshot_has_the_bytes_of_its_entries(protocol: int) -> None:
    """The shortest that is one: an event and a block a device, texts once, everything small."""
    events = [{"action": "alloc", "addr": 0, "size": 1} for _ in range(2000)]
    blocks = [{"size": True, "state": "active"} for _ in range(2000)]
    segment = {"address": 0, "total_size": 0, "segment_type": "small", "blocks": blocks}
    snapshot = {"segments": [segment], "device_traces": [events]}
    size_bytes = len(pickletools.optimize(pickle.dumps(snapshot, protocol)))
    (recording,) = recordings_of(snapshot, origin="test", size_bytes=size_bytes)
    assert len(recording.events) == len(recording.segments[0].blocks) == 2000


@pytest.mark.parametrize("what", ["events", "segments", "blocks"])
def test_a_small_file_that_repeats_an_entry_is_refused(what: str) -> None:
    segment: dict[str, Any] = {
        "address": 0, "total_size": 1, "segment_type": "small",
        "blocks": [{"size": 1, "state": "inactive"}] * (5000 if what == "blocks" else 1),
    }  # fmt: skip
    event = {"action": "alloc", "addr": 512, "size": 512}
    snapshot = {
        "segments": [segment] * (5000 if what == "segments" else 1),
        "device_traces": [[event] * (5000 if what == "events" else 1)],
    }
    content = pickle.dumps(snapshot, 4)
    assert len(content) < 11_000
    with pytest.raises(InputError, match=f"5000 {what} in .* bytes: they repeat each other"):
        recordings_of(read_pickle(content, origin="test"), origin="test", size_bytes=len(content))


#: Lists of twice the same: nested further, a few bytes whose text would be endless.
_LEAF: list[Any] = []
DOUBLED = [[_LEAF, _LEAF], [_LEAF, _LEAF]]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"addr": DOUBLED}, "a list is no size or address"),
        ({"frames": 3}, "a int is no stack"),
        ({"action": DOUBLED}, "unhashable"),
    ],
)
def test_a_value_of_another_kind_is_refused_without_its_text(
    change: dict[str, Any], said: str
) -> None:
    event = {"action": "alloc", "addr": 512, "size": 512, **change}
    snapshot = {"segments": [], "device_traces": [[event]]}
    with pytest.raises(InputError, match=said):
        recordings_of(snapshot, origin="test", size_bytes=1 << 10)
    conf = {"PYTORCH_CUDA_ALLOC_CONF": DOUBLED}
    snapshot = {**snapshot, "device_traces": [[{**event, "action": "snapshot"}]]}
    with pytest.raises(InputError, match="a list is no allocator settings"):
        recordings_of({**snapshot, "allocator_settings": conf}, origin="test", size_bytes=1 << 10)


class Walked(list[Any]):
    """Counts how often it is gone through."""

    times = 0

    def __iter__(self) -> Iterator[Any]:
        self.times += 1
        return super().__iter__()


def test_a_stack_that_events_share_is_gone_through_once() -> None:
    frame = {"filename": "train.py", "line": 1, "name": DOUBLED}
    stack = Walked([3, frame])
    process = RecordedProcess()
    for _ in range(50):
        process.malloc(MIB)
    for entry in process.trace:
        entry["frames"] = stack
    recording = recording_of(process.snapshot())
    stack.times = 0
    proof, start = prove(recording)
    (group,) = groups_at_peak(recording, start, proof.peak_allocated_at)
    assert (group.where, group.blocks) == ("train.py:1", 50)
    assert stack.times == 1


def test_published_snapshots_are_followed_exactly(shared: Path) -> None:
    allocations = 0
    for path in sorted((shared / "corpus/snapshots").glob("*.pickle")):
        content = path.read_bytes()
        snapshot = read_pickle(content, origin=path.name)
        for recording in recordings_of(snapshot, origin=path.name, size_bytes=len(content)):
            proof, _ = prove(recording)
            assert proof.left_track_at is None
            assert proof.at_recorded_address == proof.allocations
            assert proof.end_state_equal
            assert proof.live_at_start > 0
            allocations += proof.allocations
    assert allocations == 1935 + 1721


def test_recorded_training_is_followed_exactly(shared: Path) -> None:
    paths = sorted((shared / "facts/allocator/h200-training-streams").glob("*.json.gz"))
    assert len(paths) == 25
    for path in paths:
        run = json.loads(gzip.decompress(path.read_bytes()))
        events = tuple(tuple(event) for event in run["ev"] if event[0] in {*ACTIONS.values()})
        proof, _ = prove(
            Recording(
                device=0,
                events=events,
                stacks=(),
                segments=(),
                block_stacks={},
                conf=run["conf"] or "",
                version=(2, 11),
            )
        )
        assert proof.at_recorded_address == proof.allocations, path.name
        assert proof.peak_reserved_bytes == run["stats"]["reserved_bytes.all.peak"]
        assert proof.peak_allocated_bytes == run["stats"]["allocated_bytes.all.peak"]

"""`envkit memory replay` from a file to the document and the exit code."""

from __future__ import annotations

import contextlib
import json
import pickle
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recorded_process import RecordedProcess, busy

from envkit.allocator.sizes import GIB, MIB
from envkit.errors import CannotCheckError, InputError, UsageError
from envkit.model.documents import Replay
from envkit.workflows import replay as workflow
from envkit.workflows.replay import ReplayRequest, exit_code, parse_size, replay


def saved(folder: Path, snapshot: Any, name: str = "snapshot.pickle") -> str:
    path = folder / name
    if name.endswith(".json"):
        path.write_text(json.dumps(snapshot))
    else:
        path.write_bytes(pickle.dumps(snapshot, 4))
    return str(path)


def silent(done: int, total: int, name: str) -> None:
    del done, total, name


def run(path: str, *confs: str, total: int | None = None) -> Replay:
    return replay(ReplayRequest(snapshot=path, confs=confs, total_memory_bytes=total), silent)


def fragmented() -> RecordedProcess:
    """Free every second block of 30 MiB, then ask for ones that only fit where two were."""
    process = RecordedProcess()
    blocks = [process.malloc(30 * MIB) for _ in range(10)]
    for block in blocks:
        process.free(block)
    for _ in range(5):
        process.malloc(50 * MIB)
    return process


def test_another_setting_needs_less_and_the_recorded_one_is_as_it_was(tmp_path: Path) -> None:
    process = fragmented()
    (device,) = run(saved(tmp_path, process.snapshot())).devices
    assert (device.index, device.proof.end_state_equal, device.proof.left_track_at) == (
        1,
        True,
        None,
    )
    recorded, expandable = device.settings[0], device.settings[1]
    stats = process.allocator.memory_stats()
    assert recorded.is_recorded
    assert recorded.peak_reserved_bytes == stats["reserved_bytes.all.peak"] == 550 * MIB
    assert expandable.conf == "expandable_segments:True"
    assert expandable.peak_reserved_bytes == 300 * MIB
    assert recorded.fragmentation_bytes == 250 * MIB


def test_json_says_the_same_as_the_pickle(tmp_path: Path) -> None:
    snapshot = busy(4).snapshot()
    one = run(saved(tmp_path, snapshot))
    two = run(saved(tmp_path, snapshot, "snapshot.json"))
    assert one.devices == two.devices


def test_a_smaller_card(tmp_path: Path) -> None:
    path = saved(tmp_path, fragmented().snapshot())
    request = ReplayRequest(
        snapshot=path, confs=("expandable_segments:True",), total_memory_bytes=320 * MIB
    )
    document = replay(request, silent)
    recorded, expandable = document.devices[0].settings
    # The cache is flushed when memory is short, so what was recorded fits too, at a price.
    assert recorded.ran_out_at_event is None
    assert recorded.retries == 0 or recorded.peak_reserved_bytes <= 320 * MIB
    assert expandable.ran_out_at_event is None
    assert exit_code(document, request, must_fit=True) == 0


def test_must_fit_is_exit_1(tmp_path: Path) -> None:
    path = saved(tmp_path, fragmented().snapshot())
    request = ReplayRequest(
        snapshot=path, confs=("max_split_size_mb:128",), total_memory_bytes=200 * MIB
    )
    document = replay(request, silent)
    assert document.devices[0].settings[1].ran_out_at_event is not None
    assert exit_code(document, request, must_fit=True) == 1
    assert exit_code(document, request, must_fit=False) == 0


def test_a_recorded_oom_is_the_end_and_its_room_the_limit(tmp_path: Path) -> None:
    process = RecordedProcess(capacity=200 * MIB)
    for _ in range(8):
        process.malloc(30 * MIB)
    document = run(saved(tmp_path, process.snapshot()))
    recorded = document.devices[0].settings[0]
    assert recorded.total_memory_bytes == 200 * MIB
    assert recorded.ran_out_at_event == 12
    assert document.devices[0].proof.ooms_reproduced
    assert all(one.ran_out_at_event == 12 for one in document.devices[0].settings[1:])


def test_leaving_the_track_is_exit_3(tmp_path: Path) -> None:
    snapshot = fragmented().snapshot()
    snapshot["segments"] = snapshot["segments"][:-1]
    request = ReplayRequest(snapshot=saved(tmp_path, snapshot))
    document = replay(request, silent)
    assert document.devices[0].proof.left_track_at is not None
    assert exit_code(document, request, must_fit=False) == 3


def test_settings_in_processes_say_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = saved(tmp_path, busy(6).snapshot())
    here = run(path)
    monkeypatch.setattr(workflow, "PARALLEL_EVENTS", 1)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    assert run(path) == here


def test_progress_counts_the_settings(tmp_path: Path) -> None:
    told: list[tuple[int, int, str]] = []
    request = ReplayRequest(snapshot=saved(tmp_path, busy(1).snapshot()))
    replay(request, lambda *step: told.append(step))
    assert told[-1] == (4, 4, "GPU 1: settings")


@pytest.mark.parametrize(
    "snapshot", [[], {"segments": []}, {"segments": [], "device_traces": [[]]}]
)
def test_without_a_history_it_cannot_be_checked(tmp_path: Path, snapshot: Any) -> None:
    with pytest.raises(CannotCheckError, match="has no history"):
        run(saved(tmp_path, snapshot))


def test_input_that_is_no_snapshot(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        run(str(tmp_path / "nowhere"))
    (tmp_path / "x").write_bytes(b"text")
    with pytest.raises(InputError, match="is not a memory snapshot"):
        run(str(tmp_path / "x"))


@pytest.mark.parametrize("conf", ["foo:1", "backend:cudaMallocAsync", "max_split_size_mb:1"])
def test_settings_that_torch_would_refuse(tmp_path: Path, conf: str) -> None:
    with pytest.raises(UsageError):
        run(saved(tmp_path, busy(1, steps=20).snapshot()), conf)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("24GiB", 24 * GIB),
        ("24G", 24 * GIB),
        ("24GB", 24 * 10**9),
        ("1.5 gib", 3 * GIB // 2),
        ("512MiB", 512 * MIB),
        ("1000", 1000),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "GiB", "-1GiB", "3foo", "0", "1e9"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(UsageError):
        parse_size(text)


@settings(max_examples=100, deadline=None)
@given(
    data=st.data(), seed=st.integers(0, 3), conf=st.sampled_from(["", "expandable_segments:True"])
)
def test_a_damaged_history_is_an_answer_or_a_refusal(
    data: st.DataObject, seed: int, conf: str
) -> None:
    snapshot = json.loads(json.dumps(busy(seed, conf, steps=60).snapshot()))
    trace, segments = snapshot["device_traces"][1], snapshot["segments"]
    numbers = st.sampled_from([0, 1, 512, MIB, 1 << 41, 1 << 63, -1, None, "x"]) | st.sampled_from(
        [entry.get("addr", 0) for entry in trace]
    )
    for _ in range(data.draw(st.integers(1, 6))):
        where = data.draw(st.sampled_from(["event", "segment", "block", "drop", "twice", "action"]))
        entry = data.draw(st.sampled_from(trace))
        segment = data.draw(st.sampled_from(segments))
        if where == "event":
            entry[data.draw(st.sampled_from(["addr", "size", "stream"]))] = data.draw(numbers)
        elif where == "segment":
            segment[data.draw(st.sampled_from(["address", "total_size"]))] = data.draw(numbers)
        elif where == "block":
            segment["blocks"][0]["size"] = data.draw(numbers)
        elif where == "drop" and len(trace) > 1:
            trace.remove(entry)
        elif where == "twice":
            trace.append(dict(entry))
        else:
            entry["action"] = data.draw(st.sampled_from(["alloc", "free_completed", "segment_map"]))
    with tempfile.TemporaryDirectory() as folder:
        path = saved(Path(folder), snapshot, "snapshot.json")
        with contextlib.suppress(InputError, CannotCheckError):
            assert run(path).devices

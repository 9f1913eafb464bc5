from __future__ import annotations

import csv
import json
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from counted_gpu import MESSAGE, MIB, CountedGpu
from running import environment

import envkit
from envkit.errors import UsageError
from envkit.monitor import Alarm, MemoryMonitor


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> CountedGpu:
    counted = CountedGpu()
    counted.install(monkeypatch)
    return counted


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_without_a_gpu_it_says_so_and_watches_the_host(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.version, "cuda", None)
    monkeypatch.setattr(torch.version, "hip", None)
    log = tmp_path / "memory.csv"
    with caplog.at_level(logging.WARNING), MemoryMonitor(every=2, log=log) as monitor:
        for _ in range(5):
            monitor.step()
    assert "build for the CPU" in caplog.text
    assert "GPU: not monitored" in monitor.summary()
    rows = list(csv.DictReader(log.read_text().splitlines()))
    assert [row["step"] for row in rows] == ["2", "4"]
    assert rows[0]["allocated_bytes"] == ""
    if sys.platform == "linux":
        assert int(rows[0]["host_bytes"]) > MIB


def test_every_counter_reaches_the_log(gpu: CountedGpu, tmp_path: Path) -> None:
    gpu.retries = 3
    log = tmp_path / "memory.jsonl"
    with MemoryMonitor(every=1, log=log) as monitor:
        monitor.step()
    begin, sample = lines(log)
    assert (begin["event"], begin["why_no_gpu"]) == ("begin", "")
    wanted = {
        "event": "sample",
        "step": 1,
        "allocated_bytes": 100 * MIB,
        "reserved_bytes": 200 * MIB,
        "free_in_pool_bytes": 100 * MIB,
        "peak_allocated_bytes": 150 * MIB,
        "peak_reserved_bytes": 200 * MIB,
        "retries": 3,
        "ooms": 0,
    }
    assert {name: sample[name] for name in wanted} == wanted
    assert "100.00 MiB allocated, 200.00 MiB reserved, 100.00 MiB free" in monitor.summary()


def test_the_rank_is_part_of_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "3")
    with MemoryMonitor(log=tmp_path / "memory-{rank}.jsonl"):
        pass
    assert (tmp_path / "memory-3.jsonl").exists()


def test_scalars_go_to_the_users_writer(gpu: CountedGpu) -> None:
    class Scalars:
        def __init__(self) -> None:
            self.seen: dict[str, tuple[float, int]] = {}

        def add_scalar(self, tag: str, scalar_value: float, global_step: int) -> None:
            self.seen[tag] = (scalar_value, global_step)

    scalars = Scalars()
    with MemoryMonitor(every=5, tensorboard=scalars) as monitor:
        for _ in range(5):
            monitor.step()
    assert scalars.seen["memory/reserved_bytes"] == (float(gpu.reserved_bytes), 5)
    assert "memory/step" not in scalars.seen


def test_a_folder_for_tensorboard_is_written(gpu: CountedGpu, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="the extra `tensorboard` is not installed")
    assert gpu.retries == 0
    with MemoryMonitor(every=1, tensorboard=tmp_path / "board") as monitor:
        monitor.step()
    assert list((tmp_path / "board").glob("events.*"))


def test_tensorboard_that_is_missing_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    monitor = MemoryMonitor(tensorboard=tmp_path)
    with pytest.raises(UsageError) as refused:
        monitor.start()
    assert "pip install tensorboard" in refused.value.next_step


@pytest.mark.parametrize("log", ["memory.txt", "no/such/folder/memory.csv"])
def test_a_log_that_cannot_be_is_refused(log: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        MemoryMonitor(log=tmp_path / log).start()


def test_a_sample_every_zero_steps_is_refused() -> None:
    with pytest.raises(UsageError, match="every=0"):
        MemoryMonitor(every=0)


@pytest.mark.parametrize("history", [True, False])
def test_a_leak_comes_with_the_line_when_asked(
    gpu: CountedGpu, tmp_path: Path, *, history: bool
) -> None:
    found: list[Alarm] = []
    log = tmp_path / "memory.jsonl"
    with MemoryMonitor(every=1, history=history, on_alarm=found.append, log=log) as monitor:
        for _ in range(12):
            monitor.step()
            gpu.allocated_bytes += 2 * MIB
            gpu.kept_bytes += 2 * MIB
    assert [alarm.kind for alarm in found] == ["leak"]
    assert found == monitor.alarms
    assert lines(log)[-1]["kind"] == "leak"
    named = "Allocated there and still alive: train.py:88 step (+18.00 MiB)."
    assert found[0].text.endswith(named if history else "(history=True) names the line.")
    assert gpu.recording == (["all", None] if history else [])
    assert "leak: Allocated memory grows by 2.00 MiB a step" in monitor.summary()


def test_an_oom_is_explained_and_passes_through_unchanged(
    gpu: CountedGpu, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    error = torch.OutOfMemoryError(MESSAGE)
    assert gpu.ooms == 0

    def train() -> None:
        with MemoryMonitor(on_oom=tmp_path) as monitor:
            monitor.step()
            raise error

    with pytest.raises(torch.OutOfMemoryError) as raised:
        train()
    assert raised.value is error
    assert raised.value.args == (MESSAGE,)
    assert getattr(error, "__notes__", []) == []
    explanation = (tmp_path / "explanation-step1-rank0.txt").read_text()
    assert explanation.startswith("capacity")
    assert "2.00 GiB" in explanation
    assert (tmp_path / "snapshot-step1-rank0.pickle").stat().st_size > 0
    assert "What to do, most likely first" in caplog.text


def test_with_a_history_the_replay_speaks_too(gpu: CountedGpu, tmp_path: Path) -> None:
    monitor = MemoryMonitor(every=1, history=True, on_oom=tmp_path)
    monitor.step()
    monitor.failed(torch.OutOfMemoryError(MESSAGE))
    monitor.stop()
    text = (tmp_path / "explanation-step1-rank0.txt").read_text()
    assert "could not be replayed: snapshot-step1-rank0.pickle has no history" in text
    assert gpu.recording == ["all", None]


def test_other_errors_are_left_alone(tmp_path: Path) -> None:
    for error in (KeyError("out of memory"), RuntimeError("shapes do not fit")):
        with pytest.raises(type(error)), MemoryMonitor(on_oom=tmp_path / "oom"):
            raise error
    assert not (tmp_path / "oom").exists()


def test_a_folder_that_cannot_be_written_does_not_hide_the_error(
    gpu: CountedGpu, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert gpu.ooms == 0
    (tmp_path / "file").write_text("")
    with pytest.raises(torch.OutOfMemoryError), MemoryMonitor(on_oom=tmp_path / "file"):
        raise torch.OutOfMemoryError(MESSAGE)
    assert "Not everything could be kept" in caplog.text


def test_whatever_goes_wrong_meanwhile_does_not_replace_the_error(
    gpu: CountedGpu,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert gpu.ooms == 0
    monkeypatch.setattr("envkit.monitor.out_of_memory.render_oom_text", lambda *_: {"": ""}["bug"])
    with pytest.raises(torch.OutOfMemoryError), MemoryMonitor(on_oom=tmp_path):
        raise torch.OutOfMemoryError(MESSAGE)
    assert "could not be explained" in caplog.text


def test_a_full_disk_does_not_end_the_training(
    gpu: CountedGpu, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full")
    log = tmp_path / "memory.jsonl"
    log.symlink_to("/dev/full")
    with MemoryMonitor(every=1, log=log) as monitor:
        for _ in range(3):
            monitor.step()
    assert gpu.ooms == 0
    assert caplog.text.count("given up: No space left on device") == 1


def test_history_begins_with_the_run_where_cuda_is_in_use(gpu: CountedGpu) -> None:
    with MemoryMonitor(every=100, history=True):
        assert gpu.recording == ["all"]


def test_importing_envkit_loads_nothing() -> None:
    code = (
        "import sys, envkit; loaded = set(sys.modules); "
        "print(sorted({'torch', 'msgspec', 'envkit.monitor'} & loaded)); "
        "envkit.MemoryMonitor; print('torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment(), check=True
    )
    assert done.stdout.split("\n")[:2] == ["[]", "False"]


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        envkit.no_such_name  # noqa: B018


@pytest.mark.parametrize("log", ["nul\0.csv", "no/such/folder.csv", "x.txt", "x" * 300 + ".jsonl"])
def test_a_log_that_cannot_be_is_refused_at_the_start(log: str) -> None:
    with pytest.raises(UsageError, match="The log"):
        MemoryMonitor(log=log).start()

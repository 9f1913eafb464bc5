"""Jobs in forked and in spawned children: bounded, passed on, and never the end of their parent."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from envkit.model.report import OUT_OF_TIME
from envkit.probes import launch
from envkit.probes.events import ChildRequest

if TYPE_CHECKING:
    from probes.conftest import Target

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")

Child = Callable[[str], ModuleType]


class Recorder:
    """An `Emitter` of the child on a pipe of which we hold the other end."""

    def __init__(self, child_module: Child) -> None:
        self._read_end, write_end = os.pipe()
        self.emit = child_module("protocol").Emitter(write_end)

    def events(self) -> list[dict[str, Any]]:
        os.close(self.emit.descriptor)
        with os.fdopen(self._read_end, "rb") as pipe:
            return [json.loads(line) for line in pipe]


@pytest.fixture
def recorder(child_module: Child) -> Recorder:
    return Recorder(child_module)


def adds(args: dict[str, Any], emit: Any) -> int:
    emit("progress", done=1, total=1, name=args["name"])
    return int(args["left"] + args["right"])


def raises(_args: dict[str, Any], emit: Any) -> None:
    emit.stage("before_the_fall")
    message = "no such thing"
    raise LookupError(message)


def leaves(_args: dict[str, Any], _emit: Any) -> None:
    raise SystemExit(3)


def exits(_args: dict[str, Any], _emit: Any) -> None:
    os._exit(4)


def crashes(_args: dict[str, Any], emit: Any) -> None:
    emit.stage("cuda_init")
    os.kill(os.getpid(), signal.SIGKILL)  # pytest would print a stack for SIGSEGV


def sleeps(args: dict[str, Any], _emit: Any) -> int:
    time.sleep(args["seconds"])
    return os.getpid()


class Staying:
    """A standard output that a child does not get past until a pipe is closed."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe

    def flush(self) -> None:
        os.read(self._pipe, 1)


def tells_and_stays(args: dict[str, Any], _emit: Any) -> int:
    os.close(args["write_end"])
    sys.stdout = Staying(args["read_end"])
    return os.getpid()


def gives_nonsense(_args: dict[str, Any], _emit: Any) -> object:
    return object()


def writes_noise(_args: dict[str, Any], emit: Any) -> None:
    emit.forward(b"this is not an event\n")
    os._exit(0)


def closes_its_pipe_and_lives_on(_args: dict[str, Any], emit: Any) -> None:
    emit.close()
    time.sleep(600)


def leaves_a_process_with_the_pipe(_args: dict[str, Any], _emit: Any) -> int:
    left = os.fork()
    if left == 0:
        time.sleep(20)
        os._exit(0)
    return left


def writes_much(args: dict[str, Any], emit: Any) -> int:
    for number in range(args["events"]):
        emit("probe", name=f"{args['mark']}{number}", text=args["mark"] * 20_000)
    return int(args["events"])


def writes_past_its_pipe(args: dict[str, Any], _emit: Any) -> str:
    try:
        os.write(args["line"], b"noise\n")
    except OSError:
        return "refused"
    return "written"


def test_value_and_events(child_module: Child, recorder: Recorder) -> None:
    fork = child_module("fork")
    job = fork.Job("sum", adds, {"name": "x", "left": 2, "right": 3}, 60.0)
    (result,) = fork.run_jobs([job], recorder.emit, {})
    assert (result.status, result.value, result.ok, result.name) == ("finished", 5, True, "sum")
    assert recorder.events() == [{"event": "progress", "done": 1, "total": 1, "name": "x"}]


@pytest.mark.parametrize(
    ("function", "ending"),
    [
        (raises, ("raised", "LookupError: no such thing")),
        (leaves, ("raised", "SystemExit: 3")),
        (exits, ("exited", "it ended with exit code 4 and no result")),
        (crashes, ("crashed", "SIGKILL")),
        (gives_nonsense, ("raised", "TypeError: Object of type object is not JSON serializable")),
        (writes_noise, ("lost", "it sent a line that is not an event")),
    ],
)
def test_ways_to_end(
    child_module: Child, recorder: Recorder, function: Any, ending: tuple[str, str]
) -> None:
    fork = child_module("fork")
    (result,) = fork.run_jobs([fork.Job("job", function, {}, 60.0)], recorder.emit, {})
    assert (result.status, result.reason) == ending
    assert (result.value, result.ok) == (None, False)
    result.emit_error(recorder.emit, "somewhere")
    assert recorder.events()[-1]["event"] == "error"


def test_error_is_placed_at_the_last_stage(child_module: Child, recorder: Recorder) -> None:
    fork = child_module("fork")
    (result,) = fork.run_jobs([fork.Job("job", crashes, {}, 60.0)], recorder.emit, {})
    result.emit_error(recorder.emit, "somewhere")
    stage, error = recorder.events()
    assert stage == {"event": "stage", "name": "cuda_init"}
    assert (error["stage"], error["type"], error["message"]) == ("cuda_init", "crashed", "SIGKILL")


@pytest.mark.parametrize("function", [sleeps, closes_its_pipe_and_lives_on])
def test_time_limit(child_module: Child, recorder: Recorder, function: Any) -> None:
    fork = child_module("fork")
    job = fork.Job("slow", function, {"seconds": 600}, 0.5)
    (result,) = fork.run_jobs([job], recorder.emit, {})
    assert (result.status, result.reason) == ("timed_out", "no end after 0.5 s")
    assert result.seconds < 30


def test_a_job_that_the_limit_of_all_cut_short_says_so_in_round_figures(
    child_module: Child,
) -> None:
    jobs = child_module("jobs")
    result = jobs.Result("slow")
    jobs.set_timed_out(result, jobs.Job("slow", sleeps, {}, 9.92858, cut=True))
    assert result.reason == f"{OUT_OF_TIME}: no end after 9.93 s"


def test_a_process_left_behind_does_not_hold_us_up(child_module: Child, recorder: Recorder) -> None:
    fork = child_module("fork")
    job = fork.Job("left", leaves_a_process_with_the_pipe, {}, 19.0)
    (result,) = fork.run_jobs([job], recorder.emit, {})
    os.kill(result.value, signal.SIGKILL)
    assert result.status == "finished"


def test_several_at_once_keep_their_lines_whole_and_their_order(
    child_module: Child, recorder: Recorder
) -> None:
    fork = child_module("fork")
    jobs = [fork.Job(m, writes_much, {"mark": m, "events": 30}, 60.0) for m in "abcde"]
    reader_seen: list[dict[str, Any]] = []
    # The pipe of the recorder is small: read it while the jobs write.

    with os.fdopen(recorder._read_end, "rb") as pipe:
        reader = threading.Thread(target=lambda: reader_seen.extend(map(json.loads, pipe)))
        reader.start()
        results = fork.run_jobs(jobs, recorder.emit, {}, at_once=3)
        os.close(recorder.emit.descriptor)
        reader.join()
    assert [(r.name, r.value) for r in results] == [(m, 30) for m in "abcde"]
    for mark in "abcde":
        mine = [event for event in reader_seen if event["name"].startswith(mark)]
        assert [event["name"] for event in mine] == [f"{mark}{n}" for n in range(30)]
        assert {event["text"] for event in mine} == {mark * 20_000}


def test_at_once_is_kept(child_module: Child, recorder: Recorder) -> None:
    fork = child_module("fork")
    jobs = [fork.Job(str(n), sleeps, {"seconds": 0.2}, 60.0) for n in range(4)]
    started = time.monotonic()
    results = fork.run_jobs(jobs, recorder.emit, {}, at_once=1)
    assert time.monotonic() - started >= 0.8
    assert len({result.value for result in results}) == 4


def test_a_job_cannot_write_to_its_parents_line(child_module: Child, recorder: Recorder) -> None:
    fork = child_module("fork")
    job = fork.Job("x", writes_past_its_pipe, {"line": recorder.emit.descriptor}, 60.0)
    (result,) = fork.run_jobs([job], recorder.emit, {})
    assert result.value == "refused"
    assert recorder.events() == []


def test_a_result_can_be_had_before_its_process_has_ended(
    child_module: Child, recorder: Recorder
) -> None:
    fork = child_module("fork")
    read_end, write_end = os.pipe()
    args = {"read_end": read_end, "write_end": write_end}
    jobs = [fork.Job("told", tells_and_stays, args, 30.0), fork.Job("dead", crashes, {}, 30.0)]
    told, dead = fork.run_jobs(jobs, recorder.emit, {}, 2, until_told=True)
    assert (told.ok, dead.status) == (True, "crashed")
    assert os.waitpid(told.value, os.WNOHANG) == (0, 0)  # still there
    os.close(write_end)
    fork.see_off()
    with pytest.raises(ChildProcessError):
        os.waitpid(told.value, os.WNOHANG)
    os.close(read_end)


def test_a_process_that_never_leaves_is_ended(
    child_module: Child, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    fork = child_module("fork")
    monkeypatch.setattr(fork, "LEAVING_LIMIT_S", 0.05)
    read_end, write_end = os.pipe()
    job = fork.Job("told", tells_and_stays, {"read_end": read_end, "write_end": write_end}, 30.0)
    (told,) = fork.run_jobs([job], recorder.emit, {}, until_told=True)
    fork.see_off()
    assert os.waitpid(told.value, 0) == (told.value, signal.SIGKILL)
    os.close(write_end)
    os.close(read_end)


def test_children_that_others_wait_for_are_not_lost(
    child_module: Child, recorder: Recorder
) -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # programs inherit this
    fork = child_module("fork")
    try:
        jobs = [
            fork.Job("fine", adds, {"name": "fine", "left": 1, "right": 2}, 30.0),
            fork.Job("dead", crashes, {}, 30.0),
        ]
        fine, dead = fork.run_jobs(jobs, recorder.emit, {}, 2)
        (told,) = fork.run_jobs(jobs[:1], recorder.emit, {}, until_told=True)
        fork.see_off()
    finally:
        signal.signal(signal.SIGCHLD, before)
    assert (fine.status, fine.value, told.value) == ("finished", 3, 3)
    assert (dead.status, dead.reason) == (
        *("exited", "it ended with no result; its exit code was not kept"),
    )


def test_no_jobs(child_module: Child, recorder: Recorder) -> None:
    assert child_module("fork").run_jobs([], recorder.emit, {}) == []


def test_no_fork_after_cuda_was_used(child_module: Child, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = ModuleType("torch")
    fake.cuda = ModuleType("torch.cuda")  # type: ignore[attr-defined]
    fake.cuda.is_initialized = lambda: True
    monkeypatch.setitem(sys.modules, "torch", fake)
    assert not child_module("fork").can_fork()


# --- through a whole child ------------------------------------------------------------------------

SUITE = """
import os, time
from .fork import Job, can_fork, run_jobs

def measure(args, emit):
    emit("progress", done=1, total=1, name=args["device"])
    import torch
    return {"fork": args["parent"] == os.getppid() and args["parent"] != os.getpid(),
            "version": torch.__version__, "switch": torch.backends.cudnn.enabled}

def crash(args, emit):
    emit.stage("crashing")
    os.abort()

def wait(args, emit):
    emit.stage("waiting")
    time.sleep(600)

def run(request, emit, beside=(), context=None):
    if request["suite"] == "none":
        raise ValueError("there is no suite 'none'")
    if request["suite"] == "clock":
        raise ValueError(request["time_limit_s"])
    emit("suite", name=request["suite"], version=1, seed=7, probes=["one"])
    what = {"wait": wait, "crash": crash}.get(request["suite"], measure)
    args = {"parent": os.getpid(), "device": request["device"]}
    for result in run_jobs([Job("one", what, args, 30.0)], emit, request):
        if result.ok:
            emit("probe", name="one", layer="context", status="exact", values=result.value)
        else:
            result.emit_error(emit, "suite")
"""
TORCH = """
import types
__version__ = "9.9.9"
version = types.ModuleType("torch.version"); version.cuda = version.hip = None
backends = types.SimpleNamespace(cudnn=types.SimpleNamespace(enabled=True))
"""


@pytest.fixture
def suite_target(target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Target:
    """A target with a fake torch, and a child with a fake suite."""
    folder = tmp_path / "child"
    shutil.copytree(launch.START.parent, folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "suite.py").write_text(SUITE)
    monkeypatch.setattr(launch, "START", folder / "start.py")
    target.module("torch.", TORCH)
    return target


def test_fingerprint_runs_the_suite(suite_target: Target) -> None:
    run = suite_target.run(tasks=("fingerprint",), flags={"cudnn.enabled": False})
    assert run.outcome == launch.Finished()
    assert run.errors == ()
    (probe,) = run.probes
    assert probe.values == {"fork": True, "version": "9.9.9", "switch": False}
    assert run.suite is not None
    assert (run.suite.name, run.suite.version, run.suite.probes) == ("quick", 1, ("one",))


def test_what_the_suite_raises_is_an_error(suite_target: Target) -> None:
    run = suite_target.run(tasks=("fingerprint",), suite="none")
    assert run.outcome == launch.Finished()
    (error,) = run.errors
    assert (error.stage, error.message) == ("fingerprint", "there is no suite 'none'")
    assert run.suite is None


def test_the_suite_is_told_what_is_left_of_the_time(suite_target: Target) -> None:
    run = suite_target.run(tasks=("fingerprint",), suite="clock", time_limit_s=60.0)
    (error,) = run.errors
    assert 1.0 <= float(error.message) < 60.0


def test_without_fork_a_second_interpreter_does_the_work(suite_target: Target) -> None:
    suite_target.module("sitecustomize", "import os\ndel os.fork")
    run = suite_target.run(tasks=("facts", "fingerprint"), flags={"cudnn.enabled": False})
    assert run.outcome == launch.Finished()
    assert run.errors == ()
    (probe,) = run.probes
    # Its parent is the child itself, and the flags were set there again.
    assert probe.values == {"fork": True, "version": "9.9.9", "switch": False}
    assert run.facts["torch"]["cuda_available"] == {"unreadable": "this torch has no torch.cuda"}


@pytest.mark.parametrize("without_fork", [False, True])
def test_a_crash_in_the_suite_is_reported_and_survived(
    suite_target: Target, *, without_fork: bool
) -> None:
    if without_fork:
        suite_target.module("sitecustomize", "import os\ndel os.fork")
    run = suite_target.run(tasks=("fingerprint",), suite="crash")
    assert run.outcome == launch.Finished()
    assert [(e.stage, e.type, e.message) for e in run.errors] == [
        ("crashing", "crashed", "SIGABRT")
    ]


def test_a_flag_that_is_refused_means_no_fingerprint(suite_target: Target) -> None:
    run = suite_target.run(tasks=("facts", "fingerprint"), flags={"cudnn.luck": True})
    assert [error.stage for error in run.errors] == ["set_flags"]
    assert "there is no switch 'cudnn.luck'" in run.errors[0].message
    assert run.probes == ()
    assert run.facts["torch"]["version"] == "9.9.9"


def test_a_device_that_is_not_there_means_no_fingerprint(suite_target: Target) -> None:
    run = suite_target.run(tasks=("facts", "fingerprint"), device="cuda:0")
    assert [error.stage for error in run.errors] == ["device"]
    assert "built without CUDA" in run.errors[0].message
    assert run.probes == ()
    assert run.self_test is None


def test_sigterm_ends_the_child_and_its_forks(suite_target: Target) -> None:
    pids: list[int] = []

    def stop_when_waiting(event: object) -> None:
        if getattr(event, "name", "") == "waiting":
            child = children_of(os.getpid())[0]
            pids.extend([child, *children_of(child)])
            os.kill(child, signal.SIGTERM)

    request = ChildRequest(tasks=("fingerprint",), suite="wait", time_limit_s=60.0)
    run = launch.run_child(
        sys.executable, request, env=suite_target.env, on_progress=stop_when_waiting
    )
    assert run.outcome == launch.Crashed(signal="SIGTERM")
    assert len(pids) == 2
    assert not any(is_alive(pid) for pid in pids)


def children_of(pid: int) -> list[int]:
    path = Path(f"/proc/{pid}/task/{pid}/children")
    if not path.exists():
        pytest.skip("this kernel does not list the children of a process")
    return [int(part) for part in path.read_text().split()]


def is_alive(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rsplit(")", 1)[1].split()[0] not in "ZX"

"""A program is bounded in time, memory and output, whatever it does."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from envkit import process

PY = sys.executable


def has_children_listed() -> bool:
    return Path(f"/proc/self/task/{os.getpid()}/children").exists()


def completed(code: str, **limits: object) -> process.Completed:
    result = process.run([PY, "-c", code], **{"timeout_s": 60.0, **limits})  # type: ignore[arg-type]
    assert isinstance(result, process.Completed)
    return result


def test_output_and_exit_code() -> None:
    result = completed("import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)")
    assert (result.returncode, result.signal) == (3, None)
    assert (result.stdout, result.stderr) == (b"out\n", b"err\n")
    assert (result.timed_out, result.truncated) == (False, False)


def test_input_reaches_the_program() -> None:
    sent = b"x" * 1_000_000
    result = completed("import sys; print(len(sys.stdin.buffer.read()))", stdin=sent)
    assert result.stdout == b"1000000\n"


def test_program_that_never_reads_its_input() -> None:
    assert completed("print('done')", stdin=b"x" * 1_000_000).stdout == b"done\n"


def test_environment_and_folder(tmp_path: Path) -> None:
    result = completed(
        "import os; print(os.environ.get('MARK')); print(os.getcwd())",
        env={**os.environ, "MARK": "7"},
        cwd=tmp_path,
    )
    assert result.stdout.decode().split() == ["7", str(tmp_path.resolve())]


def test_time_limit_kills_the_whole_group(tmp_path: Path) -> None:
    pid_file = tmp_path / "grandchild"
    code = (
        "import subprocess, sys, time\n"
        "p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"open({str(pid_file)!r}, 'w').write(str(p.pid))\n"
        "time.sleep(600)\n"
    )
    result = completed(code, timeout_s=3.0)
    assert result.timed_out
    assert (result.returncode, result.signal) == (None, "SIGKILL")
    assert gone(int(pid_file.read_text()))


@pytest.mark.skipif(not has_children_listed(), reason="/proc does not list children here")
def test_time_limit_ends_what_moved_to_a_session_of_its_own(tmp_path: Path) -> None:
    code = (
        "import os, pathlib, time\n"
        f"pids = pathlib.Path({str(tmp_path / 'pids')!r})\n"
        "if not os.fork():\n"
        "    os.setsid()\n"
        "    below = os.fork()\n"
        "    if below: pids.write_text(f'{os.getpid()} {below}')\n"
        "time.sleep(600)\n"
    )
    result = completed(code, timeout_s=3.0)
    assert result.timed_out
    assert (result.returncode, result.signal) == (None, "SIGKILL")
    child, below = (tmp_path / "pids").read_text().split()
    assert gone(int(child))
    assert gone(int(below))


def test_grandchild_that_keeps_the_pipe_open_does_not_hang_us(tmp_path: Path) -> None:
    pid_file = tmp_path / "escaped"
    # start_new_session: it escapes the kill of the group, and its stdout is our pipe.
    code = (
        "import subprocess, sys\n"
        "p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(30)'],"
        " start_new_session=True)\n"
        f"open({str(pid_file)!r}, 'w').write(str(p.pid))\n"
        "print('parent is done')\n"
    )
    result = completed(code, timeout_s=29.0)
    os.kill(int(pid_file.read_text()), signal.SIGKILL)
    assert result.stdout == b"parent is done\n"
    assert result.returncode == 0
    assert not result.timed_out


def test_what_a_program_leaves_behind_is_ended(tmp_path: Path) -> None:
    pid_file = tmp_path / "left"
    code = (
        "import subprocess, sys\n"
        "p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"open({str(pid_file)!r}, 'w').write(str(p.pid))\n"
    )
    assert completed(code).returncode == 0
    assert gone(int(pid_file.read_text()))


def test_endless_output_is_cut_and_stopped() -> None:
    result = completed("while True: print('y' * 1000)", max_stdout_bytes=100_000)
    assert result.truncated
    assert not result.timed_out
    assert len(result.stdout) == 100_000


def test_only_the_end_of_stderr_is_kept() -> None:
    code = "import sys\nfor i in range(100000): print('line', i, file=sys.stderr)"
    result = completed(code, max_stderr_bytes=1000)
    assert len(result.stderr) == 1000
    assert result.stderr.endswith(b"line 99999\n")
    assert (result.returncode, result.truncated) == (0, False)


def test_death_by_a_signal_is_named() -> None:
    result = completed("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    assert (result.returncode, result.signal) == (None, "SIGSEGV")


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (lambda folder: folder / "nothing", "missing"),
        (lambda folder: written(folder / "plain", "#!/bin/sh\n", 0o644), "not_executable"),
        (lambda folder: written(folder / "noise", "\x7fELFnonsense", 0o755), "bad_format"),
        (lambda folder: written(folder / "lost", "#!/no/such/program\n", 0o755), "missing"),
        (lambda folder: folder, "not_executable"),
        (lambda _: "nul\0byte", "other"),
    ],
)
def test_program_that_cannot_be_started(tmp_path: Path, make: object, kind: str) -> None:
    program = make(tmp_path)  # type: ignore[operator]
    result = process.run([program], timeout_s=5.0)
    assert isinstance(result, process.NotStarted)
    assert result.kind == kind
    assert str(program) in result.reason


def test_folder_that_is_not_there(tmp_path: Path) -> None:
    result = process.run([PY, "-c", "0"], timeout_s=5.0, cwd=tmp_path / "gone")
    assert isinstance(result, process.NotStarted)
    assert result.kind == "bad_folder"


def streamed(code: str, **limits: object) -> tuple[process.Completed, list[bytes]]:
    lines: list[bytes] = []

    def keep(line: bytes) -> bool:
        lines.append(line)
        return line != b"stop"

    result = process.stream([PY, "-c", code], on_line=keep, **{"timeout_s": 60.0, **limits})  # type: ignore[arg-type]
    assert isinstance(result, process.Completed)
    return result, lines


def test_lines_come_one_by_one_and_the_unfinished_one_is_kept_apart() -> None:
    result, lines = streamed("import sys; sys.stdout.write('one\\n\\nthree\\nrest')")
    assert lines == [b"one", b"", b"three"]
    assert result.stdout == b"rest"


def test_lines_come_while_the_program_runs() -> None:
    code = (
        "import sys, time; print('first', flush=True); print('stop', flush=True); time.sleep(600)"
    )
    result, lines = streamed(code)
    assert lines == [b"first", b"stop"]
    assert result.stopped
    assert not result.timed_out


def test_a_slow_reader_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "DRAIN_S", 0.1)
    lines: list[bytes] = []

    def keep(line: bytes) -> bool:
        time.sleep(0.1)
        lines.append(line)
        return True

    # More than a pipe holds, so that it comes in several chunks.
    code = "for i in range(6): print(str(i) * 60_000, flush=True)"
    result = process.stream([PY, "-c", code], on_line=keep, timeout_s=60.0)
    assert isinstance(result, process.Completed)
    assert [line[:1] for line in lines] == [b"0", b"1", b"2", b"3", b"4", b"5"]
    assert not result.timed_out


def test_what_was_read_before_the_end_is_given_after_the_deadline() -> None:
    events: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    events.put(b"last words")
    running = SimpleNamespace(_exited=False, _events=events)
    assert process._Watch._next_event(running, 0.0) is None  # type: ignore[arg-type]
    ended = SimpleNamespace(_exited=True, _events=events)
    assert process._Watch._next_event(ended, 0.0) == b"last words"  # type: ignore[arg-type]
    assert process._Watch._next_event(ended, 0.0) is None  # type: ignore[arg-type]


def test_one_line_without_end() -> None:
    result, lines = streamed(
        "import sys\nwhile True: sys.stdout.write('x' * 65536)", max_stdout_bytes=1_000_000
    )
    assert result.truncated
    assert lines == []
    assert len(result.stdout) == 1_000_000


def test_a_long_line_arrives_whole() -> None:
    result, lines = streamed("print('x' * 5_000_000)")
    assert [len(line) for line in lines] == [5_000_000]
    assert result.stdout == b""


def test_what_the_reader_raises_comes_through_and_ends_the_program() -> None:
    pids: list[int] = []

    def refuse(line: bytes) -> bool:
        pids.append(int(line))
        message = "enough"
        raise RuntimeError(message)

    code = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
    with pytest.raises(RuntimeError, match="enough"):
        process.stream([PY, "-c", code], on_line=refuse, timeout_s=60.0)
    assert gone(pids[0])


@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl-C is sent as a POSIX signal")
def test_ctrl_c_ends_the_program(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    inner = (
        f"import os, time; open({str(pid_file)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    )
    outer = (
        "import sys\nfrom envkit import process\n"
        f"process.run([sys.executable, '-c', {inner!r}], timeout_s=600.0)\n"
    )
    with subprocess.Popen([PY, "-c", outer], stderr=subprocess.PIPE) as program:
        wait_for(lambda: pid_file.exists() and pid_file.read_text() != "")
        program.send_signal(signal.SIGINT)
        _, stderr = program.communicate(timeout=60)
    assert b"KeyboardInterrupt" in stderr
    assert gone(int(pid_file.read_text()))


def test_no_thread_stays_behind() -> None:
    before = threading.active_count()
    completed("print('x')")
    assert threading.active_count() == before


def written(path: Path, text: str, mode: int) -> Path:
    path.write_text(text)
    path.chmod(mode)
    return path


def wait_for(condition: object, limit_s: float = 30.0) -> None:
    deadline = time.monotonic() + limit_s
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def gone(pid: int) -> bool:
    """Whether a process ends soon: a killed one may be a zombie until init has reaped it."""

    def ended() -> bool:
        stat = Path(f"/proc/{pid}/stat")
        try:
            return stat.read_text().rsplit(")", 1)[1].split()[0] in "ZX"
        except FileNotFoundError:
            pass
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        return False

    wait_for(ended)
    return True

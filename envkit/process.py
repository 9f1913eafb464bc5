"""How to run another program so that neither its time, its memory nor its output can hurt us."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, Literal

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

#: After the program has gone: how long to wait for what is still in its pipes.
DRAIN_S: Final = 1.0
#: After SIGKILL: how long to wait for the end. A process stuck in a driver call never ends.
KILL_S: Final = 5.0
#: Longest single wait: on Windows a waiting lock cannot be interrupted by Ctrl-C.
SLICE_S: Final = 0.5
CHUNK_BYTES: Final = 1 << 16
#: Processes that are looked for below a program that must end.
MAX_DESCENDANTS: Final = 10_000


class Completed(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a program that was started."""

    returncode: int | None
    """Exit code; None when a signal ended it or it could not be ended at all."""
    signal: str | None
    """Name of the signal that ended it, `SIGSEGV`; after a time limit it is ours, `SIGKILL`."""
    stdout: bytes
    """The first `max_stdout_bytes`; for `stream`, the last line if it was left unfinished."""
    stderr: bytes
    """The last `max_stderr_bytes`."""
    timed_out: bool
    truncated: bool
    """It wrote more than `max_stdout_bytes` and was stopped there."""
    stopped: bool
    """The reader of its lines had enough and it was stopped there (`stream` only)."""
    seconds: float


class NotStarted(msgspec.Struct, frozen=True, kw_only=True):
    """Why a program could not be started."""

    kind: Literal["missing", "not_executable", "bad_format", "bad_folder", "other"]
    reason: str


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """How much a program may take."""

    timeout_s: float
    max_stdout_bytes: int
    max_stderr_bytes: int


def run(  # noqa: PLR0913 (one keyword a limit reads better than a bag)
    argv: Sequence[str | Path],
    *,
    timeout_s: float,
    stdin: bytes = b"",
    env: Mapping[str, str] | None = None,
    cwd: str | Path | None = None,
    max_stdout_bytes: int = 16 << 20,
    max_stderr_bytes: int = 1 << 16,
) -> Completed | NotStarted:
    """Run a program to its end, without a shell, and keep what it wrote.

    It and all that it started in its process group are killed at the time limit, when it
    writes too much to stdout, on Ctrl-C, and when it ends and leaves others behind.
    Where it is killed, so is on Linux what moved to a session of its own, if those between are
    still there: whose parent has ended belongs to nobody, and stays.
    """
    limits = Limits(
        timeout_s=timeout_s, max_stdout_bytes=max_stdout_bytes, max_stderr_bytes=max_stderr_bytes
    )
    kept = bytearray()

    def keep(chunk: bytes) -> bool:
        kept.extend(chunk)
        return True

    started = _start(argv, env, cwd)
    if isinstance(started, NotStarted):
        return started
    return _Watch(started, stdin, limits).follow(keep, lambda: bytes(kept))


def stream(  # noqa: PLR0913
    argv: Sequence[str | Path],
    *,
    on_line: Callable[[bytes], bool],
    timeout_s: float,
    stdin: bytes = b"",
    env: Mapping[str, str] | None = None,
    cwd: str | Path | None = None,
    max_stdout_bytes: int = 64 << 20,
    max_stderr_bytes: int = 1 << 16,
) -> Completed | NotStarted:
    """Run a program and hand over each line of its stdout as soon as it is complete.

    `on_line` gets the line without its newline, in the calling thread, and says whether to go
    on; what it raises ends the program and comes through. Limits as for `run`.
    """
    limits = Limits(
        timeout_s=timeout_s, max_stdout_bytes=max_stdout_bytes, max_stderr_bytes=max_stderr_bytes
    )
    lines = _Lines(on_line)
    started = _start(argv, env, cwd)
    if isinstance(started, NotStarted):
        return started
    return _Watch(started, stdin, limits).follow(lines.feed, lines.rest)


class _Lines:
    """Cuts chunks into lines, looking at every byte once however long a line is."""

    def __init__(self, on_line: Callable[[bytes], bool]) -> None:
        self._on_line = on_line
        self._parts: list[bytes] = []

    def feed(self, chunk: bytes) -> bool:
        *complete, rest = chunk.split(b"\n")
        for line in complete:
            whole = b"".join([*self._parts, line])
            self._parts = []
            if not self._on_line(whole):
                return False
        if rest:
            self._parts.append(rest)
        return True

    def rest(self) -> bytes:
        return b"".join(self._parts)


def _start(
    argv: Sequence[str | Path], env: Mapping[str, str] | None, cwd: str | Path | None
) -> subprocess.Popen[bytes] | NotStarted:
    program = str(argv[0])
    new_group = 0
    if sys.platform == "win32":
        new_group = subprocess.CREATE_NEW_PROCESS_GROUP
    try:
        return subprocess.Popen(
            [str(part) for part in argv],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=None if env is None else dict(env),
            cwd=cwd,
            bufsize=0,
            start_new_session=True,
            creationflags=new_group,
        )
    except (OSError, ValueError) as error:
        return _why_not(program, cwd, error)


def _why_not(program: str, cwd: str | Path | None, error: OSError | ValueError) -> NotStarted:
    if cwd is not None and not os.path.isdir(cwd):  # noqa: PTH112 (a str or a Path)
        return NotStarted(kind="bad_folder", reason=f"cannot start in {cwd}: it is not a folder")
    if isinstance(error, FileNotFoundError):
        # The file may be there: then what its first line (#!) names, or its loader, is not.
        if os.path.isfile(program):  # noqa: PTH113
            reason = f"{program} is there, but the program that it needs to run is not"
            return NotStarted(kind="missing", reason=reason)
        return NotStarted(kind="missing", reason=f"{program} is not there")
    if isinstance(error, PermissionError):
        return NotStarted(kind="not_executable", reason=f"{program} may not be executed")
    text = getattr(error, "strerror", None) or str(error)
    if text == "Exec format error":
        return NotStarted(
            kind="bad_format", reason=f"{program} is not a program for this machine ({text})"
        )
    return NotStarted(kind="other", reason=f"{program} could not be started: {text}")


def end_all() -> None:
    """Kill every program that is followed in any thread.

    Ctrl-C reaches the main thread only; programs that other threads follow are ended with this.
    """
    for watch in tuple(_RUNNING):
        watch.kill()


class _Watch:
    """One running program: threads move its bytes, the calling thread keeps the limits.

    Threads rather than `select`, because Windows cannot wait for pipes. They only ever wait for
    the pipe of a process that escaped our kill, and then they are left behind as daemons.
    """

    def __init__(self, process: subprocess.Popen[bytes], stdin: bytes, limits: Limits) -> None:
        self._process = process
        self._limits = limits
        self._started = time.monotonic()
        self._events: queue.SimpleQueue[bytes | Literal["eof", "overflow", "exit"]] = (
            queue.SimpleQueue()
        )
        self._tail = bytearray()
        self._exited = False
        self._timed_out = self._truncated = self._stopped = False
        jobs: list[tuple[Callable[..., None], tuple[object, ...]]] = [
            (self._read_stdout, (process.stdout,)),
            (self._read_stderr, (process.stderr,)),
            (_write_stdin, (process.stdin, stdin)),
            (self._wait_for_exit, ()),
        ]
        self._threads = [threading.Thread(target=f, args=args, daemon=True) for f, args in jobs]

    def follow(self, consume: Callable[[bytes], bool], kept: Callable[[], bytes]) -> Completed:
        """Pass stdout to `consume` until the program has ended or must end."""
        _RUNNING.add(self)
        try:
            for thread in self._threads:
                thread.start()
            self._until_end(consume)
        finally:
            # Also for Ctrl-C and for whatever `consume` raises: nothing is left running.
            self._end()
            _RUNNING.discard(self)
        return self._completed(kept())

    def _until_end(self, consume: Callable[[bytes], bool]) -> None:
        deadline = self._started + self._limits.timeout_s
        at_eof = False
        while not (at_eof and self._exited):
            event = self._next_event(deadline)
            if event is None:
                self._timed_out = not self._exited
                return
            if event == "exit":
                self._exited = True
                self.kill()  # what it left behind must not keep the pipe open
                deadline = min(deadline, time.monotonic() + DRAIN_S)
            elif event == "eof":
                at_eof = True
            elif event == "overflow":
                self._truncated = True
                return
            elif isinstance(event, bytes) and not consume(event):
                self._stopped = True
                return

    def _next_event(self, deadline: float) -> bytes | str | None:
        """Wait for an event; None at the deadline.

        When the program has ended, what has been read already is always given: a slow reader of
        its lines must not lose the last ones.
        """
        left = deadline - time.monotonic()
        while left > 0 or self._exited:
            with contextlib.suppress(queue.Empty):
                return self._events.get(timeout=max(0.0, min(left, SLICE_S)))
            if left <= 0:
                return None
            left = deadline - time.monotonic()
        return None

    def _end(self) -> None:
        self.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=KILL_S)
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(timeout=SLICE_S)

    def kill(self) -> None:
        """Kill the program and what it started; the thread that follows it notices."""
        if sys.platform == "win32":
            _kill_tree_on_windows(self._process.pid)
            self._process.kill()
        elif self._process.returncode is None:  # not reaped: its group number is still its own
            # What has its own session is not in the group; its parent, while alive, leads to it.
            moved = [] if self._exited else _descendants(self._process.pid)
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            for pid in moved:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)

    def _completed(self, stdout: bytes) -> Completed:
        code = self._process.returncode
        by_signal = code is not None and code < 0
        return Completed(
            returncode=None if by_signal else code,
            signal=_signal_name(-code) if code is not None and by_signal else None,
            stdout=stdout,
            stderr=bytes(self._tail),
            timed_out=self._timed_out,
            truncated=self._truncated,
            stopped=self._stopped,
            seconds=time.monotonic() - self._started,
        )

    def _read_stdout(self, pipe: IO[bytes]) -> None:
        room_bytes = self._limits.max_stdout_bytes
        with pipe:
            while chunk := os.read(pipe.fileno(), CHUNK_BYTES):
                self._events.put(chunk[:room_bytes])
                room_bytes -= len(chunk)
                if room_bytes < 0:
                    self._events.put("overflow")
                    return
        self._events.put("eof")

    def _read_stderr(self, pipe: IO[bytes]) -> None:
        keep_bytes = self._limits.max_stderr_bytes
        with pipe:
            while chunk := os.read(pipe.fileno(), CHUNK_BYTES):
                self._tail += chunk
                del self._tail[: max(0, len(self._tail) - keep_bytes)]

    def _wait_for_exit(self) -> None:
        if sys.platform != "win32" and hasattr(os, "waitid"):
            # Notice the end without reaping: until then its group number cannot be given away,
            # so what it left behind can be killed without hitting a stranger.
            with contextlib.suppress(ChildProcessError):
                os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)
        else:
            self._process.wait()
        self._events.put("exit")


_RUNNING: set[_Watch] = set()


def _write_stdin(pipe: IO[bytes], content: bytes) -> None:
    # A program that does not read its input, or closes it, is its own affair.
    with contextlib.suppress(OSError), pipe:
        view = memoryview(content)
        while view:
            view = view[os.write(pipe.fileno(), view[:CHUNK_BYTES]) :]


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _descendants(pid: int) -> list[int]:
    """Stop a process and all that it started, in any session, and return those; Linux only.

    A stopped one starts no more while the others are looked for.
    """
    found = [pid]
    for parent in found:  # which grows
        try:
            os.kill(parent, signal.SIGSTOP)
            for listed in Path(f"/proc/{parent}/task").glob("*/children"):
                found += [int(child) for child in listed.read_text(encoding="ascii").split()]
        except OSError:  # it has ended, or belongs to somebody else
            continue
        if len(found) > MAX_DESCENDANTS:
            break
    return found[1:]


def _kill_tree_on_windows(pid: int) -> None:
    """End a process and its children; Windows has no process groups that can be killed."""
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        subprocess.run(
            ["taskkill", "/F", "/T", "/PID", str(pid)],  # noqa: S607 (found by Windows)
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=KILL_S,
            check=False,
        )

"""Running jobs in forked children, bounded in time; where there is no fork, in fresh interpreters.

torch is imported once, before the first fork; CUDA is never touched before it, because a forked
child cannot use a CUDA that its parent has initialised. For the same reason the parent of the forks
must not compute anything: threads of OpenMP do not survive a fork, and waiting for them hangs.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import selectors
import signal
import sys
import time
import warnings
from typing import Any, Iterator

from .jobs import Job, Result, set_ending, set_timed_out, take_line, tell_result
from .protocol import Emitter
from .spawn import run_in_new_interpreter
from .torch_api import attempt, cuda_is_initialized

__all__ = ["Job", "Result", "can_fork", "end_forks_on_sigterm", "run_jobs", "see_off"]

CHUNK_BYTES = 1 << 16
MAX_LINE_BYTES = 64 << 20
#: How often to look whether a job has ended without closing its pipe, or after closing it.
POLL_S = 0.1
CLOSING_POLL_S = 0.002
_PR_SET_PDEATHSIG = 1

#: How long a fork that has told its result may take to end.
LEAVING_LIMIT_S = 10.0

#: Process ids of the forks that are running, for the handler of SIGTERM.
_RUNNING = set()  # type: set[int]
#: Those of them that have told their results and are ending by themselves; see `see_off`.
_LEAVING = set()  # type: set[int]


def run_jobs(
    jobs: "list[Job]",
    emit: Emitter,
    request: "dict[str, Any]",
    at_once: int = 1,
    *,
    until_told: bool = False,
) -> "list[Result]":
    """Run jobs in children, at most `at_once` at a time; results in the order of the jobs.

    `request` is the parent's request: a spawned child needs its flags. Never raises for what a job
    does. `until_told`: a fork that has told its result may still be ending when this returns, for
    giving its CUDA context back takes 0.1 s (H200); call `see_off` later to wait for it.
    """
    if can_fork():
        return _Forks(emit, at_once, until_told=until_told).run(jobs)
    return [run_in_new_interpreter(job, emit, request) for job in jobs]


def see_off() -> None:
    """Wait for the forks that `run_jobs` left (`until_told`); kill those that end too late."""
    deadline = time.monotonic() + LEAVING_LIMIT_S
    for pid in list(_LEAVING):
        with contextlib.suppress(OSError):
            while os.waitpid(pid, os.WNOHANG)[0] == 0:
                if time.monotonic() > deadline:
                    os.kill(pid, signal.SIGKILL)
                    break  # no waiting: one that the driver holds may not even end then
                time.sleep(CLOSING_POLL_S)
        _LEAVING.discard(pid)
        _RUNNING.discard(pid)


def can_fork() -> bool:
    """Whether forked children can be used: the system has fork, and CUDA is untouched here."""
    torch = sys.modules.get("torch")
    return hasattr(os, "fork") and not (torch is not None and cuda_is_initialized(torch))


def end_forks_on_sigterm() -> None:
    """On SIGTERM, end the forks first and then this process, by the same signal."""

    def end(number: int, _frame: Any) -> None:
        for pid in list(_RUNNING):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    signal.signal(signal.SIGTERM, end)


class _Fork(object):
    """One running fork, seen from its parent."""

    __slots__ = (
        "at_eof",
        "buffer",
        "deadline",
        "job",
        "pid",
        "pipe",
        "result",
        "spoilt",
        "started",
    )

    def __init__(self, job: Job, pid: int, pipe: int) -> None:
        self.job = job
        self.pid = pid
        self.pipe = pipe
        self.buffer = bytearray()
        self.result = Result(job.name)
        self.started = time.monotonic()
        self.deadline = self.started + job.time_limit_s
        self.at_eof = False
        self.spoilt = False


class _Forks(object):
    """Keeps several forks running and passes on what they say."""

    def __init__(self, emit: Emitter, at_once: int, *, until_told: bool) -> None:
        self._emit = emit
        self._at_once = max(1, at_once)
        self._until_told = until_told
        self._running = []  # type: list[_Fork]
        self._selector = selectors.DefaultSelector()

    def run(self, jobs: "list[Job]") -> "list[Result]":
        waiting = list(reversed(jobs))
        results = {}  # type: dict[int, Result]
        with self._selector:
            try:
                while waiting or self._running:
                    while waiting and len(self._running) < self._at_once:
                        self._start(waiting.pop())
                    for fork in self._ended():
                        results[id(fork.job)] = fork.result
            finally:
                for fork in list(self._running):
                    self._kill(fork)
        return [results[id(job)] for job in jobs]

    def _start(self, job: Job) -> None:
        read_end, write_end = os.pipe()
        for stream in (sys.stdout, sys.stderr):
            attempt(stream.flush)  # else the child would write it a second time
        with warnings.catch_warnings():
            # Python 3.12 warns when a library has started threads; see the head of this file.
            warnings.simplefilter("ignore")
            pid = os.fork()
        if pid == 0:
            # Nothing may escape: the child would go on as a second parent.
            try:
                self._become_child(read_end)
                _work(job, Emitter(write_end))
            finally:
                os._exit(1)
        os.close(write_end)
        os.set_blocking(read_end, False)
        _RUNNING.add(pid)
        fork = _Fork(job, pid, read_end)
        self._running.append(fork)
        self._selector.register(read_end, selectors.EVENT_READ, fork)

    def _become_child(self, read_end: int) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        _RUNNING.clear()
        _LEAVING.clear()
        os.close(read_end)
        for sibling in self._running:
            os.close(sibling.pipe)
        self._emit.close()
        if sys.platform.startswith("linux"):
            # If the parent is killed, this child goes too.
            attempt(lambda: ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL))

    def _ended(self) -> "Iterator[_Fork]":
        """Wait a moment for something to happen; give the forks that need no more waiting for."""
        # A pipe is at its end just before its process can be reaped.
        closing = any(fork.at_eof for fork in self._running)
        for key, _ in self._selector.select(timeout=CLOSING_POLL_S if closing else POLL_S):
            self._read(key.data)
        for fork in list(self._running):
            if self._has_exited(fork) or self._must_end(fork):
                _RUNNING.discard(fork.pid)
            elif self._until_told and fork.result.has_told:
                _LEAVING.add(fork.pid)
            else:
                continue
            self._forget(fork)
            yield fork

    def _read(self, fork: _Fork) -> None:
        """Take what lies in the pipe, without waiting."""
        while not (fork.at_eof or fork.spoilt):
            try:
                chunk = os.read(fork.pipe, CHUNK_BYTES)
            except BlockingIOError:
                return
            if not chunk:
                fork.at_eof = True
                self._selector.unregister(fork.pipe)
                return
            fork.buffer += chunk
            self._take_lines(fork)

    def _take_lines(self, fork: _Fork) -> None:
        last = fork.buffer.rfind(b"\n")
        if last < 0:
            fork.spoilt = len(fork.buffer) > MAX_LINE_BYTES
            return
        lines = bytes(fork.buffer[: last + 1])
        del fork.buffer[: last + 1]
        for line in lines.splitlines(keepends=True):
            take_line(line, fork.result, self._emit)

    def _has_exited(self, fork: _Fork) -> bool:
        try:
            pid, status = os.waitpid(fork.pid, os.WNOHANG)
        except ChildProcessError:  # it was reaped already: see `set_ending`
            self._read(fork)
            set_ending(fork.result, None)
            return True
        if pid == 0:
            return False
        # Read what it left before saying how it ended.
        self._read(fork)
        set_ending(fork.result, -os.WTERMSIG(status) if os.WIFSIGNALED(status) else status >> 8)
        return True

    def _must_end(self, fork: _Fork) -> bool:
        late = time.monotonic() > fork.deadline
        if not (late or fork.spoilt):
            return False
        self._kill(fork)
        if fork.spoilt:
            fork.result.status = "lost"
            fork.result.reason = "it sent more than {} bytes in one line".format(MAX_LINE_BYTES)
        elif fork.result.status == "lost":  # neither a value nor an error yet
            set_timed_out(fork.result, fork.job)
        return True

    def _kill(self, fork: _Fork) -> None:
        with contextlib.suppress(OSError):
            os.kill(fork.pid, signal.SIGKILL)
            os.waitpid(fork.pid, 0)

    def _forget(self, fork: _Fork) -> None:
        if not fork.at_eof:
            self._selector.unregister(fork.pipe)
        os.close(fork.pipe)
        self._running.remove(fork)
        fork.result.seconds = time.monotonic() - fork.started


def _work(job: Job, emit: Emitter) -> None:
    """Do a job in this process and end it. The boundary of a forked child."""
    tell_result(job.function, job.args, emit)
    for stream in (sys.stdout, sys.stderr):
        attempt(stream.flush)
    # Not sys.exit: the handlers of the target's libraries were meant for the parent.
    os._exit(0)

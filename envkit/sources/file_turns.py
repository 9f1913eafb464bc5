"""The files of a prefix checked by several workers at once: processes where there is fork.

Processes, not threads: for small files most of the time goes to Python itself, which runs one
thread at a time. Workers take the next turn from a pipe that all of them read, and send what they
found through one of their own, so that nobody waits for anybody.
"""

from __future__ import annotations

import contextlib
import gc
import os
import selectors
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from envkit.sources.file_records import RecordedFile
from envkit.sources.prefix_files import FileCheck, Found, Problem

#: Told how far it is: done, total, what.
Tell: TypeAlias = Callable[[int, int, str], None]

_LARGE_BYTES: Final = 8 << 20
_FEWEST_FILES: Final = 64
#: All turns must fit into the smallest pipe that Linux gives: one page.
_MOST_LARGE: Final = 256
_MOST_SMALL: Final = 750
_NUMBER_BYTES: Final = 4
_SIZE_BYTES: Final = 4
_TELL_EVERY_S: Final = 0.1
_READ_BYTES: Final = 1 << 16


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """What became of all files."""

    count: int
    size_bytes: int
    unhashed: int
    """There, and without a hash to compare with, or rewritten by Python (`__pycache__`)."""
    found: tuple[Found, ...]
    unreadable: tuple[str, ...]
    """Why files could not be looked at, one text a file."""


class _Part(msgspec.Struct, array_like=True):
    """What one turn gave; files by their number."""

    done: int = 0
    count: int = 0
    size_bytes: int = 0
    unhashed: int = 0
    found: list[tuple[int, Problem]] = []
    unreadable: list[str] = []


_ENCODE: Final = msgspec.msgpack.Encoder().encode
_DECODE: Final = msgspec.msgpack.Decoder(_Part).decode


def check_files(
    prefix: Path, files: Iterable[RecordedFile], tell: Tell, *, workers: int | None = None
) -> Checked:
    """Hash files, compare them with their records, and wait for the end."""
    with contextlib.closing(RunningCheck(prefix, files, workers=workers)) as running:
        return running.result(tell)


def processors() -> int:
    """Return how many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


class RunningCheck:
    """A check of files that goes on while the caller does something else.

    Args:
        prefix: the environment.
        files: what its records say.
        workers: how many hash at once; by default as many as there are processors.

    """

    def __init__(
        self, prefix: Path, files: Iterable[RecordedFile], *, workers: int | None = None
    ) -> None:
        self._files = tuple(files)
        self._turns = tuple(_turns(self._files))
        count = min(workers or processors(), max(1, len(self._turns)))
        work = _Work(prefix, self._files, self._turns)
        self._team = _team(work, count)

    def close(self) -> None:
        """End the workers, whatever they do."""
        self._team.stop()

    def result(self, tell: Tell) -> Checked:
        """Wait for the end; `tell` is called from this thread, about ten times a second."""
        total, parts, done = len(self._files), [], 0
        for part in self._team.parts():
            if part is not None:
                parts.append(part)
                done += part.done
            tell(done, total, "hashing files")
        unreadable = [text for part in parts for text in part.unreadable]
        if done < total:
            unreadable.append(f"{total - done} files: {self._team.failure()}")
        found = [
            Found(file=self._files[number], problem=problem)
            for part in parts
            for number, problem in part.found
        ]
        return Checked(
            count=sum(part.count for part in parts),
            size_bytes=sum(part.size_bytes for part in parts),
            unhashed=sum(part.unhashed for part in parts),
            found=tuple(sorted(found, key=lambda one: (one.file.path, one.file.package))),
            unreadable=tuple(sorted(unreadable)),
        )


def _team(work: _Work, count: int) -> _Processes | _Threads:
    # Elsewhere a fork is either not there or not safe.
    if sys.platform == "linux":
        with contextlib.suppress(OSError):  # no room for another process
            return _Processes(work, count)
    return _Threads(work, count)


class _Work:
    """What there is to do; the turns that are left stand in a pipe."""

    def __init__(
        self, prefix: Path, files: Sequence[RecordedFile], turns: Sequence[Sequence[int]]
    ) -> None:
        self.prefix = prefix
        self._files = files
        self._turns = turns
        self.queue, end = os.pipe()
        for number in range(len(turns)):
            os.write(end, number.to_bytes(_NUMBER_BYTES, "little"))
        os.close(end)

    def parts(self, stopped: Callable[[], bool], *, may_map: bool = False) -> Iterator[_Part]:
        """Take turns until nothing is left."""
        check = FileCheck(self.prefix, stopped, may_map=may_map).check
        while not stopped() and (number := os.read(self.queue, _NUMBER_BYTES)):
            part = _Part()
            for index in self._turns[int.from_bytes(number, "little")]:
                _add(part, index, check(self._files[index]))
                if stopped():
                    return
            yield part


def _add(part: _Part, index: int, answer: int | Found | str | None) -> None:
    part.done += 1
    if isinstance(answer, int):
        part.count += 1
        part.size_bytes += answer
    elif answer is None:
        part.unhashed += 1
    elif isinstance(answer, Found):
        part.count += 1
        part.found.append((index, answer.problem))
    else:
        part.unreadable.append(answer)


def _turns(files: Sequence[RecordedFile]) -> Iterator[Sequence[int]]:
    """Yield large files one by one, the largest first, then the others by the dozen."""
    large = [index for index, one in enumerate(files) if one.size_bytes >= _LARGE_BYTES]
    large = sorted(large, key=lambda index: -files[index].size_bytes)[:_MOST_LARGE]
    for index in large:
        yield (index,)
    alone = set(large)
    small = [index for index in range(len(files)) if index not in alone]
    step = max(_FEWEST_FILES, -(-len(small) // _MOST_SMALL))
    for start in range(0, len(small), step):
        yield small[start : start + step]


class _Processes:
    """Forked workers, each with a pipe to us."""

    def __init__(self, work: _Work, count: int) -> None:
        self._pipes: dict[int, bytearray] = {}
        self._workers: list[int] = []
        self._ends: list[int] = []
        for _ in range(count):
            if not self._start(work):
                break  # those that there are do it all
        if not self._workers:
            raise OSError
        os.close(work.queue)

    def _start(self, work: _Work) -> bool:
        """Start a worker; false where there is no room for one more process."""
        ours, theirs = os.pipe()
        parent = os.getpid()
        with warnings.catch_warnings():
            # Python 3.12 warns where there are threads: the child takes no lock of theirs.
            warnings.simplefilter("ignore", DeprecationWarning)
            try:
                worker = os.fork()
            except OSError:
                os.close(ours)
                os.close(theirs)
                return False
        if worker == 0:
            _be_worker(work, theirs, parent)
        os.close(theirs)
        self._pipes[ours] = bytearray()
        self._workers.append(worker)
        return True

    def parts(self) -> Iterator[_Part | None]:
        """Yield what the workers send until all have ended; None when it takes long."""
        with selectors.DefaultSelector() as waiting:
            for pipe in self._pipes:
                waiting.register(pipe, selectors.EVENT_READ)
            while waiting.get_map():
                ready = waiting.select(_TELL_EVERY_S)
                if not ready:
                    yield None
                for key, _ in ready:
                    content = os.read(key.fd, _READ_BYTES)
                    if not content:
                        waiting.unregister(key.fd)
                    yield from _taken(self._pipes[key.fd], content)
        self._reap()

    def failure(self) -> str:
        """Say how the worker ended that did not do its part."""
        return next((text for end in self._ends if (text := _ending(end))), "nobody looked at them")

    def stop(self) -> None:
        """End what still runs."""
        for worker in self._workers:
            with contextlib.suppress(OSError):
                os.kill(worker, signal.SIGKILL)
        self._reap()
        for pipe in self._pipes:
            os.close(pipe)
        self._pipes.clear()

    def _reap(self) -> None:
        while self._workers:
            with contextlib.suppress(ChildProcessError):
                self._ends.append(os.waitpid(self._workers[-1], 0)[1])
            self._workers.pop()


def _ending(status: int) -> str:
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return f"the process that was to hash them was ended by {signal.Signals(number).name}"
    return "the process that was to hash them failed" if status else ""


def _taken(buffer: bytearray, content: bytes) -> Iterator[_Part]:
    buffer += content
    while len(buffer) >= _SIZE_BYTES:
        end = _SIZE_BYTES + int.from_bytes(buffer[:_SIZE_BYTES], "little")
        if len(buffer) < end:
            return
        yield _DECODE(buffer[_SIZE_BYTES:end])
        del buffer[:end]


def _be_worker(work: _Work, pipe: int, parent: int) -> None:
    """Do turns and end this process; nothing of the caller may run in it."""
    try:
        # The terminal's Ctrl-C goes to all; our parent answers it, and ends us.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        signal.signal(signal.SIGBUS, signal.SIG_DFL)
        gc.disable()
        # A mapped file that somebody cuts off ends this process and no other; it is reported.
        for part in work.parts(lambda: os.getppid() != parent, may_map=True):
            message = _ENCODE(part)
            _write(pipe, len(message).to_bytes(_SIZE_BYTES, "little") + message)
    except BaseException:  # noqa: BLE001 (the last step of a process: its exit code says it)
        os._exit(1)
    os._exit(0)


def _write(pipe: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(pipe, view) :]


class _Threads:
    """Workers of a system that has no fork."""

    def __init__(self, work: _Work, count: int) -> None:
        self._work = work
        self._stopped = threading.Event()
        self._found: list[_Part] = []
        self._raised: list[BaseException] = []
        self._threads = [threading.Thread(target=self._run, daemon=True) for _ in range(count)]
        for one in self._threads:
            one.start()

    def parts(self) -> Iterator[_Part | None]:
        """Yield what the threads found until all have ended; None when it takes long."""
        told = 0
        while alive := [one for one in self._threads if one.is_alive()]:
            alive[0].join(_TELL_EVERY_S)
            yield None
            yield from self._found[told : (told := len(self._found))]
        yield from self._found[told:]
        if self._raised:
            raise self._raised[0]

    def failure(self) -> str:
        """Say why files were left."""
        return "nobody looked at them"

    def stop(self) -> None:
        """End what still runs."""
        self._stopped.set()
        for one in self._threads:
            one.join()
        with contextlib.suppress(OSError):
            os.close(self._work.queue)

    def _run(self) -> None:
        try:
            for part in self._work.parts(self._stopped.is_set):
                self._found.append(part)
        except BaseException as error:  # noqa: BLE001 (raised again by `parts`)
            self._raised.append(error)

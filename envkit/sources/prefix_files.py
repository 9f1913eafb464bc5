"""Whether the files of a conda prefix are those of its packages: every one hashed, in parallel.

Nothing outside of the prefix is opened: not by `..` in a record, not through a link in the place
of a file or of a folder above it. Threads, not processes: hashing and reading let go of Python's
lock; `benchmarks/verify_prefix.py` has what that gives.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final, Literal, TypeAlias

import msgspec

from envkit.sources.file_records import RecordedFile

Problem: TypeAlias = Literal["missing", "altered", "not_a_file", "leads_outside"]
#: Told how far it is: done, total, what.
Tell: TypeAlias = Callable[[int, int, str], None]

#: A file of a package that is larger has been made to keep us busy.
MAX_FILE_BYTES: Final = 64 << 30
#: Read, not mapped: a mapped file that somebody cuts off ends the process.
_BLOCK_BYTES: Final = 1 << 20
_FILES_A_TURN: Final = 64
_LARGE_BYTES: Final = 8 << 20
_TELL_EVERY_S: Final = 0.1
_FLAGS: Final = (
    os.O_RDONLY
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """A file that is not as recorded."""

    file: RecordedFile
    problem: Problem


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """What became of all files."""

    count: int
    size_bytes: int
    unhashed: int
    """There, and without a hash to compare with, or rewritten by Python (`__pycache__`)."""
    found: tuple[Found, ...]
    unreadable: tuple[str, ...]
    """Why files could not be looked at, one text a file."""


def check_files(
    prefix: Path, files: Iterable[RecordedFile], tell: Tell, *, threads: int | None = None
) -> Checked:
    """Hash files and compare them with their records.

    Args:
        prefix: the environment.
        files: what its records say.
        tell: called from this thread alone, about ten times a second.
        threads: how many hash at once; by default as many as there are processors.

    """
    ordered = list(files)
    work = _Work(os.path.realpath(prefix), ordered)
    count = threads or processors()
    workers = [threading.Thread(target=work.run, daemon=True) for _ in range(count)]
    for one in workers:
        one.start()
    try:
        while alive := [one for one in workers if one.is_alive()]:
            alive[0].join(_TELL_EVERY_S)
            tell(work.done, len(ordered), "hashing files")
        tell(work.done, len(ordered), "hashing files")
    finally:
        work.stopped.set()
    if work.broken:
        raise work.broken[0]
    return work.result()


def processors() -> int:
    """Return how many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


class _Work:
    """The files that are left, shared by the threads."""

    def __init__(self, root: str, files: list[RecordedFile]) -> None:
        self.root = root
        self.stopped = threading.Event()
        self.done = 0
        self.broken: list[BaseException] = []
        self._inside: dict[str, bool] = {}
        self._lock = threading.Lock()
        self._turns = deque(_turns(files))
        self._count = 0
        self._size_bytes = 0
        self._unhashed = 0
        self._found: list[Found] = []
        self._unreadable: list[str] = []

    def run(self) -> None:
        """Take turns until nothing is left. The last step of a thread: what it raises is kept."""
        try:
            while self._turns and not self.stopped.is_set():
                with contextlib.suppress(IndexError):  # another thread had the last one
                    self._turn(self._turns.popleft())
        except BaseException as error:  # noqa: BLE001 (raised again by `check_files`)
            self.broken.append(error)
            self.stopped.set()

    def result(self) -> Checked:
        """Return what was found, in the order of the paths."""
        found = sorted(self._found, key=lambda one: (one.file.path, one.file.package))
        return Checked(
            count=self._count,
            size_bytes=self._size_bytes,
            unhashed=self._unhashed,
            found=tuple(found),
            unreadable=tuple(sorted(self._unreadable)),
        )

    def _turn(self, turn: list[RecordedFile]) -> None:
        count, size_bytes, unhashed, done = 0, 0, 0, 0
        for file in turn:
            if self.stopped.is_set():
                return
            answer = self._check(file)
            if isinstance(answer, int):
                count, size_bytes = count + 1, size_bytes + answer
            elif answer is None:
                unhashed += 1
            elif isinstance(answer, Found):
                self._found.append(answer)
                count += 1
            else:
                self._unreadable.append(answer)
            done += 1
        with self._lock:
            self._count += count
            self._size_bytes += size_bytes
            self._unhashed += unhashed
            self.done += done

    def _check(self, file: RecordedFile) -> int | Found | str | None:
        """Return the bytes of a file that is right, None for one without a hash, or the fault."""
        path = file.path
        folder, _, name = path.rpartition("/")
        if not name or "\0" in path or not self._is_inside(folder):
            return Found(file=file, problem="leads_outside")
        place = f"{self.root}/{path}"
        if file.is_link:
            return self._check_link(file, place)
        try:
            descriptor = os.open(place, _FLAGS)
        except OSError as error:
            return self._not_opened(file, place, error)
        try:
            return self._compare(file, descriptor)
        except OSError as error:
            return f"{path}: {error.strerror or error}"
        finally:
            os.close(descriptor)

    def _is_inside(self, folder: str) -> bool:
        """Whether a folder of a record is in the prefix once its links are followed."""
        known = self._inside.get(folder)
        if known is None:
            real = os.path.realpath(f"{self.root}/{folder}")
            known = real == self.root or real.startswith(self.root.rstrip("/") + "/")
            known = known and not folder.startswith("/")
            self._inside[folder] = known
        return known

    def _check_link(self, file: RecordedFile, place: str) -> Found | None:
        # The file that it leads to has a record of its own.
        if not os.path.lexists(place):
            return Found(file=file, problem="missing")
        real = os.path.realpath(place)
        if not real.startswith(self.root.rstrip("/") + "/"):
            return Found(file=file, problem="leads_outside")
        return None if os.path.lexists(real) else Found(file=file, problem="missing")

    def _not_opened(self, file: RecordedFile, place: str, error: OSError) -> Found | str | None:
        if isinstance(error, FileNotFoundError | NotADirectoryError):
            return None if _is_bytecode(file.path) else Found(file=file, problem="missing")
        if os.path.islink(place):  # noqa: PTH114 (no object for each of a million files)
            if file.links_allowed:
                return f"{file.path}: it is a link to the package cache, which is not followed"
            return self._check_replaced(file, place)
        return f"{file.path}: {error.strerror or error}"

    def _check_replaced(self, file: RecordedFile, place: str) -> Found:
        real = os.path.realpath(place)
        inside = real.startswith(self.root.rstrip("/") + "/")
        return Found(file=file, problem="not_a_file" if inside else "leads_outside")

    def _compare(self, file: RecordedFile, descriptor: int) -> int | Found | str | None:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return Found(file=file, problem="not_a_file")
        if not file.sha256:
            return None
        size_bytes = status.st_size
        if size_bytes > MAX_FILE_BYTES:
            return f"{file.path}: it is larger than {MAX_FILE_BYTES >> 30} GiB"
        if _sha256(descriptor, size_bytes, self.stopped) == file.sha256:
            return size_bytes
        return None if _is_bytecode(file.path) else Found(file=file, problem="altered")


def _turns(files: list[RecordedFile]) -> Iterator[list[RecordedFile]]:
    """Yield large files one by one, the largest first, then the others by the dozen."""
    large = [one for one in files if one.size_bytes >= _LARGE_BYTES]
    for one in sorted(large, key=lambda one: -one.size_bytes):
        yield [one]
    small = [one for one in files if one.size_bytes < _LARGE_BYTES]
    for start in range(0, len(small), _FILES_A_TURN):
        yield small[start : start + _FILES_A_TURN]


def _is_bytecode(path: str) -> bool:
    """Whether Python writes the file afresh when it likes to."""
    return path.endswith(".pyc") and "__pycache__/" in path


def _sha256(descriptor: int, size_bytes: int, stopped: threading.Event) -> str:
    block = os.read(descriptor, min(size_bytes + 1, _BLOCK_BYTES))
    digest = hashlib.sha256(block)
    if len(block) == size_bytes:
        return digest.hexdigest()
    # Not past the end that it had: a file that grows is altered, and must not keep us for ever.
    left = size_bytes + 1 - len(block)
    buffer = memoryview(bytearray(_BLOCK_BYTES))
    with open(descriptor, "rb", buffering=0, closefd=False) as file:
        while left > 0 and not stopped.is_set():
            count = file.readinto(buffer[: min(left, _BLOCK_BYTES)]) or 0
            if not count:
                break
            digest.update(buffer[:count])
            left -= count
    return digest.hexdigest()

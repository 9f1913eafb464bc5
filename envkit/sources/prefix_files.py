"""Whether a file of a prefix is the one that its package brought: looked at, hashed, compared.

Nothing outside of the prefix is opened: not by `..` in a record, not through a link in the place
of a file or of a folder above it.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable
from typing import Final, Literal, TypeAlias

import msgspec

from envkit.sources.file_records import RecordedFile

Problem: TypeAlias = Literal["missing", "altered", "not_a_file", "leads_outside"]

#: A file of a package that is larger has been made to keep us busy.
MAX_FILE_BYTES: Final = 64 << 30
#: What was read stays in the cache of its processor until it is hashed.
_BLOCK_BYTES: Final = 256 << 10
#: From here on mapping pays, which spares the copy that reading makes.
_LEAST_MAPPED_BYTES: Final = 8 << 20
_MAPPED_BLOCK_BYTES: Final = 16 << 20
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


class FileCheck:
    """Looks at the files of one prefix, one after the other; for one thread or process.

    Args:
        prefix: the environment.
        stopped: asked between two blocks whether to go on; a file that was left is not judged.
        may_map: whether large files may be mapped instead of read. One that somebody cuts off
            meanwhile then ends the process (SIGBUS), so only for a process that may end.

    """

    def __init__(
        self,
        prefix: str | os.PathLike[str],
        stopped: Callable[[], bool],
        *,
        may_map: bool = False,
    ) -> None:
        self.root = os.path.realpath(prefix)
        self.stopped = stopped
        self._may_map = may_map
        self._inside: dict[str, bool] = {}
        self._buffer = memoryview(bytearray(_BLOCK_BYTES))

    def check(self, file: RecordedFile) -> int | Found | str | None:
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
            return self._as_recorded(file, descriptor) or self._compare(file, descriptor)
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

    def _as_recorded(self, file: RecordedFile, descriptor: int) -> int:
        """Return the bytes of a small file that is right, as almost all are, else 0."""
        wanted_bytes = file.size_bytes
        if not 0 < wanted_bytes < _BLOCK_BYTES:
            return 0
        try:
            content = os.read(descriptor, wanted_bytes + 1)
            if len(content) == wanted_bytes and hashlib.sha256(content).hexdigest() == file.sha256:
                return wanted_bytes
            os.lseek(descriptor, 0, os.SEEK_SET)
        except OSError:  # a folder, a named pipe, a broken disk: `_compare` says which
            return 0
        return 0

    def _compare(self, file: RecordedFile, descriptor: int) -> int | Found | str | None:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return Found(file=file, problem="not_a_file")
        if not file.sha256:
            return None
        size_bytes = status.st_size
        if size_bytes > MAX_FILE_BYTES:
            return f"{file.path}: it is larger than {MAX_FILE_BYTES >> 30} GiB"
        if self._sha256(descriptor, size_bytes) == file.sha256:
            return size_bytes
        return None if _is_bytecode(file.path) else Found(file=file, problem="altered")

    def _sha256(self, descriptor: int, size_bytes: int) -> str:
        digest = hashlib.sha256()
        # Not past the end that it had: a file that grows is altered, and must not keep us for ever.
        left = size_bytes + 1
        if self._may_map and size_bytes >= _LEAST_MAPPED_BYTES:
            self._hash_mapped(descriptor, size_bytes, digest.update)
            os.lseek(descriptor, size_bytes, os.SEEK_SET)
            left = 1
        with open(descriptor, "rb", buffering=0, closefd=False) as file:
            while left > 0 and not self.stopped():
                count = file.readinto(self._buffer[: min(left, _BLOCK_BYTES)]) or 0
                if not count:
                    break
                digest.update(self._buffer[:count])
                left -= count
        return digest.hexdigest()

    def _hash_mapped(
        self, descriptor: int, size_bytes: int, update: Callable[[memoryview], None]
    ) -> None:
        import mmap  # noqa: PLC0415 (only where a file is large)

        with (
            mmap.mmap(descriptor, size_bytes, access=mmap.ACCESS_READ) as mapped,
            memoryview(mapped) as view,
        ):
            for start in range(0, size_bytes, _MAPPED_BLOCK_BYTES):
                if self.stopped():
                    return
                update(view[start : start + _MAPPED_BLOCK_BYTES])


def _is_bytecode(path: str) -> bool:
    """Whether Python writes the file afresh when it likes to."""
    return path.endswith(".pyc") and "__pycache__/" in path

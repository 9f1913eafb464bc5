"""How to read a file that somebody else wrote: bounded, never waiting, failures as values."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final, Literal

import msgspec

from envkit.model.observed import Absent, Unreadable
from envkit.sources.redacted import clipped, escape_control

#: Enough for every file of /proc, /sys and /etc that is read here.
SMALL_BYTES: Final = 1 << 20
#: Entries of one folder that are looked at; a large conda environment has about 1,500 records.
MAX_ENTRIES: Final = 50_000


class NotRead(msgspec.Struct, frozen=True, kw_only=True):
    """Why a file or a folder gave nothing."""

    kind: Literal["missing", "failed"]
    reason: str


def read_bytes(path: Path, *, limit_bytes: int = SMALL_BYTES) -> bytes | NotRead:
    """Read a regular file whole; one that is larger than the limit is a failure."""
    content = read_head(path, limit_bytes + 1)
    if not isinstance(content, NotRead) and len(content) > limit_bytes:
        return NotRead(kind="failed", reason=f"{_shown(path)} is larger than {limit_bytes} bytes")
    return content


def read_head(path: Path, size_bytes: int) -> bytes | NotRead:
    """Read the beginning of a regular file, at most so many bytes."""
    try:
        # O_NONBLOCK: a named pipe in place of the file must not make us wait for a writer.
        descriptor = os.open(path, os.O_RDONLY | _BINARY | _NONBLOCK)
    except (OSError, ValueError) as error:
        return not_read(path, error)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return NotRead(kind="failed", reason=f"{_shown(path)} is not a regular file")
        # Files of /proc and /sys say that they are empty.
        return _read_up_to(descriptor, size_bytes, status.st_size + 1)
    except OSError as error:
        return not_read(path, error)
    finally:
        os.close(descriptor)


def _read_up_to(descriptor: int, limit_bytes: int, first_bytes: int) -> bytes:
    parts: list[bytes] = []
    wanted = min(max(first_bytes, 1 << 14), limit_bytes)
    while wanted > 0 and (part := os.read(descriptor, wanted)):
        parts.append(part)
        limit_bytes -= len(part)
        wanted = min(1 << 16, limit_bytes)
    return b"".join(parts)


def read_text(path: Path, *, limit_bytes: int = SMALL_BYTES) -> str | NotRead:
    """Read a text file; bytes that are not UTF-8 become U+FFFD."""
    content = read_bytes(path, limit_bytes=limit_bytes)
    if isinstance(content, NotRead):
        return content
    return content.decode("utf-8-sig", "replace")


def list_folder(path: Path) -> tuple[str, ...] | NotRead:
    """Return the names in a folder, sorted."""
    names: list[str] = []
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                names.append(entry.name)
                if len(names) > MAX_ENTRIES:
                    reason = f"{_shown(path)} has more than {MAX_ENTRIES} entries"
                    return NotRead(kind="failed", reason=reason)
    except (OSError, ValueError) as error:
        return not_read(path, error)
    return tuple(sorted(names))


def is_there(path: Path) -> bool:
    """Whether anything is at the path, a broken link included."""
    return os.path.lexists(path)


def is_folder(path: Path) -> bool:
    """Whether the path leads to a folder; False for anything that cannot be looked at."""
    try:
        return path.is_dir()
    except (OSError, ValueError, RuntimeError):  # 3.10 raises RuntimeError for a loop of links
        return False


def is_file(path: Path) -> bool:
    """Whether the path leads to a regular file; False for anything that cannot be looked at."""
    try:
        return path.is_file()
    except (OSError, ValueError, RuntimeError):
        return False


def not_read(path: Path, error: OSError | ValueError) -> NotRead:
    """Turn what opening a path raised into a value."""
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return NotRead(kind="missing", reason=f"{_shown(path)} is not there")
    text = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return NotRead(kind="failed", reason=f"{_shown(path)} cannot be read: {text}")


def _shown(path: Path) -> str:
    return clipped(escape_control(str(path)))


def as_state(failure: NotRead, *, source: str) -> Absent | Unreadable:
    """Return the state of a fact whose only file was not read."""
    if failure.kind == "missing":
        return Absent(source=source, reason=failure.reason)
    return Unreadable(reason=failure.reason, source=source)


_BINARY = getattr(os, "O_BINARY", 0)
_NONBLOCK = getattr(os, "O_NONBLOCK", 0)

"""The bytes and the text of an input that may be anything: bounded, decoded, not binary."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import BinaryIO, Final

from envkit.errors import InputError
from envkit.model import codec

#: How long a pipe with a name may be without anybody who writes to it.
_WRITER_S: Final = 0.5
#: Byte order marks: PowerShell's `>` writes UTF-16.
_MARKS: Final = ((b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"), (b"\xef\xbb\xbf", "utf-8-sig"))


def origin_of(name: str) -> str:
    """Return what messages and documents call an input: a file's name without its folder.

    A folder may be personal; those of devices are not, and `null` alone says little.
    """
    if name == "-":
        return "standard input"
    return name if name.startswith(("/dev/", "/proc/")) else Path(name).name


def read_input(name: str, next_step: str) -> bytes:
    """Read a file, or standard input for `-`, whole, up to the largest document there can be.

    Raises:
        InputError: it cannot be read, or is too large; with what to do next.

    """
    limit_bytes = codec.MAX_DOCUMENT_BYTES
    try:
        if name == "-":
            content = _read(sys.stdin.buffer, limit_bytes) if sys.stdin is not None else b""
        else:
            content = _read_file(name, limit_bytes)
    except (OSError, ValueError) as error:
        said = (error.strerror if isinstance(error, OSError) else None) or str(error)
        message = f"{name} cannot be read: {said}."
        raise InputError(message, next_step=next_step) from error
    if len(content) > limit_bytes:
        message = f"{name} is larger than {limit_bytes >> 20} MiB."
        raise InputError(message, next_step=next_step)
    return content


def read_text(content: bytes, origin: str, next_step: str) -> str:
    """Decode an input: UTF-8, or UTF-16 by its mark.

    Raises:
        InputError: it is binary, empty, or a document with a byte that is no text.

    """
    encoding = next((name for mark, name in _MARKS if content.startswith(mark)), "utf-8")
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        # A paste may have a stray byte. In a document that would be another value than was meant.
        if encoding == "utf-16" or content.lstrip().startswith((b"{", b"[")):
            reason = f"it is not {encoding.upper()}: {error.reason}"
            raise _unreadable(origin, reason, next_step) from error
        text = content.decode("utf-8", "replace")
    if "\0" in text:
        raise _unreadable(origin, "it is a binary file", next_step)
    if not text.strip():
        raise _unreadable(origin, "it is empty", next_step)
    return text


def _read_file(name: str, limit_bytes: int) -> bytes:
    path = Path(name)
    if path.is_fifo():
        return _read_pipe(name, limit_bytes)
    with path.open("rb") as file:
        return _read(file, limit_bytes)


def _read_pipe(name: str, limit_bytes: int) -> bytes:
    """Read a pipe with a name: where nobody writes to it, opening it would wait for ever."""
    pipe = os.open(name, os.O_RDONLY | os.O_NONBLOCK)
    with open(pipe, "rb") as file:  # noqa: PTH123  (a descriptor has no path)
        first = _first_byte(pipe)
        os.set_blocking(pipe, True)
        return first + _read(file, limit_bytes)


def _first_byte(pipe: int) -> bytes:
    """Return the first byte, or nothing where somebody has the pipe open and is not ready yet."""
    until = time.monotonic() + _WRITER_S
    while time.monotonic() < until:
        try:
            first = os.read(pipe, 1)
        except BlockingIOError:
            return b""
        if first:
            return first
        time.sleep(_WRITER_S / 20)
    message = "it is a pipe that nobody writes to"
    raise ValueError(message)


def _read(file: BinaryIO, limit_bytes: int) -> bytes:
    return file.read(limit_bytes + 1)


def _unreadable(origin: str, reason: str, next_step: str) -> InputError:
    return InputError(f"{origin} cannot be read: {reason}.", next_step=next_step)

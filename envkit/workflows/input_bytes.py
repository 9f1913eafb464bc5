"""The bytes and the text of an input that may be anything: bounded, decoded, not binary."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import BinaryIO, Final

from envkit.errors import InputError
from envkit.model import codec

#: Byte order marks: PowerShell's `>` writes UTF-16.
_MARKS: Final = ((b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"), (b"\xef\xbb\xbf", "utf-8-sig"))


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
            with Path(name).open("rb") as file:
                content = _read(file, limit_bytes)
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


def _read(file: BinaryIO, limit_bytes: int) -> bytes:
    return file.read(limit_bytes + 1)


def _unreadable(origin: str, reason: str, next_step: str) -> InputError:
    return InputError(f"{origin} cannot be read: {reason}.", next_step=next_step)

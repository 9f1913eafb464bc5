"""`envkit oom`: read a log of any size and explain the out-of-memory messages in it."""

from __future__ import annotations

import codecs
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Final

from envkit.allocator.oom import explain_log
from envkit.errors import CannotCheckError, InputError
from envkit.model.documents import Oom
from envkit.workflows.input_bytes import origin_of

_PIECE_BYTES: Final = 1 << 20
_UTF16: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)  # PowerShell's `>` writes UTF-16


def explain_oom(name: str) -> Oom:
    """Explain the out-of-memory messages of a file, or of standard input for `-`.

    Raises:
        InputError: it cannot be read.
        CannotCheckError: there is no such message in it.

    """
    origin = origin_of(name)
    try:
        found = explain_log(_pieces(name))
    except OSError as error:
        message = f"{origin} cannot be read: {error.strerror or error}."
        step = "Give the file of a log, or `-` and the log on standard input."
        raise InputError(message, next_step=step) from error
    if not found.events:
        message = f"There is no out-of-memory message in {origin}."
        step = (
            "Give the whole log or traceback of the failing process, standard error included: "
            "`python train.py 2>&1 | tee train.log`."
        )
        raise CannotCheckError(message, next_step=step)
    return found


def _pieces(name: str) -> Iterator[bytes]:
    if name == "-":
        yield from _decoded(_read(sys.stdin.buffer))
        return
    with _opened(name) as stream:
        yield from _decoded(_read(stream))


def _opened(name: str) -> BinaryIO:
    try:
        return Path(name).open("rb")
    except ValueError as error:  # a null character in the name
        raise OSError(0, str(error)) from error


def _read(stream: BinaryIO) -> Iterator[bytes]:
    while piece := stream.read(_PIECE_BYTES):
        yield piece


def _decoded(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Pass UTF-8 through as it is, and turn UTF-16 into it."""
    decoder: codecs.IncrementalDecoder | None = None
    for index, piece in enumerate(pieces):
        if index == 0 and piece.startswith(_UTF16):
            decoder = codecs.getincrementaldecoder("utf-16")("replace")
        yield piece if decoder is None else decoder.decode(piece).encode("utf-8", "replace")

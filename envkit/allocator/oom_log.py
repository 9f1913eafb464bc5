"""Finding out-of-memory messages in a log of any size: decorations, wrapping, several ranks.

The log is read once, in pieces; only the surroundings of suspicious words are looked at closely.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from envkit.allocator.oom_text import Message, messages_in

#: Words at which a closer look begins; short, so that wrapping rarely hits all of a message's.
_NEEDLES: Final = (
    b"ut of memory", b"ried to allocate", b"reserved in total", b"s reserved by", b"exceed allowed",
    b"_ALLOC_FAILED",
    b"OUT_OF_MEMORY", b"OutOfMemory", b"MemoryAllocation", b"device_total", b"DataLoader worker",
    b"oom-kill", b"oom_kill", b"WinError 1455", b"CPUAllocator", b"low on memory", b"o CUDA calloc",
    b"CUDA host calloc", b"nsufficient shared memory",
)  # fmt: skip
#: Two hits closer than this are looked at together: a message with 150 processes has as much text.
_NEAR: Final = 8 << 10
#: A region is cut here, before a hit.
_MOST_REGION: Final = 128 << 10
_LINE_BEFORE: Final = 4 << 10

_ANSI: Final = re.compile(r"\x1b\[[0-9;:?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")
#: What launchers write before each line of a worker; it tells the workers apart.
_SOURCE: Final = re.compile(
    r"\s*(?:[>#|\u2502]\s?)*\s*(?:"
    r"\[(rank\d+|default\d+)\]:"  # torch.distributed, torchrun --tee
    r"|\[(\d+,\d+)\]\s?<std(?:err|out)>:"  # mpirun --tag-output
    r"|\((?:\x1b\[\d+m)?(\w[\w.\[\]-]*(?:\(\w+\))? pid=\d+[^)]{0,60})\)"  # Ray, vLLM
    r"|(\d{1,5}): "  # srun --label
    r")"
)
_DECORATION: Final = re.compile(
    r"\s*(?:[>#|\u2502*]+\s"
    r"|(?:DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL|FATAL)\b:?"
    r"|\d{2,4}[-/]\d\d(?:[-/]\d\d)?[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?Z?(?:[+-]\d\d:?\d\d)?"
    r"|\d\d:\d\d:\d\d(?:[.,]\d+)?"
    r"|\[\d{4}-\d\d-\d\d[^\]]{0,24}\]"
    r"|\[?[\w./-]{1,60}\.py:\d+\]?:?"
    r")"
)
_NO_TEXT: Final = str.maketrans("", "", '"\x00')


class Located(msgspec.Struct, frozen=True, kw_only=True):
    """A message and where it stands."""

    message: Message
    line: int
    """Counted from 1."""
    source: str
    """What the launcher calls the worker, "rank1" for instance; empty if it does not say."""


class Region(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the log around suspicious words."""

    text: str
    first_line: int


def find_messages(pieces: Iterable[bytes]) -> Iterator[Located]:
    """Yield the messages of a log in order of their lines.

    Args:
        pieces: the log in UTF-8 or another superset of ASCII, cut anywhere.

    """
    for region in regions(pieces):
        yield from messages_of(region)


def messages_of(region: Region) -> list[Located]:
    """Read the messages of one region, each worker's lines by themselves."""
    found = []
    for source, (text, offsets, lines) in _by_source(region).items():
        for message in messages_in(text):
            line, is_marked = lines[bisect_right(offsets, message.at) - 1]
            place = region.first_line + line
            found.append(Located(message=message, line=place, source=source if is_marked else ""))
    return sorted(found, key=lambda located: located.line)


def regions(pieces: Iterable[bytes]) -> Iterator[Region]:
    """Yield the suspicious parts of a log; memory stays bounded whatever the log is."""
    held, line, last = b"", 1, False
    for piece in _with_end(pieces):
        last = piece is None
        held += piece or b""
        cut = len(held) if last else max(0, len(held) - _NEAR)
        spans, consumed = _spans(held, cut, last=last)
        at = 0
        for start, end in spans:
            line += held.count(b"\n", at, start)
            yield Region(text=held[start:end].decode("utf-8", "replace"), first_line=line)
            line += held.count(b"\n", start, end)
            at = end
        line += held.count(b"\n", at, consumed)
        held = held[consumed:]


def _with_end(pieces: Iterable[bytes]) -> Iterator[bytes | None]:
    yield from pieces
    yield None


def _spans(held: bytes, cut: int, *, last: bool) -> tuple[list[tuple[int, int]], int]:
    """Return what to look at closely, and how much of `held` is done with."""
    spans: list[tuple[int, int]] = []
    for hit in _hits(held, cut):
        start = max(held.rfind(b"\n", max(0, hit - _LINE_BEFORE), hit) + 1, hit - _LINE_BEFORE, 0)
        end = min(len(held), hit + _NEAR)
        if not spans or start > spans[-1][1]:
            spans.append((start, end))
        elif end - spans[-1][0] <= _MOST_REGION:
            spans[-1] = (spans[-1][0], end)
        else:
            start = max(start, spans[-1][0] + 1)
            spans[-1] = (spans[-1][0], start)
            spans.append((start, end))
    if last or not spans:
        return spans, len(held) if last else max(0, cut - _LINE_BEFORE)
    if spans[-1][1] > cut:  # it may go on in the next piece; it is never longer than a region
        return spans[:-1], spans[-1][0]
    return spans, max(spans[-1][1], cut - _LINE_BEFORE)


def _hits(held: bytes, cut: int) -> list[int]:
    hits: list[int] = []
    for needle in _NEEDLES:
        at = held.find(needle, 0, cut)
        while at >= 0:
            hits.append(at)
            at = held.find(needle, at + len(needle), cut)
    return sorted(hits)


#: Where parts of a squeezed text begin; and for each its line, and whether that names the worker.
_Squeezed = tuple[str, list[int], list[tuple[int, bool]]]


def _by_source(region: Region) -> dict[str, _Squeezed]:
    """Squeeze a region for each worker; a line that names none goes on with the last one's."""
    parts: dict[str, list[str]] = {}
    offsets: dict[str, list[int]] = {}
    lines: dict[str, list[tuple[int, bool]]] = {}
    length: dict[str, int] = {}
    source = ""
    text = region.text.replace("\\n", " ").replace("\r", " ")
    for number, raw in enumerate(text.split("\n")):
        line = _ANSI.sub("", raw) if "\x1b" in raw else raw
        found = _SOURCE.match(line)
        if found:
            source = found[1] or found[2] or found[3] or f"task {found[4]}"
            line = line[found.end() :]
        squeezed = "".join(_undecorated(line).split()).translate(_NO_TEXT).lower()
        parts.setdefault(source, []).append(squeezed)
        offsets.setdefault(source, []).append(length.get(source, 0))
        lines.setdefault(source, []).append((number, found is not None))
        length[source] = length.get(source, 0) + len(squeezed)
    return {name: ("".join(parts[name]), offsets[name], lines[name]) for name in parts}


def _undecorated(line: str) -> str:
    for _ in range(6):
        found = _DECORATION.match(line)
        if found is None:
            break
        line = line[found.end() :]
    return line

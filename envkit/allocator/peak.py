"""What was alive when a recorded history allocated most: by line of code, or by size."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from envkit.allocator.recording import Recording
from envkit.allocator.replay import ALLOC, FREE
from envkit.allocator.rewind import StartSegment
from envkit.allocator.sizes import MIB
from envkit.model.documents import ReplayPeak

#: Before the history began, and nothing says where.
EARLIER: Final = "before the history began"
#: Files of torch itself and of its dependencies: the line that called them says more.
_NOT_USERS: Final = re.compile(r"(^|[\\/])(site-packages|dist-packages|torch)[\\/]|^<")


def groups_at_peak(
    recording: Recording, start: Sequence[StartSegment], peak_at: int
) -> tuple[ReplayPeak, ...]:
    """Return what was alive right after an event, largest group first.

    By the innermost line of the user's own code where stacks were recorded, else by size class.
    Sizes are those asked for.

    Args:
        recording: the history.
        start: the state where it begins.
        peak_at: number of the event, -1 for the start.

    """
    live = {block.address: (block.requested, -1) for segment in start for block in segment.blocks}
    for index, (action, address, size, _) in enumerate(recording.events[: peak_at + 1]):
        if action == ALLOC:
            live[address] = (size, index)
        elif action == FREE:
            live.pop(address, None)
    totals: dict[str, list[int]] = {}
    name_of = _names(recording)
    for address, (size, index) in live.items():
        total = totals.setdefault(name_of(address, size, index), [0, 0])
        total[0] += size
        total[1] += 1
    groups = (ReplayPeak(where=w, size_bytes=t[0], blocks=t[1]) for w, t in totals.items())
    return tuple(sorted(groups, key=lambda group: (-group.size_bytes, group.where)))


def _names(recording: Recording) -> Callable[[int, int, int], str]:
    """Return what names the group of an address, a size and the event that allocated it."""
    if not (recording.stacks or recording.block_stacks):
        return lambda _address, size, _index: size_class(size)
    lines: dict[int, str] = {}  # many events share a stack, which is gone through once

    def line(address: int, _size: int, index: int) -> str:
        stack = recording.stacks[index] if index >= 0 and recording.stacks else ()
        if index < 0:
            stack = recording.block_stacks.get(address, ())
        if id(stack) not in lines:
            lines[id(stack)] = line_of(stack)
        return lines[id(stack)] or (EARLIER if index < 0 else "no stack recorded")

    return line


def line_of(stack: Sequence[Any]) -> str:
    """Return the innermost line of a stack that is not torch's, or the innermost Python line."""
    frames = (frame for frame in stack if isinstance(frame, Mapping))
    lines = [frame for frame in frames if _text(frame, "filename").endswith(".py")]
    own = [frame for frame in lines if not _NOT_USERS.search(_text(frame, "filename"))]
    for frame in (*own, *lines):
        name = re.split(r"[\\/]", _text(frame, "filename"))[-1]
        return f"{name}:{_text(frame, 'line') or '?'} {_text(frame, 'name')}".rstrip()
    return ""


def _text(frame: Mapping[str, Any], key: str) -> str:
    """Return a part of a frame; nothing for what is no text and no number, however large it is."""
    value = frame.get(key)
    return str(value) if isinstance(value, (str, int)) else ""


def size_class(size: int) -> str:
    """Return the power of two, from 1 MiB on, that a size stays below."""
    if size <= MIB:
        return "up to 1 MiB"
    bound = 1 << (size - 1).bit_length()
    return f"{bound // MIB // 2} to {bound // MIB} MiB"

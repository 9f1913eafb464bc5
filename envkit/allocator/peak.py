"""What was alive when a recorded history allocated most: by line of code, or by size."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
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
    for address, (size, index) in live.items():
        total = totals.setdefault(_name(recording, address, size, index), [0, 0])
        total[0] += size
        total[1] += 1
    groups = (ReplayPeak(where=w, size_bytes=t[0], blocks=t[1]) for w, t in totals.items())
    return tuple(sorted(groups, key=lambda group: (-group.size_bytes, group.where)))


def _name(recording: Recording, address: int, size: int, index: int) -> str:
    if recording.stacks or recording.block_stacks:
        stack = recording.stacks[index] if index >= 0 and recording.stacks else ()
        if index < 0:
            stack = recording.block_stacks.get(address, ())
        return line_of(stack) or (EARLIER if index < 0 else "no stack recorded")
    return size_class(size)


def line_of(stack: Sequence[Mapping[str, Any]]) -> str:
    """Return the innermost line of a stack that is not torch's, or the innermost Python line."""
    lines = [frame for frame in stack if str(frame.get("filename", "")).endswith(".py")]
    own = [frame for frame in lines if not _NOT_USERS.search(str(frame["filename"]))]
    for frame in (*own, *lines):
        name = re.split(r"[\\/]", str(frame["filename"]))[-1]
        return f"{name}:{frame.get('line', '?')} {frame.get('name', '')}".rstrip()
    return ""


def size_class(size: int) -> str:
    """Return the power of two, from 1 MiB on, that a size stays below."""
    if size <= MIB:
        return "up to 1 MiB"
    bound = 1 << (size - 1).bit_length()
    return f"{bound // MIB // 2} to {bound // MIB} MiB"

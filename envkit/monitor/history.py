"""Which lines of code hold the tensors that are alive, from torch's memory history."""

from __future__ import annotations

import sys
from typing import Any, Final

from envkit.allocator.peak import line_of
from envkit.allocator.sizes import format_size

#: Entries of torch's ring buffer; a step of a large model makes some thousands.
MAX_ENTRIES: Final = 100_000
_MOST_LINES: Final = 3
_NO_LINE: Final = "no Python line recorded"


class History:
    """Records with Python stacks while a monitor runs; asked for, because it costs time."""

    def __init__(self, *, wanted: bool) -> None:
        self._wanted = wanted
        self._on = False
        self._before: dict[str, int] = {}
        self._why_not = "" if wanted else "MemoryMonitor(history=True) names the line."

    @property
    def on(self) -> bool:
        """Whether it records."""
        return self._on

    def start(self) -> None:
        """Begin to record, once CUDA is in use."""
        if not self._wanted or self._on:
            return
        torch = sys.modules["torch"]
        try:
            torch.cuda.memory._record_memory_history(  # noqa: SLF001 (torch has no public one)
                "all", context="alloc", stacks="python", max_entries=MAX_ENTRIES
            )
        except (AttributeError, TypeError, RuntimeError) as error:
            self._wanted = False
            self._why_not = f"This torch cannot record the history: {error}."
            return
        self._on = True

    def stop(self) -> None:
        """End the recording if it was begun here."""
        if self._on:
            sys.modules["torch"].cuda.memory._record_memory_history(None)  # noqa: SLF001
            self._on = False

    def remember(self) -> None:
        """Keep what each line holds now, to compare with later."""
        if self._on:
            self._before = self._now()

    def lines_that_grew(self) -> str:
        """Say which lines hold more than what was remembered."""
        if not self._on:
            return self._why_not
        growth = {
            line: size - self._before.get(line, 0)
            for line, size in self._now().items()
            if size > self._before.get(line, 0)
        }
        most = sorted(growth.items(), key=lambda item: (-item[1], item[0]))[:_MOST_LINES]
        said = ", ".join(f"{line} (+{format_size(size)})" for line, size in most)
        return f"Allocated there and still alive: {said}." if said else ""

    def _now(self) -> dict[str, int]:
        return live_bytes_by_line(sys.modules["torch"].cuda.memory._snapshot())  # noqa: SLF001


def live_bytes_by_line(snapshot: dict[str, Any]) -> dict[str, int]:
    """Return the bytes that are alive by the user's line that allocated them.

    Blocks of before the recording began have no line.
    """
    found: dict[str, int] = {}
    for segment in snapshot["segments"]:
        for block in segment["blocks"]:
            if block["state"] == "active_allocated":
                line = line_of(block.get("frames") or ()) or _NO_LINE
                size = block.get("requested_size", block["size"])
                found[line] = found.get(line, 0) + size
    return found

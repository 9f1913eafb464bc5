"""How a number of things is written, one of them included."""

from __future__ import annotations


def counted(count: int, what: str) -> str:
    """Return a count and what is counted: `1 segment`, `12 segments`."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"

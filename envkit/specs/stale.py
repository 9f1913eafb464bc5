"""One reason why a lock is not that of its spec, and what of the two files it is about."""

from __future__ import annotations

import msgspec


class Stale(msgspec.Struct, frozen=True, kw_only=True):
    """A reason, and where it stands: at a line of the spec, or at a package of the lock."""

    text: str
    spec_line: int | None = None
    """None: it is about the lock."""
    package: str = ""
    """Of the lock; empty: it is about the whole lock."""
    platform: str = ""

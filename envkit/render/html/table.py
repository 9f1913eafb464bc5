"""Tables of a page: cells that can be sorted and filtered, and never a thousand too many."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final, Literal

import msgspec

from envkit.render.escape import printable

#: Of tables and findings; with style, script and figures a page stays below 1.5 MB.
MOST_BYTES: Final = 1_000_000
#: Rows of one table; more than that nobody reads.
MOST_ROWS: Final = 3_000
#: Characters of one cell that are shown.
MOST_CELL_CHARACTERS: Final = 200
#: Of the markup around a text, about.
_OVERHEAD_BYTES: Final = 60

Mark = Literal["", "good", "bad", "warn", "unknown", "quiet"]


class Cell(msgspec.Struct, frozen=True):
    """One value."""

    text: str
    mark: Mark = ""
    """What it means; drawn with a sign, never by colour alone."""
    sort: int | None = None
    """What it is sorted by; None: by its text."""
    is_code: bool = False
    """Whether it is written in letters of one width."""
    is_sign: bool = False
    """Whether the sign of its mark is enough to see; screen readers and the filter get the text."""

    @property
    def is_long(self) -> bool:
        """Whether it may be broken anywhere."""
        return len(self.text) > 28  # noqa: PLR2004


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """A table with its caption; the first cell of a row names the row."""

    name: str
    """Unique on the page: letters and hyphens."""
    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    more: int = 0
    """Rows that are left out."""
    is_filtered: bool = False
    """Whether a field to filter it by is of use."""


class Room:
    """What may still be put on a page; rows that do not fit are counted and left to the report."""

    def __init__(self, size_bytes: int = MOST_BYTES) -> None:
        self._left = size_bytes

    def takes(self, *texts: str) -> bool:
        """Take room for texts as they will be written; False, and nothing taken, for too much."""
        needed = sum(_OVERHEAD_BYTES + _written_bytes(text) for text in texts)
        if needed > self._left:
            return False
        self._left -= needed
        return True

    def table(
        self, name: str, caption: str, columns: Sequence[str], rows: Iterable[Sequence[Cell]]
    ) -> Table:
        """Make a table; more than a screen of rows can be filtered."""
        found = [tuple(row) for row in rows]
        kept = []
        for row in found[:MOST_ROWS]:
            if not self.takes(*(cell.text for cell in row)):
                break
            kept.append(row)
        return Table(
            name=name,
            caption=caption,
            columns=tuple(columns),
            rows=tuple(kept),
            more=len(found) - len(kept),
            is_filtered=len(found) > 12,  # noqa: PLR2004
        )


def _written_bytes(text: str) -> int:
    return len(escape(printable(text[:MOST_CELL_CHARACTERS])).encode())


def number(value: int | None) -> Cell:
    """Return a cell of a number, with its thousands apart."""
    return Cell("", sort=-1) if value is None else Cell(f"{value:,}", sort=value)

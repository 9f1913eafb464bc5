"""Tables of a page: cells that can be sorted and filtered, and never a thousand too many."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Literal

import msgspec

#: Rows of one table; a page is to stay below 1.5 MB.
MOST_ROWS: Final = 2_000

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


def table(name: str, caption: str, columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> Table:
    """Make a table; more than a screen of rows can be filtered."""
    found = [tuple(row) for row in rows]
    return Table(
        name=name,
        caption=caption,
        columns=tuple(columns),
        rows=tuple(found[:MOST_ROWS]),
        more=max(0, len(found) - MOST_ROWS),
        is_filtered=len(found) > 12,  # noqa: PLR2004
    )


def number(value: int | None) -> Cell:
    """Return a cell of a number, with its thousands apart."""
    return Cell("", sort=-1) if value is None else Cell(f"{value:,}", sort=value)

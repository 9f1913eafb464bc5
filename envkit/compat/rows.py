"""What every table and every row of it has: sources, their dates, and how sure they are."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class Source(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where something was read, and when."""

    what: str
    #: ISO date on which it was read.
    read: str


class Row(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One fact."""

    #: Keys of the table's `sources`.
    source: tuple[str, ...]
    #: False: named in the sources only indirectly, or from memory.
    verified: bool = True
    note: str | None = None


class Rule(Row, frozen=True, kw_only=True):
    """A fact that is a sentence."""

    id: str
    text: str


class Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One file of `data/`."""

    schema: str
    #: ISO date on which the table as a whole was last gone through.
    read: str
    sources: Mapping[str, Source]


def sources_of(table: Table, row: Row) -> tuple[Source, ...]:
    """Return the sources of a row in full, for the evidence of a finding."""
    return tuple(table.sources[key] for key in row.source)

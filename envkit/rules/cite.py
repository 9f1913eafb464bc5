"""How a finding names the row of a table that it rests on, and the sources of that row."""

from __future__ import annotations

from envkit.compat import tables
from envkit.compat.tables import Row, TableName


def cite(table: TableName, where: str, row: Row) -> str:
    """Return `compat/data/TABLE.yaml, WHERE: SOURCES`, addresses first.

    Args:
        table: stem of the file.
        where: which row, in words that find it in the file.
        row: the row itself.

    """
    sources = [source.what for source in tables.sources_for(table, row)]
    sources.sort(key=lambda what: not what.startswith("http"))
    unsure = "" if row.verified else " (not verified)"
    return f"compat/data/{table}.yaml, {where}{unsure}: {'; '.join(sources)}"

"""Process variables, allocator options and torch flags that change memory or numbers."""

from __future__ import annotations

import functools
from typing import Literal

from envkit.compat import torch_builds
from envkit.compat.answers import Unknown
from envkit.compat.rows import Row, Table
from envkit.compat.store import load
from envkit.model.versions import parse_torch

Change = Literal[
    "memory",
    "host memory",
    "numerics",
    "determinism",
    "performance",
    "stability",
    "visibility",
    "build",
]
Compare = Literal["must_match", "must_be_unset", "record", "ignore"]


class Variable(Row, frozen=True, kw_only=True):
    """An environment variable that is worth reading."""

    name: str
    kind: str
    changes: tuple[Change, ...]
    #: Advice of this project, not a fact: what a comparison of two machines does with it.
    compare: Compare
    effect: str
    default: str | None = None
    #: The value can name a folder, host or device of the user: redact before it leaves.
    sensitive: bool = False
    introduced: str | None = None
    #: First and last inspected wheel whose libraries contain the name.
    first_seen: str | None = None
    last_seen: str | None = None
    newer_name: str | None = None
    newer_since: str | None = None


class Option(Row, frozen=True, kw_only=True):
    """An option of PYTORCH_ALLOC_CONF."""

    option: str
    #: First minor release with it.
    introduced: str
    effect: str
    changes: tuple[Change, ...]
    #: It is as old as the oldest wheel inspected, or older.
    or_earlier: bool = False
    #: First minor release without it.
    removed: str | None = None
    default: str | None = None
    values: tuple[str, ...] = ()


class Flag(Row, frozen=True, kw_only=True):
    """A setting of torch inside a process."""

    flag: str
    changes: tuple[Change, ...]
    effect: str
    default: str
    values: tuple[str, ...] = ()


class VariableTable(Table, frozen=True, kw_only=True):
    """`data/variables.yaml`."""

    variables: tuple[Variable, ...]
    options: tuple[Option, ...]
    flags: tuple[Flag, ...]


@functools.cache
def table() -> VariableTable:
    """Return the table of variables, read once a process."""
    return load("variables", VariableTable)


@functools.cache
def _variables() -> dict[str, Variable]:
    return {row.name: row for row in table().variables}


@functools.cache
def _options() -> dict[str, Option]:
    return {row.option: row for row in table().options}


def recorded_variables() -> tuple[Variable, ...]:
    """Return the allow-list: the only process variables that a report may hold, by name."""
    kept = (row for row in table().variables if row.compare != "ignore")
    return tuple(sorted(kept, key=lambda row: row.name))


def variable(name: str) -> Variable | Unknown:
    """Return what is known of a variable."""
    return _variables().get(name) or Unknown(why=f"{name} is not in the tables")


def allocator_option(name: str) -> Option | Unknown:
    """Return what is known of an allocator option."""
    return _options().get(name) or Unknown(why=f"the option {name} is not in the tables")


def option_introduced(name: str) -> str | Unknown:
    """Return the first minor release with an allocator option, `2.1` for expandable_segments."""
    row = allocator_option(name)
    return row if isinstance(row, Unknown) else row.introduced


def option_known(name: str, torch_version: str) -> bool | Unknown:
    """Say whether a torch release has an allocator option (ALC002).

    The patch level is not told apart: one wheel of each minor release was inspected.

    Raises:
        ValueError: `torch_version` is not a version.

    """
    row = allocator_option(name)
    if isinstance(row, Unknown):
        return row
    version = parse_torch(torch_version)
    asked = version.release[:2]
    if asked < _minor(row.introduced) and not row.or_earlier:
        return False
    if row.removed is not None and asked >= _minor(row.removed):
        return False
    outside = torch_builds.outside_tables(version)
    return True if outside is None else outside


def _minor(text: str) -> tuple[int, int]:
    return parse_torch(text).release[:2]


def replaced_variable(name: str, torch_version: str) -> str | None:
    """Return the name that a release wants in place of a variable's old one, else None (ALC004).

    Raises:
        ValueError: `torch_version` is not a version.

    """
    row = _variables().get(name)
    if row is None or row.newer_name is None or row.newer_since is None:
        return None
    is_new_enough = parse_torch(torch_version).release[:2] >= _minor(row.newer_since)
    return row.newer_name if is_new_enough else None

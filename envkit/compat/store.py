"""Reading a table from the package: strict, once a process, with an error that names the entry."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from envkit.compat.rows import Table
from envkit.errors import InternalError

FOLDER = Path(__file__).parent / "data"
#: Stems of the files, a YAML to edit and the JSON compiled from it.
TABLES = ("arch", "cudnn", "driver", "gpus", "torch", "variables")

AnyTable = TypeVar("AnyTable", bound=Table)

_STEP = re.compile(r"\.(?P<key>\w+)|\[(?P<index>\d+)\]")


def load(stem: str, table: type[AnyTable]) -> AnyTable:
    """Read one table of the package.

    Raises:
        InternalError: the file is missing, or something in it is not what the table holds.

    """
    path = FOLDER / f"{stem}.json"
    try:
        content = path.read_bytes()
    except OSError as error:
        message = f"the compatibility table {path.name} cannot be read: {error.strerror}"
        raise InternalError(message, next_step="Install envkit again.") from error
    return decode(content, table, origin=path.name)


def decode(content: bytes, table: type[AnyTable], *, origin: str) -> AnyTable:
    """Read a table from JSON.

    Raises:
        InternalError: something in it is not what the table holds; the message names the entry.

    """
    try:
        return msgspec.json.decode(content, type=table)
    except msgspec.DecodeError as error:
        said = str(error)
        message = f"the compatibility table {origin} is not valid: {said}{_entry(content, said)}"
        step = "Install envkit again; if you edited the table, mend the entry named."
        raise InternalError(message, next_step=step) from error


def _entry(content: bytes, said: str) -> str:
    """Name the row that msgspec's path (`$.toolkits[3].linux`) stands for by its first value."""
    _, has_path, path = said.rpartition("`$")
    if not has_path:
        return ""
    value: Any = msgspec.json.decode(content)
    name = ""
    for step in _STEP.finditer(path):
        value = value[int(step["index"])] if step["index"] else value.get(step["key"])
        if isinstance(value, dict) and step["index"]:
            key, first = next(iter(value.items()), ("", ""))
            name = f" (the entry {key} {first!r})"
        if not isinstance(value, (dict, list)):
            break
    return name

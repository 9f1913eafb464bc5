"""The states of a fact that has no value, as they are written in events."""

from __future__ import annotations

import math
from typing import Any

from .protocol import printable
from .torch_api import Missing


def absent(reason: str) -> "dict[str, str]":
    """Say that it was looked for and is not there."""
    return {"absent": reason}


def unreadable(reason: str) -> "dict[str, str]":
    """Say that it could not be told."""
    return {"unreadable": reason}


def not_applicable(reason: str) -> "dict[str, str]":
    """Say that the question has no meaning here."""
    return {"not_applicable": reason}


def plain(value: Any) -> Any:
    """Turn a value of torch into JSON: Missing becomes unreadable, an unknown type its text."""
    if isinstance(value, Missing):
        return unreadable(value.reason)
    if isinstance(value, dict):
        return {printable(str(name)): plain(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    if isinstance(value, (bool, int)) or value is None:
        return value
    if isinstance(value, float) and math.isfinite(value):  # JSON has no NaN and no infinity
        return value
    return printable(str(value))

"""A TOML file of ours, read up to a size that nobody writes by hand."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

LARGEST_BYTES: Final = 1 << 20


def read_toml(path: Path) -> dict[str, Any]:
    """Read a file that is there.

    Raises:
        ValueError: it cannot be read, is too large or is no TOML; the message says which.

    """
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_BYTES + 1)
    except OSError as error:
        raise ValueError(error.strerror or str(error)) from error
    if len(content) > LARGEST_BYTES:
        message = f"it is larger than {LARGEST_BYTES >> 20} MiB"
        raise ValueError(message)
    try:
        table: dict[str, Any] = tomllib.loads(content.decode())
    except (ValueError, RecursionError) as error:
        message = f"it is not TOML: {error}"
        raise ValueError(message) from error
    return table

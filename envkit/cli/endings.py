"""Which format the ending of a file's name asks for, and which endings a command refuses."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from envkit.errors import UsageError

#: Ending of the file that -o names -> format.
ENDINGS: Final = {
    ".html": "html",
    ".json": "json",
    ".md": "markdown",
    ".sarif": "sarif",
    ".svg": "svg",
    ".txt": "text",
    ".xml": "junit",
}
#: The schema stands first in a report.
_HEAD_BYTES: Final = 100


def format_of(output: str) -> str | None:
    """Return the format that a file's name asks for; None for another ending, or none."""
    name = output.lower()
    return "sarif" if name.endswith(".sarif.json") else ENDINGS.get(Path(name).suffix)


def check_ending(output: str | None, formats: Sequence[str] | None) -> None:
    """Refuse a file whose ending is of none of these formats: it is likely something else.

    A name without an ending is welcome, and so is a folder. None: the command has no formats.

    Raises:
        UsageError: it is refused, before anything is read or written.

    """
    if (
        formats is None
        or output is None
        or output.endswith(("/", os.sep))
        or not Path(output).suffix
    ):
        return
    if format_of(output) in formats or os.path.isdir(output):  # noqa: PTH112 (a NUL raises in Path)
        return
    endings = [ending for ending, name in ENDINGS.items() if name in formats]
    message = f"-o {output}: nothing that this command writes has that ending."
    step = f"It writes {', '.join(endings)}, or a file without an ending."
    raise UsageError(message, next_step=step)


def is_for_report(output: str) -> bool:
    """Say whether the name is one that a JSON report is looked for under.

    Raises:
        UsageError: it is not, and a file is there that is no report.

    """
    path = Path(output)
    if path.suffix.lower() in {"", ".json"} or output.endswith(("/", os.sep)):
        return True
    if os.path.isdir(output):  # noqa: PTH112 (as above)
        return True
    if os.path.isfile(output) and not _holds_report(path):  # noqa: PTH113 (as above)
        message = f"-o {output} would write the JSON report over a file that is no report."
        raise UsageError(message, next_step="Choose a name in .json, or remove the file.")
    return False


def _holds_report(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return b'"envkit.report/' in file.read(_HEAD_BYTES)
    except OSError:  # what may not be read may be anything
        return False

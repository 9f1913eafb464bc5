"""Where a document of a command goes: a file in the format that its name asks for, or stdout."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from envkit.cli.command import Terminal
from envkit.cli.output import emit, style_of
from envkit.render.json_ import render_json
from envkit.render.style import Style
from envkit.workflows.save import write_atomically


def chosen_format(options: dict[str, Any], *files: str) -> str:
    """Return the format asked for: `--format`, `--json`, else the ending of `-o`, else text.

    Args:
        options: of the command.
        files: endings that name a format besides `json`, such as `svg`.

    """
    chosen = options["format_"] or ("json" if options["as_json"] else None)
    if chosen is not None:
        return str(chosen)
    ending = (options["output"] or "").lower().rpartition(".")[2]
    return ending if ending in {"json", *files} else "text"


def write_document(
    document: msgspec.Struct,
    draw: Callable[[Style], str],
    options: dict[str, Any],
    terminal: Terminal,
    **others: Callable[[], str],
) -> None:
    """Write a document to `-o`, or to stdout without it.

    Args:
        document: what JSON is made of.
        draw: makes its text.
        options: of the command.
        terminal: of the command.
        others: what makes it in further formats, by the name of the format, which is also the
            ending of such files.

    """
    output = options["output"]
    chosen = chosen_format(options, *others)
    if chosen in others:
        text = others[chosen]()
    elif chosen == "json":
        text = render_json(document)
    else:
        text = draw(Style() if output else style_of(terminal))
    if output is None:
        emit(text)
    else:
        write_atomically(Path(output), text.encode())

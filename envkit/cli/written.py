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


def write_document(
    document: msgspec.Struct,
    draw: Callable[[Style], str],
    options: dict[str, Any],
    terminal: Terminal,
) -> None:
    """Write a document to `-o`, or to stdout without it; `draw` makes its text.

    A file gets JSON when its name ends in `.json`, unless `--format` says otherwise.
    """
    output = options["output"]
    chosen = options["format_"] or ("json" if options["as_json"] else None)
    if output is None:
        emit(render_json(document) if chosen == "json" else draw(style_of(terminal)))
        return
    as_json = (chosen or ("json" if output.lower().endswith(".json") else "text")) == "json"
    text = render_json(document) if as_json else draw(Style())
    write_atomically(Path(output), text.encode())

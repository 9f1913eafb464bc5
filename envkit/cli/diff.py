"""`envkit diff`: what differs between machines or environments, and what is the cause."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

from envkit.cli.command import EnvkitCommand, Terminal, format_options, terminal_options
from envkit.cli.output import emit, style_of
from envkit.compare.compare import Comparison
from envkit.workflows.diff import Confirm, DiffRequest, diff
from envkit.workflows.memory_notes import memory_notes

EXAMPLES = """\
envkit diff mine.json hers.json            two reports of `envkit verify -o`
envkit diff mine.json hers.json --confirm  try her settings here
envkit diff team/                          a folder of reports: the outliers
envkit diff mine.json paste.txt            against a collect_env paste
envkit diff HEAD~1:env.conda-lock.yml env.conda-lock.yml
envkit diff ~/envs/vit conda-list.txt --require packages"""

#: Ending of the file that -o names -> format.
_ENDINGS: Final = {".json": "json", ".md": "markdown", ".txt": "text"}


@click.command(cls=EnvkitCommand, name="diff", examples=EXAMPLES)
@click.argument("inputs", nargs=-1, required=True, metavar="A B [C ...] | FOLDER")
@click.option("--require", metavar="LAYERS", help="Layers that must agree, with commas; or all.")
@click.option("--confirm", is_flag=True, help="Run here, with her settings, what differs.")
@click.option("--python", metavar="EXE", help="Interpreter for --confirm [active one].")
@click.option("-o", "output", metavar="FILE", help="Save it: .json, .md or .txt, else --format.")
@click.option("--exit-zero", is_flag=True, help="Exit with 0 whatever the verdict is.")
@format_options("text", "json", "markdown", "github")
@terminal_options
def command(**options: Any) -> int:
    """Say what differs between machines, and the cause.

    Each may be a report, a fingerprint, a machine profile, a collect_env paste, a conda-lock.yml,
    an explicit lock, an environment.yml, `conda list`, `pip freeze`, a prefix or REVISION:PATH.
    """
    terminal = Terminal(
        quiet=options["quiet"],
        verbose=options["verbose"],
        color=options["color"],
        no_progress=options["no_progress"],
    )
    request = DiffRequest(inputs=options["inputs"], require=options["require"])
    confirm = _confirmer(options["python"]) if options["confirm"] else None
    comparison = diff(request, os.environ, confirm)
    _write(comparison, options, terminal)
    return 0 if options["exit_zero"] else comparison.document.verdict.exit_code


def _confirmer(python: str | None) -> Confirm:
    from envkit.workflows.confirm_here import confirm_here  # noqa: PLC0415 (starts programs)

    return lambda comparison: confirm_here(comparison, os.environ, python=python)


def _write(comparison: Comparison, options: dict[str, Any], terminal: Terminal) -> None:
    chosen = "json" if options["as_json"] else options["format_"]
    output = options["output"]
    if output is not None:
        from envkit.workflows.save import write_atomically  # noqa: PLC0415 (only where it is asked)

        by_ending = _ENDINGS.get(Path(output).suffix.lower(), "text")
        text = _FORMATS[chosen or by_ending](comparison, terminal)
        write_atomically(Path(output), text.encode())
    emit(_FORMATS[chosen or "text"](comparison, terminal))


def _text(comparison: Comparison, terminal: Terminal) -> str:
    from envkit.render.diff_text import render_diff  # noqa: PLC0415 (rich, only where it draws)

    notes = memory_notes(comparison.rooms)
    return render_diff(comparison.document, notes, style_of(terminal))


def _json(comparison: Comparison, _: Terminal) -> str:
    from envkit.render.json_ import render_json  # noqa: PLC0415

    return render_json(comparison.document)


def _markdown(comparison: Comparison, _: Terminal) -> str:
    from envkit.render.diff_markdown import render_markdown  # noqa: PLC0415

    return render_markdown(comparison.document, memory_notes(comparison.rooms))


def _github(comparison: Comparison, _: Terminal) -> str:
    from envkit.render.diff_markdown import render_github  # noqa: PLC0415

    return render_github(comparison.document)


_FORMATS: Final[dict[str, Callable[[Comparison, Terminal], str]]] = {
    "text": _text,
    "json": _json,
    "markdown": _markdown,
    "github": _github,
}

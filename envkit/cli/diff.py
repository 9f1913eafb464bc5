"""`envkit diff`: what differs between machines or environments, and what is the cause."""

from __future__ import annotations

import os
from typing import Any

import click

from envkit.cli.command import EnvkitCommand, Terminal, format_options, terminal_options
from envkit.cli.written import Formats, of_outcome, print_format, write_file
from envkit.compare.compare import Comparison
from envkit.render.json_ import render_json
from envkit.render.outcome import Outcome
from envkit.render.style import Style
from envkit.workflows.diff import Confirm, DiffRequest, diff
from envkit.workflows.memory_notes import memory_notes
from envkit.workflows.save import keep_inputs

EXAMPLES = """\
envkit diff mine.json hers.json            two reports of `envkit verify -o`
envkit diff mine.json hers.json --confirm  try her settings here
envkit diff team/                          a folder of reports: the outliers
envkit diff mine.json paste.txt            against a collect_env paste
envkit diff HEAD~1:env.conda-lock.yml env.conda-lock.yml
envkit diff ~/envs/vit conda-list.txt --require packages"""


@click.command(cls=EnvkitCommand, name="diff", examples=EXAMPLES)
@click.argument("inputs", nargs=-1, required=True, metavar="A B [C ...] | FOLDER")
@click.option("--require", metavar="LAYERS", help="Layers that must agree, with commas; or all.")
@click.option("--confirm", is_flag=True, help="Run here, with her settings, what differs.")
@click.option("--python", metavar="EXE", help="Interpreter for --confirm [active one].")
@click.option("-o", "output", metavar="FILE", help="Save it; the ending says the format.")
@click.option("--exit-zero", is_flag=True, help="Exit with 0 whatever the verdict is.")
@format_options("text", "json", "markdown", "html", "junit", "sarif", "github")
@terminal_options
def command(**options: Any) -> int:
    """Say what differs between machines, and the cause.

    Each may be a report, a fingerprint, a machine profile, a collect_env paste, a conda-lock.yml,
    an explicit lock, an environment.yml, `conda list`, `pip freeze`, a prefix or REVISION:PATH.
    """
    terminal = Terminal.of(options)
    keep_inputs(options["output"], options["inputs"])
    request = DiffRequest(inputs=options["inputs"], require=options["require"])
    confirm = _confirmer(options["python"]) if options["confirm"] else None
    comparison = diff(request, os.environ, confirm)
    _write(comparison, options, terminal)
    return 0 if options["exit_zero"] else comparison.document.verdict.exit_code


def _confirmer(python: str | None) -> Confirm:
    from envkit.workflows.confirm_here import confirm_here  # noqa: PLC0415 (starts programs)

    return lambda comparison: confirm_here(comparison, os.environ, python=python)


def _write(comparison: Comparison, options: dict[str, Any], terminal: Terminal) -> None:
    formats = _formats(comparison)
    if options["output"] is not None:
        write_file(formats, options)
    print_format(formats, options, terminal)


def _formats(comparison: Comparison) -> Formats:
    document = comparison.document

    def text(style: Style) -> str:
        from envkit.render.diff_text import render_diff  # noqa: PLC0415 (rich, only to draw)

        return render_diff(document, memory_notes(comparison.rooms), style)

    def markdown(_: Style) -> str:
        from envkit.render.diff_markdown import render_markdown  # noqa: PLC0415

        return render_markdown(document, memory_notes(comparison.rooms))

    def outcome() -> Outcome:
        from envkit.render.diff_outcome import diff_outcome  # noqa: PLC0415 (not for text)

        return diff_outcome(document)

    def html(_: Style) -> str:
        from envkit.workflows.report import comparison_page  # noqa: PLC0415 (templates)

        return comparison_page(comparison)

    others = {**of_outcome(outcome), "markdown": markdown, "html": html}
    return {"text": text, "json": lambda _: render_json(document), **others}

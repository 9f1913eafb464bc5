"""`envkit report`: one machine, two, or a team's folder as one HTML file."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import click

from envkit.cli.command import EnvkitCommand, is_terminal, terminal_options
from envkit.cli.output import emit
from envkit.errors import UsageError
from envkit.workflows.report import report_page
from envkit.workflows.save import keep_inputs, write_atomically

EXAMPLES = """\
envkit report report.json -o report.html        one machine
envkit report mine.json hers.json -o diff.html  a pair, and the cause
envkit report team/ -o team.html                a folder: groups and outliers"""


@click.command(cls=EnvkitCommand, name="report", examples=EXAMPLES)
@click.argument("inputs", nargs=-1, required=True, metavar="REPORT ... | FOLDER")
@click.option("-o", "output", metavar="FILE", help="Write the page there [stdout].")
@terminal_options
def command(inputs: tuple[str, ...], output: str | None, **_: Any) -> int:
    """Write one machine, a pair or a team as a page.

    The page is one file that loads nothing and sends nothing: open it from disk, mail it, print it.
    Two inputs and more may be anything that `envkit diff` compares.
    """
    if output is None and is_terminal(sys.stdout):
        message = "A page is HTML, and would fill this terminal."
        raise UsageError(message, next_step="Name a file for it: -o report.html")
    keep_inputs(output, inputs)
    page = report_page(inputs, os.environ)
    if output is None:
        emit(page)
    else:
        write_atomically(Path(output), page.encode())
    return 0

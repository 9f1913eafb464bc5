"""`envkit oom`: the out-of-memory messages of a log, explained."""

from __future__ import annotations

from typing import Any

import click

from envkit.cli.command import EnvkitCommand, Terminal, format_options, terminal_options
from envkit.cli.written import of_outcome, write_document
from envkit.render.outcome import Outcome
from envkit.render.style import Style
from envkit.workflows.oom import explain_oom
from envkit.workflows.save import keep_inputs

EXAMPLES = """\
envkit oom train.log
python train.py 2>&1 | envkit oom -
envkit oom --json train.log"""


@click.command(cls=EnvkitCommand, name="oom", examples=EXAMPLES)
@click.argument("log", metavar="FILE|-")
@click.option("-o", "output", metavar="FILE", help="Write it there; the ending says the format.")
@format_options("text", "json", "markdown", "github")
@terminal_options
def command(**options: Any) -> int:
    """Explain an out-of-memory message or a whole log.

    Reads torch's messages of every release, wrapped, prefixed or cut off, as many as there are.
    Says what fills the card, which kind of failure it is, and what to do, most likely first.
    """
    terminal = Terminal.of(options)
    keep_inputs(options["output"], (options["log"],))
    found = explain_oom(options["log"])

    def draw(style: Style) -> str:
        from envkit.render.oom_text import render_oom_text  # noqa: PLC0415 (rich, only to draw)

        return render_oom_text(found, style)

    def outcome() -> Outcome:
        from envkit.render.oom_outcome import oom_outcome  # noqa: PLC0415 (not for text)

        return oom_outcome(found)

    made = of_outcome(outcome)
    others = {name: made[name] for name in ("markdown", "github")}
    write_document(found, draw, options, terminal, others=others)
    return 0

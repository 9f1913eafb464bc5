"""`envkit explain`: the page of a finding or of a cause."""

from __future__ import annotations

import click

from envkit.cli.command import EnvkitCommand, Terminal, terminal_options
from envkit.cli.output import emit, style_of
from envkit.render.reflow import reflow
from envkit.workflows.explain import explain

EXAMPLES = """\
envkit explain DRV002
envkit explain CAU001"""


@click.command(cls=EnvkitCommand, name="explain", examples=EXAMPLES)
@click.argument("code")
@terminal_options
def command(code: str, **options: object) -> int:
    """Show the page of a finding, such as DRV002.

    It says what the rule checks, why it matters, how to mend it and which source it rests on.
    """
    emit(reflow(explain(code), style_of(Terminal.of(options)).width))
    return 0

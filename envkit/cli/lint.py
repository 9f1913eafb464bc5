"""`envkit lint`: faults of environment.yml files, before anything is solved."""

from __future__ import annotations

import datetime as dt
import os
from typing import Any

import click

from envkit.cli.command import EnvkitCommand, Terminal, format_options, terminal_options
from envkit.cli.output import complain, complain_of
from envkit.cli.written import of_outcome, write_document
from envkit.render.lint_text import render_lint
from envkit.render.outcome import Outcome
from envkit.render.style import Style
from envkit.specs.resolve import files_of
from envkit.workflows.config import current_folder, read_configuration
from envkit.workflows.lint import exit_code, lint_specs, without_locks
from envkit.workflows.save import keep_inputs

EXAMPLES = """\
envkit lint environment.yml
envkit lint vit classic@1.0.0           specs that come with envkit
envkit lint --fail-on warning envs/*.yml
envkit lint --json environment.yml"""


@click.command(cls=EnvkitCommand, name="lint", examples=EXAMPLES)
@click.argument("specs", nargs=-1, required=True, metavar="SPEC...")
@format_options("text", "json", "markdown", "junit", "sarif", "github")
@click.option("-o", "output", metavar="FILE", help="Write it there; the ending says the format.")
@click.option(
    "--fail-on",
    type=click.Choice(["error", "warning", "unknown"]),
    help="What makes the exit code 1 [error]; each includes those before it.",
)
@click.option("--exit-zero", is_flag=True, help="Exit with 0 whatever is found.")
@terminal_options
def command(**options: Any) -> int:
    """Find faults of environment.yml files before anything is solved.

    SPEC is a path, or the name of a spec that comes with envkit, with or without a version.
    """
    terminal = Terminal.of(options)
    keep_inputs(options["output"], files_of(options["specs"]))
    configuration = read_configuration(current_folder(), os.environ)
    today = dt.datetime.now(tz=dt.timezone.utc).date()
    specs, locks = without_locks(options["specs"])
    document = lint_specs(specs, today=today, configuration=configuration)
    if locks and not terminal.quiet:
        complain(f"envkit: locks are no specs, left out: {', '.join(locks)}")
    fail_on = configuration.pick(options["fail_on"], "fail_on", "error").value
    code = exit_code(document, fail_on=fail_on)

    def draw(style: Style) -> str:
        return render_lint(document, specs, style)

    def outcome() -> Outcome:
        from envkit.render.lint_outcome import lint_outcome  # noqa: PLC0415 (not for text)

        return lint_outcome(document, specs, exit_code=code)

    write_document(document, draw, options, terminal, others=of_outcome(outcome))
    for unread in document.unread:
        complain_of(unread.message, unread.next_step)
    return 0 if options["exit_zero"] and code == 1 else code

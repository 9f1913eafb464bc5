"""`envkit lock`: the lock of each spec, and whether one still fits."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from envkit.cli.command import EnvkitCommand, Terminal, format_options, terminal_options
from envkit.cli.output import style_of
from envkit.cli.progress import progress
from envkit.cli.written import of_outcome, write_document
from envkit.errors import UsageError
from envkit.render.lock_text import render_lock
from envkit.render.outcome import Outcome
from envkit.render.style import Style
from envkit.specs.resolve import files_of
from envkit.workflows.lock import LockRequest, exit_code, lock
from envkit.workflows.lock_update import update
from envkit.workflows.save import keep_inputs

EXAMPLES = """\
envkit lock environment.yml              with the conda found, or without one
envkit lock --solver builtin my/vit.yml  without conda in any case
envkit lock --check environment.yml vit  do the locks still fit? no network
envkit lock vit.yml --mirror /srv/conda  solve against channels on disk
envkit lock --update vit                 its next version, newest packages
envkit lock --platform linux-64 --platform osx-arm64 cpu.yml"""


@click.command(cls=EnvkitCommand, name="lock", examples=EXAMPLES)
@click.argument("specs", nargs=-1, metavar="SPEC...")
@click.option("--check", is_flag=True, help="Compare lock and spec; solve nothing.")
@click.option(
    "--update",
    metavar="NAME",
    help="Solve a spec of the registry again and publish what changed as its next version.",
)
@click.option(
    "--solver",
    type=click.Choice(["auto", "conda", "mamba", "micromamba", "builtin"]),
    default="auto",
    show_default=True,
    help="Who solves; auto: what is installed, else the built-in solver.",
)
@click.option(
    "--mirror",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Folder with the channels; addresses of conda.anaconda.org are recorded all the same.",
)
@click.option(
    "--platform",
    "platforms",
    multiple=True,
    metavar="P",
    help="Platform to lock, such as linux-64. Repeatable [the registry's, else linux-64].",
)
@click.option("-o", "output", metavar="FILE", help="Write the answer there, not the lock.")
@format_options("text", "json", "markdown", "junit", "sarif", "github")
@terminal_options
def command(**options: Any) -> int:
    """Lock each SPEC: every package with its address and hash.

    SPEC is an environment.yml or a name such as vit. The lock is written beside it, as
    NAME.conda-lock.yml, or conda-lock.yml for environment.yml.
    """
    terminal = Terminal.of(options)
    request = LockRequest(
        specs=_specs(options),
        check=options["check"],
        solver=options["solver"],
        mirror=options["mirror"],
        platforms=options["platforms"],
    )
    keep_inputs(options["output"], files_of(request.specs))
    with progress(shown=terminal.progress_on(), ascii_only=not style_of(terminal).unicode) as tell:
        work = update if options["update"] else lock
        document = work(request, os.environ, tell)
    code = exit_code(document)

    def outcome() -> Outcome:
        from envkit.render.lock_outcome import lock_outcome  # noqa: PLC0415 (not for text)

        return lock_outcome(document, exit_code=code)

    def draw(style: Style) -> str:
        return render_lock(document, style)

    write_document(document, draw, options, terminal, others=of_outcome(outcome))
    return code


def _specs(options: dict[str, Any]) -> tuple[str, ...]:
    specs: tuple[str, ...] = options["specs"]
    if options["update"] is None:
        if not specs:
            message = "No SPEC was given."
            raise UsageError(message, next_step="Give a path or a name, as in `envkit lock vit`.")
        return specs
    if specs or options["check"]:
        message = "--update takes the one spec it names; it goes with neither SPEC nor --check."
        raise UsageError(message, next_step=f"envkit lock --update {options['update']}")
    return (options["update"],)

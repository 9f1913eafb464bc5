"""`envkit create`: a new environment from a lock."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from envkit.cli.command import EnvkitCommand, Terminal, format_options, terminal_options
from envkit.cli.output import emit, style_of
from envkit.cli.progress import progress
from envkit.model.counted import counted
from envkit.model.installed_lock import InstalledLock
from envkit.render.escape import printable
from envkit.render.json_ import render_json
from envkit.workflows.create import CreateRequest, create

EXAMPLES = """\
envkit create vit -p ./vit                     the lock that comes with envkit
envkit create environment.yml -p ./env         the conda-lock.yml beside it
envkit create vit.conda-lock.yml -p ./vit      a lock without its spec
envkit create vit -p ./vit --mirror /srv/pkgs  package files on disk"""


@click.command(cls=EnvkitCommand, name="create", examples=EXAMPLES)
@click.argument("spec")
@click.option(
    "-p",
    "--prefix",
    required=True,
    metavar="PATH",
    type=click.Path(path_type=Path),
    help="Folder of the new environment; it must not be there yet.",
)
@click.option(
    "--mirror",
    metavar="DIR",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Folder with the package files, as CHANNEL/PLATFORM/FILE; nothing is downloaded.",
)
@format_options("text", "json")
@terminal_options
def command(**options: Any) -> int:
    """Install the lock of SPEC without conda.

    Each package must have the hash that the lock has for it. The prefix appears when everything
    is installed, and not before. Scripts of packages are not run.
    """
    terminal = Terminal.of(options)
    request = CreateRequest(
        spec=options["spec"], prefix=options["prefix"], mirror=options["mirror"]
    )
    ascii_only = not style_of(terminal).unicode
    with progress(shown=terminal.progress_on(), ascii_only=ascii_only) as tell:
        origin = create(request, tell)
    as_json = options["as_json"] or options["format_"] == "json"
    emit(render_json(origin) if as_json else _text(origin, options["prefix"], terminal))
    return 0


def _text(origin: InstalledLock, prefix: Path, terminal: Terminal) -> str:
    version = f"@{origin.spec_version}" if origin.spec_version else ""
    what = f"{origin.spec}{version}" if origin.spec else "the lock"
    packages = counted(origin.packages, "package")
    lines = [f"{prefix}: {what} installed, {packages} for {origin.platform}"]
    if not terminal.quiet:
        if origin.scripts_not_run:
            names = ", ".join(origin.scripts_not_run)
            lines.append(f"  not run, though conda would: the post-link scripts of {names}")
        lines.append(f"  next: envkit verify -p {prefix}")
    return "".join(f"{printable(line)}\n" for line in lines)

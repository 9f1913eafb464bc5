"""`envkit image`: the build folder of a container from a spec's lock."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from envkit.cli.command import EnvkitCommand, Terminal, format_options, terminal_options
from envkit.cli.output import emit
from envkit.model.counted import counted
from envkit.model.image import Image
from envkit.render.escape import printable
from envkit.render.json_ import render_json
from envkit.workflows.image import ImageRequest, write_image
from envkit.workflows.image_options import DEFAULT_BASE, ImageOptions

EXAMPLES = """\
envkit image vit -o box/                      a command, in your code folder
envkit image notebook --mode jupyter -o box/  needs JUPYTER_TOKEN at the start
envkit image vit --mode ssh --gpus 0 -o box/  keys only, on port 2222
envkit image vit --base python@sha256:DIGEST -o box/"""


@click.command(cls=EnvkitCommand, name="image", examples=EXAMPLES)
@click.argument("spec")
@click.option(
    "--mode",
    type=click.Choice(["base", "jupyter", "ssh"]),
    default="base",
    show_default=True,
    help="How one gets in: a command, a notebook server, a login.",
)
@click.option(
    "-o",
    "folder",
    required=True,
    metavar="FOLDER",
    type=click.Path(path_type=Path),
    help="Build folder; new, empty, or written by envkit before.",
)
@click.option(
    "--base",
    default=DEFAULT_BASE,
    metavar="IMAGE",
    help="Image to start from, best with its digest; it has glibc, Python 3.10 to 3.14 and venv "
    f"[{DEFAULT_BASE.rpartition('/')[2]}].",
)
@click.option("--platform", metavar="P", help="Platform of the lock [linux-64, if locked].")
@click.option(
    "--gpus", default="", metavar="WHICH", help="all, none, or 0,1 or UUIDs [what SPEC needs]."
)
@click.option("--memory", default="16g", show_default=True, help="Most memory of the container.")
@click.option("--cpus", default="4", show_default=True, help="Most processors of the container.")
@click.option(
    "--code",
    default="..",
    show_default=True,
    metavar="PATH",
    help="Folder mounted at /workspace, seen from FOLDER.",
)
@click.option("--port", type=int, help="Port of Jupyter [8888] or sshd [2222].")
@click.option(
    "--notebooks",
    default="/workspace",
    show_default=True,
    metavar="PATH",
    help="Folder in the container that Jupyter shows.",
)
@click.option(
    "--envkit-wheel",
    "wheel",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Wheel of envkit for the image [the running envkit, packed].",
)
@click.option("--force", is_flag=True, help="Write beside files of others, over changed ones.")
@format_options("text", "json")
@terminal_options
def command(**options: Any) -> int:
    """Write the build folder of a container from the lock of SPEC.

    It holds Dockerfile, compose.yaml, devcontainer.json and Apptainer.def. SPEC is an
    environment.yml, a name such as vit, or a conda-lock.yml. Nothing is built or downloaded; the
    same lock, options and envkit give the same files.
    """
    terminal = Terminal.of(options)
    names = ("mode", "base", "gpus", "memory", "cpus", "port", "notebooks", "code")
    request = ImageRequest(
        spec=options["spec"],
        folder=options["folder"],
        options=ImageOptions(**{name: options[name] for name in names}),
        platform=options["platform"],
        wheel=options["wheel"],
        force=options["force"],
    )
    image = write_image(request)
    as_json = options["as_json"] or options["format_"] == "json"
    emit(render_json(image) if as_json else _text(image, request.folder, terminal))
    return 0


def _text(image: Image, folder: Path, terminal: Terminal) -> str:
    what = image.spec or "the lock"
    packages = counted(image.packages, "package")
    lines = [f"{folder}: {what}, mode {image.mode}, {packages}, {image.platform}"]
    if not terminal.quiet:
        if "@sha256:" not in image.base:
            lines.append(f"  {image.base} is a tag, which can change: --base NAME@sha256:DIGEST")
        lines.append(f"  next: docker compose --project-directory {folder} build")
    return "".join(f"{printable(line)}\n" for line in lines)

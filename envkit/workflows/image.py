"""`envkit image`: a folder from which the environment of a lock is built as a container."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

import msgspec

from envkit import __version__
from envkit.model import codec
from envkit.model.image import IMAGE_FILE, Image
from envkit.render.container.folder import render_folder
from envkit.specs.lock_metadata import notes_of
from envkit.workflows.image_folder import write_image_folder
from envkit.workflows.image_options import ImageOptions
from envkit.workflows.image_plan import choose_platform, plan_image
from envkit.workflows.input_bytes import read_input
from envkit.workflows.locked_spec import LockedSpec, read_locked_spec, refuse_pip_packages
from envkit.workflows.own_wheel import given_wheel, packed_wheel
from envkit.workflows.save import keep_inputs


class ImageRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What the user asked for."""

    spec: str
    """A spec, whose lock is beside it, or a conda-lock.yml."""
    folder: Path
    options: ImageOptions
    platform: str | None = None
    """conda's; None: linux-64 where it is locked."""
    wheel: Path | None = None
    """Of envkit; None: the one that is running is packed."""
    force: bool = False


def write_image(request: ImageRequest) -> Image:
    """Write the build folder of a spec's lock; nothing is built.

    Raises:
        UsageError: a wrong option, or a folder with files that are not envkit's.
        InputError: no lock, or a spec or wheel that cannot be used.
        RefusedError: the lock is not that of the spec, or holds what an image must not.

    """
    source = read_locked_spec(request.spec)
    platform = choose_platform(source, request.platform)
    refuse_pip_packages(source, platform)
    plan = plan_image(source, platform, request.options)
    wheel = packed_wheel() if request.wheel is None else given_wheel(request.wheel)
    texts = render_folder(plan, wheel=wheel.name, wheel_sha256=wheel.sha256)
    _keep_inputs(request, source, (*texts, IMAGE_FILE))
    files = {name: text.encode() for name, text in texts.items()}
    files[f"wheels/{wheel.name}"] = wheel.content
    files["spec/conda-lock.yml"] = source.content
    if source.resolved is not None:
        step = "Check the path and its permissions."
        files["spec/environment.yml"] = read_input(str(source.resolved.path), step)
    image = Image(
        envkit_version=__version__,
        spec=notes_of(source.lock).reference,
        mode=plan.mode,
        base=plan.base,
        platform=platform,
        packages=len(source.lock.packages(platform)),
        lock_sha256=source.sha256,
        files=_digests(files),
    )
    files[IMAGE_FILE] = codec.encode(image)
    write_image_folder(request.folder, files, force=request.force)
    return image


def _keep_inputs(request: ImageRequest, source: LockedSpec, made: Iterable[str]) -> None:
    """Keep what is read from what is made; its copies in the folder have its own bytes."""
    read = [source.path, *([] if source.resolved is None else [source.resolved.path])]
    read += [] if request.wheel is None else [request.wheel]
    for name in made:
        keep_inputs(str(request.folder / name), read)


def _digests(files: dict[str, bytes]) -> dict[str, str]:
    return {name: hashlib.sha256(text).hexdigest() for name, text in sorted(files.items())}

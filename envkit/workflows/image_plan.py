"""What is to be in an image: from the spec, its lock, the registry and the options."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal

from envkit import __version__
from envkit.compat.driver import FIRST_COMPATIBLE_MAJOR
from envkit.errors import EnvkitError, InputError, RefusedError, UsageError
from envkit.model.conda_lock import LockedPackage
from envkit.model.versions import parse_cuda
from envkit.render.container.plan import SPEC, ImagePlan, Jupyter, Limits
from envkit.specs.content_hash import content_hash
from envkit.specs.environment_yml import read_spec_file
from envkit.specs.lock_metadata import notes_of
from envkit.specs.lock_provenance import has_credentials
from envkit.specs.needs import needs_gpu
from envkit.specs.registry import Entry
from envkit.specs.resolve import resolve_spec
from envkit.workflows.contract import SPEC_VARIABLE
from envkit.workflows.image_options import (
    PORTS,
    ImageOptions,
    check_options,
    chosen_gpus,
    compose_path,
    pinned,
)
from envkit.workflows.locked_spec import LockedSpec

#: conda's platforms that containers have.
ARCHITECTURES: Final[dict[str, Literal["amd64", "arm64"]]] = {
    "linux-64": "amd64",
    "linux-aarch64": "arm64",
}
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_LONGEST_VALUE: Final = 4096
#: Set by the image itself; another value would break it.
_TAKEN: Final = frozenset({"PATH", "HOME", "USER", "CONDA_PREFIX", "JUPYTER_TOKEN"})
_TAKEN_STARTS: Final = ("ENVKIT_JUPYTER", "ENVKIT_SSH", "NVIDIA_REQUIRE", "LD_PRELOAD")
_PLAIN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._@+-]{0,99}")
_TAG: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,50}")
#: Packages that say which CUDA a build is for, in the order in which they are believed.
_CUDA: Final = ("pytorch-cuda", "cuda-version", "cudatoolkit")
#: Packages with a server, the richest first.
_SERVERS: Final[tuple[tuple[str, Jupyter], ...]] = (
    ("jupyterlab", "lab"),
    ("notebook", "notebook"),
    ("jupyter_server", "server"),
)


def plan_image(source: LockedSpec, platform: str, options: ImageOptions) -> ImagePlan:
    """Return what is to be in the image.

    Raises:
        UsageError: an option has no valid value, or the mode needs what the lock does not have.
        InputError: a variable of the spec cannot be set in an image.
        RefusedError: a package has an address that is secret, or of this machine alone.

    """
    check_options(options)
    packages = source.lock.packages(platform)
    _refuse_private(source, packages)
    found = {package.name: package for package in packages}
    notes = notes_of(source.lock)
    entry = source.resolved.entry if source.resolved else None
    gpu = _needs_gpu(source, entry, found)
    name = _name(source)
    return ImagePlan(
        name=name,
        reference=notes.reference if _PLAIN.fullmatch(notes.reference) else name,
        tag=_tag(notes.version, options.mode),
        mode=options.mode,
        base=options.base,
        architecture=ARCHITECTURES[platform],
        has_spec=source.spec is not None,
        needs_gpu=gpu,
        variables=_variables(source),
        requirements=_requirements(found, entry) if gpu else {},
        labels=_labels(source, platform, options, found),
        limits=Limits(
            gpus=chosen_gpus(options.gpus, needed=gpu), memory=options.memory, cpus=options.cpus
        ),
        port=options.port or PORTS[options.mode],
        jupyter=_jupyter(found, options),
        notebooks=options.notebooks,
        code=compose_path(options.code),
    )


def choose_platform(source: LockedSpec, asked: str | None) -> str:
    """Return the platform of the image: the one asked for, else linux-64, else what is locked.

    Raises:
        UsageError: the lock has no packages for it, or no container runs it.

    """
    locked = [one for one in source.lock.metadata.platforms if source.lock.packages(one)]
    fit = [one for one in ARCHITECTURES if one in locked]
    if asked in fit:
        return str(asked)
    if asked is not None or not fit:
        message = f"{source.path} cannot make an image for {asked or 'Linux'}."
        has = ", ".join(locked) or "nothing"
        step = f"It has {has}; images are for {' and '.join(ARCHITECTURES)}."
        raise UsageError(message, next_step=step)
    return fit[0]


def _needs_gpu(source: LockedSpec, entry: Entry | None, found: dict[str, LockedPackage]) -> bool:
    if source.spec is not None:
        return needs_gpu(source.spec, entry)
    return _cuda(found) is not None


def _cuda(found: dict[str, LockedPackage]) -> str | None:
    """Return the CUDA version that a lock is built for, `12.6`."""
    for name in _CUDA:
        if name in found:
            return ".".join(found[name].version.split(".")[:2])
    return None


def _requirements(found: dict[str, LockedPackage], entry: Entry | None) -> dict[str, str]:
    """Return what NVIDIA's runtime is asked for; it refuses to start on less.

    Within a CUDA major any driver of the major's first release will do (minor-version
    compatibility), so the first release is what is asked for, as verify does with the driver.
    """
    wanted = {"NVIDIA_DRIVER_CAPABILITIES": "compute,utility"}
    cuda = _cuda(found)
    if cuda is not None:
        major, minor = _parsed(cuda)
        least = f"{major}.{0 if major >= FIRST_COMPATIBLE_MAJOR else minor}"
        wanted["NVIDIA_REQUIRE_CUDA"] = f"cuda>={least}"
    if entry is not None and entry.needs.compute_capability is not None:
        wanted["NVIDIA_REQUIRE_ARCH"] = f"arch>={entry.needs.compute_capability}"
    return wanted


def _parsed(cuda: str) -> tuple[int, int]:
    try:
        return parse_cuda(cuda)
    except ValueError as error:
        message = f"The lock has a package for CUDA {cuda[:40]!r}, which is no version of CUDA."
        raise InputError(message, next_step="Lock the spec again: envkit lock SPEC") from error


def _variables(source: LockedSpec) -> dict[str, str]:
    if source.spec is None:
        wanted = dict(notes_of(source.lock).variables)
    else:
        wanted = {one.name: one.text for one in source.spec.variables}
    for name, text in wanted.items():
        _check_variable(name, text)
    if source.spec is not None and not _is_shipped(source, wanted.get(SPEC_VARIABLE, "")):
        wanted[SPEC_VARIABLE] = SPEC
    return dict(sorted(wanted.items()))


def _check_variable(name: str, text: str) -> None:
    reason = ""
    if not _VARIABLE.fullmatch(name):
        reason = "is not a name of a variable"
    elif name in _TAKEN or name.startswith(_TAKEN_STARTS):
        reason = "is set by the image itself, or would change what the image starts"
    elif not text.isprintable():
        reason = "has a value with a line break or another control character"
    elif len(text) > _LONGEST_VALUE:
        reason = f"has a value of more than {_LONGEST_VALUE} characters"
    if reason:
        message = f"The variable {name[:80]!r} of the spec {reason}."
        raise InputError(message, next_step="Change `variables:` of the spec, and lock it again.")


def _is_shipped(source: LockedSpec, reference: str) -> bool:
    """Say whether a reference names this very spec in the envkit that the image gets."""
    if source.spec is None or "@" not in reference or "/" in reference:
        return False
    try:
        resolved = resolve_spec(reference)
        same = read_spec_file(resolved.path, origin=reference)
    except EnvkitError:
        return False
    return resolved.entry is not None and content_hash(same) == content_hash(source.spec)


def _labels(
    source: LockedSpec, platform: str, options: ImageOptions, found: dict[str, LockedPackage]
) -> dict[str, str]:
    notes = notes_of(source.lock)
    entry = source.resolved.entry if source.resolved else None
    values = {
        "org.opencontainers.image.title": _name(source),
        "org.opencontainers.image.version": notes.version,
        "org.opencontainers.image.base.name": options.base.partition("@")[0],
        "org.opencontainers.image.base.digest": pinned(options.base),
        "envkit.version": __version__,
        "envkit.mode": options.mode,
        "envkit.spec": notes.reference,
        "envkit.spec.content-hash": notes.content_hash,
        "envkit.lock.sha256": source.sha256,
        "envkit.platform": platform,
        "envkit.packages": str(len(source.lock.packages(platform))),
        "envkit.pytorch": found["pytorch"].version if "pytorch" in found else "",
        "envkit.cuda": _cuda(found) or "",
        **dict(_needs(entry)),
    }
    # A name that is no plain word stays out: a label is for people and for filters.
    plain = re.compile(rf"{_PLAIN.pattern}|[A-Za-z0-9][A-Za-z0-9:/._-]{{0,300}}")
    return {key: text for key, text in values.items() if plain.fullmatch(text)}


def _needs(entry: Entry | None) -> Iterator[tuple[str, str]]:
    if entry is None:
        return
    yield "envkit.needs.driver", entry.needs.driver or ""
    yield "envkit.needs.compute-capability", entry.needs.compute_capability or ""
    memory_bytes = entry.needs.memory_bytes
    yield "envkit.needs.memory-bytes", "" if memory_bytes is None else str(memory_bytes)


def _name(source: LockedSpec) -> str:
    named = source.spec.name.text if source.spec and source.spec.name else ""
    said = notes_of(source.lock).spec or named or Path(source.path).name.partition(".")[0]
    return re.sub(r"[^a-z0-9]+", "-", said.lower()).strip("-")[:40].strip("-") or "environment"


def _tag(version: str, mode: str) -> str:
    return f"{version}-{mode}" if _TAG.fullmatch(version) else mode


def _jupyter(found: dict[str, LockedPackage], options: ImageOptions) -> Jupyter:
    server = next((server for package, server in _SERVERS if package in found), None)
    if server is None and options.mode == "jupyter":
        message = "The lock has no Jupyter, and an image holds nothing that is not locked."
        step = "Take `notebook` or `classic`, or add jupyterlab to a spec of yours and lock it."
        raise UsageError(message, next_step=step)
    return server or "server"


def _refuse_private(source: LockedSpec, packages: tuple[LockedPackage, ...]) -> None:
    for package in packages:
        if not package.url.startswith(("https://", "http://")):
            message = f"{package.name} is locked to a file of this machine, which no build sees."
            raise RefusedError(message, next_step="Lock it from a channel: envkit lock SPEC")
        if has_credentials(package.url):
            message = f"The address of {package.name} holds a credential; images are passed on."
            step = "Lock it from an address without one; let the builder's network give access."
            raise RefusedError(message, next_step=step)
    if source.spec is not None and any(has_credentials(one.text) for one in source.spec.channels):
        message = "A channel of the spec holds a credential, and the spec goes into the image."
        raise RefusedError(message, next_step="Name the channel without it, and lock again.")

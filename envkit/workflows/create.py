"""`envkit create`: an environment from a lock, without conda, whole or not at all.

Everything is written to a hidden folder beside the prefix, with the final path written into
scripts and libraries, and renamed when the last record is there. What fails or is interrupted
leaves no prefix; what is killed leaves the hidden folder, which no tool takes for an environment.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from envkit import __version__
from envkit.errors import CannotCheckError, UsageError
from envkit.model.installed_lock import InstalledLock
from envkit.specs.installer import Installation, downloads_folder, install_packages
from envkit.specs.lock_metadata import Notes, notes_of
from envkit.specs.package_files import copy_files
from envkit.specs.prefix_records import complete_records, with_scripts, write_origin, write_state
from envkit.specs.solvers import EXTRA, has_module
from envkit.workflows.conda_platform import host_platform
from envkit.workflows.locked_spec import LockedSpec, read_locked_spec, refuse_pip_packages
from envkit.workflows.whole_folder import absolute, remove, whole_or_nothing

#: conda's packages have room for so long a path in their binaries.
LONGEST_PREFIX = 255
OnProgress = Callable[[int, int, str], None]


class CreateRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What the user asked for."""

    spec: str
    """A spec, whose lock is beside it, or a conda-lock.yml."""
    prefix: Path
    mirror: Path | None = None
    """Folder with the package files, by channel and platform."""


def create(request: CreateRequest, tell: OnProgress) -> InstalledLock:
    """Install the lock of a spec into a new prefix.

    Raises:
        UsageError: the prefix is there already or cannot be made.
        InputError: there is no lock, or it cannot be read.
        RefusedError: the lock is not that of the spec, or a file is not the locked one.
        CannotCheckError: no network, or py-rattler is not installed.

    """
    prefix = _new_prefix(request.prefix)
    source = read_locked_spec(request.spec)
    platform = host_platform()
    packages = source.lock.packages(platform)
    _refuse_other(source, platform)
    if not has_module("rattler"):
        message = "py-rattler is not installed."
        raise CannotCheckError(message, next_step=f"Install the extra: {EXTRA}.")
    with whole_or_nothing(prefix, next_step="Choose another prefix with -p.") as folder:
        asked = source.spec.dependencies if source.spec else ()
        with _scratch(prefix) as scratch:
            install_packages(_installation(source, request, folder, scratch), tell)
            complete_records(folder, packages, {one.match.name: one.text for one in asked}, scratch)
        write_state(folder, notes_of(source.lock).variables)
        origin = _origin(source, platform, len(packages), with_scripts(folder))
        write_origin(folder, source.content, origin)
    return origin


def _installation(
    source: LockedSpec, request: CreateRequest, folder: Path, scratch: Path
) -> Installation:
    platform = host_platform()
    packages = source.lock.packages(platform)
    copies = copy_files(packages, request.mirror, scratch)
    return Installation(
        packages=packages,
        platform=platform,
        folder=str(folder),
        prefix=str(absolute(request.prefix)),
        copies=copies,
        downloads=downloads_folder(),
        cache=str(scratch / "cache"),
        scratch=str(scratch),
    )


@contextmanager
def _scratch(prefix: Path) -> Iterator[Path]:
    """Give a hidden folder for package files, on the same disk, that is gone in the end."""
    folder = Path(tempfile.mkdtemp(prefix=f".{prefix.name}.envkit-files-", dir=prefix.parent))
    try:
        yield folder
    finally:
        remove(folder)


def _refuse_other(source: LockedSpec, platform: str) -> None:
    packages = source.lock.packages(platform)
    if not packages:
        locked = ", ".join(source.lock.metadata.platforms)
        message = f"{source.path} has no packages for this machine ({platform}); it has {locked}."
        raise UsageError(message, next_step=f"Add it: envkit lock SPEC --platform {platform}")
    refuse_pip_packages(source, platform)


def _origin(
    source: LockedSpec, platform: str, count: int, scripts: tuple[str, ...]
) -> InstalledLock:
    notes: Notes = notes_of(source.lock)
    return InstalledLock(
        envkit_version=__version__,
        spec=notes.spec,
        spec_version=notes.version,
        content_hash=notes.content_hash,
        platform=platform,
        packages=count,
        lock_sha256=source.sha256,
        scripts_not_run=scripts,
    )


def _new_prefix(asked: Path) -> Path:
    prefix = absolute(asked)
    if os.path.lexists(prefix) and not (prefix.is_dir() and not any(prefix.iterdir())):
        message = f"{asked} is there already."
        step = "Choose another prefix, or remove it first; envkit never changes an environment."
        raise UsageError(message, next_step=step)
    if len(str(prefix)) > LONGEST_PREFIX or " " in str(prefix):
        message = f"{asked}: conda environments need a path without spaces of at most 255 letters."
        raise UsageError(message, next_step="Choose a shorter or plainer path.")
    return prefix

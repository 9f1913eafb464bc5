"""`envkit create`: an environment from a lock, without conda, whole or not at all.

Everything is written to a hidden folder beside the prefix, with the final path written into
scripts and libraries, and renamed when the last record is there. What fails or is interrupted
leaves no prefix; what is killed leaves the hidden folder, which no tool takes for an environment.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path

import msgspec

from envkit import __version__
from envkit.errors import CannotCheckError, InputError, RefusedError, UsageError
from envkit.model.conda_lock import CondaLock
from envkit.model.environment_spec import EnvironmentSpec
from envkit.model.installed_lock import InstalledLock
from envkit.model.lock_reading import MAX_LOCK_BYTES, read_conda_lock
from envkit.specs.environment_yml import read_spec_file
from envkit.specs.installer import Installation, downloads_folder, install_packages
from envkit.specs.lock_check import why_stale
from envkit.specs.lock_metadata import Notes, notes_of
from envkit.specs.package_files import copy_files
from envkit.specs.prefix_records import complete_records, with_scripts, write_origin, write_state
from envkit.specs.resolve import is_lock_name, resolve_spec
from envkit.specs.solvers import EXTRA, has_module
from envkit.workflows.conda_platform import host_platform

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


class _Source(msgspec.Struct, frozen=True, kw_only=True):
    """The lock that is installed."""

    path: Path
    content: bytes
    lock: CondaLock
    spec: EnvironmentSpec | None


def create(request: CreateRequest, tell: OnProgress) -> InstalledLock:
    """Install the lock of a spec into a new prefix.

    Raises:
        UsageError: the prefix is there already or cannot be made.
        InputError: there is no lock, or it cannot be read.
        RefusedError: the lock is not that of the spec, or a file is not the locked one.
        CannotCheckError: no network, or py-rattler is not installed.

    """
    prefix = _new_prefix(request.prefix)
    source = _read_source(request.spec)
    platform = host_platform()
    packages = source.lock.packages(platform)
    _refuse_other(source, platform)
    if not has_module("rattler"):
        message = "py-rattler is not installed."
        raise CannotCheckError(message, next_step=f"Install the extra: {EXTRA}.")
    with _whole_or_nothing(prefix) as folder:
        asked = source.spec.dependencies if source.spec else ()
        with _scratch(prefix) as scratch:
            install_packages(_installation(source, request, folder, scratch), tell)
            complete_records(folder, packages, {one.match.name: one.text for one in asked}, scratch)
        write_state(folder, notes_of(source.lock).variables)
        origin = _origin(source, platform, len(packages), with_scripts(folder))
        write_origin(folder, source.content, origin)
    return origin


def _installation(
    source: _Source, request: CreateRequest, folder: Path, scratch: Path
) -> Installation:
    platform = host_platform()
    packages = source.lock.packages(platform)
    copies = copy_files(packages, request.mirror, scratch)
    return Installation(
        packages=packages,
        platform=platform,
        folder=str(folder),
        prefix=str(_absolute(request.prefix)),
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
        _remove(folder)


def _read_source(asked: str) -> _Source:
    path = Path(asked)
    spec = None
    if not is_lock_name(asked):
        resolved = resolve_spec(asked)
        path = resolved.lock_path
        spec = read_spec_file(resolved.path, origin=resolved.asked)
    content = _content(path, asked)
    lock = read_conda_lock(content, origin=str(path))
    if spec is not None:
        stale = why_stale(lock, spec, resolved, lock.metadata.platforms)
        if stale:
            message = f"{path} is not the lock of {asked}: {stale[0]}."
            raise RefusedError(message, next_step=f"Lock it again: envkit lock {asked}")
    return _Source(path=path, content=content, lock=lock, spec=spec)


def _content(path: Path, asked: str) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MAX_LOCK_BYTES + 1)
    except FileNotFoundError as error:
        message = f"There is no lock at {path}."
        raise InputError(message, next_step=f"Make it first: envkit lock {asked}") from error
    except OSError as error:
        message = f"{path} cannot be read: {error.strerror or error}."
        raise InputError(message, next_step="Check the path and its permissions.") from error


def _refuse_other(source: _Source, platform: str) -> None:
    packages = source.lock.packages(platform)
    if not packages:
        locked = ", ".join(source.lock.metadata.platforms)
        message = f"{source.path} has no packages for this machine ({platform}); it has {locked}."
        raise UsageError(message, next_step=f"Add it: envkit lock SPEC --platform {platform}")
    foreign = [one.name for one in packages if one.manager != "conda"]
    if foreign:
        message = f"{source.path} has packages of pip ({foreign[0]} ...), which are not installed."
        raise RefusedError(message, next_step="conda-lock install reads such locks.")


def _origin(source: _Source, platform: str, count: int, scripts: tuple[str, ...]) -> InstalledLock:
    notes: Notes = notes_of(source.lock)
    return InstalledLock(
        envkit_version=__version__,
        spec=notes.spec,
        spec_version=notes.version,
        content_hash=notes.content_hash,
        platform=platform,
        packages=count,
        lock_sha256=hashlib.sha256(source.content).hexdigest(),
        scripts_not_run=scripts,
    )


def _absolute(prefix: Path) -> Path:
    return Path(os.path.abspath(prefix))  # noqa: PTH100 (links stay: the user's path is written)


def _new_prefix(asked: Path) -> Path:
    prefix = _absolute(asked)
    if os.path.lexists(prefix) and not (prefix.is_dir() and not any(prefix.iterdir())):
        message = f"{asked} is there already."
        step = "Choose another prefix, or remove it first; envkit never changes an environment."
        raise UsageError(message, next_step=step)
    if len(str(prefix)) > LONGEST_PREFIX or " " in str(prefix):
        message = f"{asked}: conda environments need a path without spaces of at most 255 letters."
        raise UsageError(message, next_step="Choose a shorter or plainer path.")
    return prefix


@contextmanager
def _whole_or_nothing(prefix: Path) -> Iterator[Path]:
    """Give a hidden folder beside the prefix that becomes the prefix, unless anything is raised."""
    missing = _missing_parents(prefix)
    try:
        prefix.parent.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=f".{prefix.name}.envkit-", dir=prefix.parent))
    except OSError as error:
        _remove_empty(missing)
        raise _not_made(prefix, error) from error
    try:
        yield folder
        mask = os.umask(0)
        os.umask(mask)
        folder.chmod(0o777 & ~mask)
        try:
            folder.replace(prefix)  # also over an empty folder
        except OSError as error:
            raise _not_made(prefix, error) from error
    except BaseException:  # Ctrl-C too: nothing half is left
        _remove(folder)
        _remove_empty(missing)
        raise


def _missing_parents(prefix: Path) -> tuple[Path, ...]:
    """Return the folders above a prefix that are not there yet, the innermost first."""
    return tuple(takewhile(lambda folder: not os.path.lexists(folder), prefix.parents))


def _remove_empty(folders: tuple[Path, ...]) -> None:
    # One that somebody else has put something into meanwhile stays, and so do those above it.
    with contextlib.suppress(OSError):
        for folder in folders:
            if os.path.lexists(folder):
                folder.rmdir()


def _remove(folder: Path) -> None:
    # Threads of the installer may still be writing when we are interrupted.
    for _ in range(3):
        shutil.rmtree(folder, ignore_errors=True)


def _not_made(prefix: Path, error: OSError) -> UsageError:
    message = f"{prefix} cannot be made: {error.strerror or error}."
    return UsageError(message, next_step="Choose another prefix with -p.")

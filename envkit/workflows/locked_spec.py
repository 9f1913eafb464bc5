"""A spec and its lock as they are read to install from: the lock must be that of the spec."""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec

from envkit.errors import InputError, RefusedError
from envkit.model.conda_lock import CondaLock
from envkit.model.environment_spec import EnvironmentSpec
from envkit.model.lock_reading import MAX_LOCK_BYTES, read_conda_lock
from envkit.specs.environment_yml import read_spec_file
from envkit.specs.lock_check import why_stale
from envkit.specs.resolve import ResolvedSpec, is_lock_name, resolve_spec


class LockedSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A lock, and the spec that it is of."""

    path: Path
    """Of the lock."""
    content: bytes
    """Of the lock, byte for byte."""
    lock: CondaLock
    spec: EnvironmentSpec | None
    """None: the lock itself was named."""
    resolved: ResolvedSpec | None
    """Where the spec was found; None where there is no spec."""

    @property
    def sha256(self) -> str:
        """Return the SHA-256 of the bytes of the lock, as hexadecimal digits."""
        return hashlib.sha256(self.content).hexdigest()


def read_locked_spec(asked: str) -> LockedSpec:
    """Read the lock of a spec, or a lock that was named itself.

    Raises:
        UsageError: there is no such spec.
        InputError: there is no lock, or one of the two cannot be read.
        RefusedError: the lock is not that of the spec.

    """
    if is_lock_name(asked):
        content = _content(Path(asked), asked)
        lock = read_conda_lock(content, origin=asked)
        return LockedSpec(path=Path(asked), content=content, lock=lock, spec=None, resolved=None)
    resolved = resolve_spec(asked)
    path = resolved.lock_path
    spec = read_spec_file(resolved.path, origin=resolved.asked)
    content = _content(path, asked)
    lock = read_conda_lock(content, origin=str(path))
    stale = why_stale(lock, spec, resolved, lock.metadata.platforms)
    if stale:
        message = f"{path} is not the lock of {asked}: {stale[0]}."
        raise RefusedError(message, next_step=f"Lock it again: envkit lock {asked}")
    return LockedSpec(path=path, content=content, lock=lock, spec=spec, resolved=resolved)


def refuse_pip_packages(source: LockedSpec, platform: str) -> None:
    """Raise RefusedError where the lock has packages of pip, which envkit does not install."""
    foreign = [one.name for one in source.lock.packages(platform) if one.manager != "conda"]
    if foreign:
        message = f"{source.path} has packages of pip ({foreign[0]} ...), which are not installed."
        raise RefusedError(message, next_step="conda-lock install reads such locks.")


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

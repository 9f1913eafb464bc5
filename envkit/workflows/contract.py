"""What an environment is to be: the spec and the lock that were named, and the facts they give.

A spec is named by `--spec`, else by `ENVKIT_SPEC` of the environment; a lock by `--lock`, else it
is that of `--spec`, else the one that the environment was created from, else that of the spec.
What the user named and cannot be read ends the command; what the environment names and cannot be
read is an unreadable fact, so that the verdict says that it could not be checked.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from envkit.errors import EnvkitError, InputError, UsageError
from envkit.model.conda_lock import CondaLock, LockedPackage
from envkit.model.environment_spec import EnvironmentSpec
from envkit.model.facts import InstalledFrom
from envkit.model.observed import Observed, value_of
from envkit.model.report import Target
from envkit.sources.prefix_origin import nothing_said, read_activation, read_origin
from envkit.workflows.asked import Asked

if TYPE_CHECKING:
    from envkit.specs.registry import Entry

SPEC_VARIABLE: Final = "ENVKIT_SPEC"


@dataclass(frozen=True, kw_only=True)
class NamedSpec:
    """A spec that was read."""

    reference: str
    source: str
    """What named it: `--spec`, `ENVKIT_SPEC` ..."""
    spec: EnvironmentSpec
    entry: Entry | None
    lock_path: Path
    needs_gpu: bool


@dataclass(frozen=True, kw_only=True)
class NamedLock:
    """A lock that was read."""

    path: str
    source: str
    sha256: str
    lock: CondaLock | None
    """None: an explicit lock, of which there are only packages."""
    explicit: tuple[LockedPackage, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Named:
    """Everything that says what an environment is to be."""

    spec: NamedSpec | None = None
    lock: NamedLock | None = None
    origin: Observed[InstalledFrom] = field(default_factory=nothing_said)
    failures: tuple[str, ...] = ()
    """Why what the environment names could not be read."""
    strict: str = ""
    """Why it has to be the lock; empty: satisfying the spec is enough."""
    activation: Mapping[str, str] = field(default_factory=dict)
    """What activation sets."""
    is_active: bool = False

    @property
    def anything(self) -> bool:
        """Whether there is anything to judge the environment by, or should be."""
        return bool(self.spec or self.lock or self.failures)


def find_contract(asked: Asked, target: Target, environ: Mapping[str, str]) -> Named:
    """Read the spec and the lock that an environment is to be judged by.

    Raises:
        UsageError: `--strict` without anything to be strict about, or an unknown spec.
        InputError: a file that the user named cannot be read or is not what it should be.

    """
    prefix = None if target.prefix is None else Path(target.prefix)
    is_conda = prefix is not None and (prefix / "conda-meta").is_dir()
    active = _is_active(target, environ)
    activation = read_activation(prefix) if prefix is not None and is_conda else {}
    origin, own_lock = read_origin(prefix) if prefix and is_conda else (nothing_said(), None)
    failures = []
    spec = None
    try:
        spec = _spec(asked, environ if active and is_conda else {}, activation)
    except EnvkitError as error:
        if asked.spec is not None:
            raise
        failures.append(f"{SPEC_VARIABLE}: {error.message}")
    lock = None
    try:
        lock = _lock(asked, spec, own_lock)
    except EnvkitError as error:
        if asked.lock is not None or asked.spec is not None:
            raise
        failures.append(error.message)
    _refuse_unanswerable(asked, spec, lock, failures)
    return Named(
        spec=spec,
        lock=lock,
        origin=origin,
        failures=tuple(failures),
        strict=_why_strict(asked, lock, origin),
        activation=activation,
        is_active=active,
    )


def _is_active(target: Target, environ: Mapping[str, str]) -> bool:
    """Whether the variables of this process are those of the target."""
    if not target.chosen_by.startswith("--"):
        return target.kind != "venv"
    active, prefix = environ.get("CONDA_PREFIX"), target.prefix
    return bool(active and prefix) and os.path.realpath(active or "") == os.path.realpath(
        prefix or ""
    )


def _refuse_unanswerable(
    asked: Asked, spec: NamedSpec | None, lock: NamedLock | None, failures: list[str]
) -> None:
    if not asked.strict or lock is not None or failures:
        return
    if spec is None:
        message = "--strict asks for the locked environment, and nothing says which one that is."
        raise UsageError(message, next_step="Add --spec SPEC or --lock FILE.")
    message = f"--strict asks for the locked environment, and {spec.reference} has no lock."
    raise InputError(message, next_step=f"Make it first: envkit lock {spec.reference}")


def _why_strict(asked: Asked, lock: NamedLock | None, origin: Observed[InstalledFrom]) -> str:
    if lock is None:
        return ""
    if asked.lock is not None:
        return "--lock"
    if asked.strict:
        return "--strict"
    made = value_of(origin)
    same = made is not None and made.sha256 == lock.sha256
    return "the environment was created from this lock" if same else ""


def _spec(
    asked: Asked, environ: Mapping[str, str], activation: Mapping[str, str]
) -> NamedSpec | None:
    if asked.spec is not None:
        return _read_spec(asked.spec, "--spec")
    if asked.lock is not None:
        return None  # the lock alone was named
    if environ.get(SPEC_VARIABLE):
        return _read_spec(environ[SPEC_VARIABLE], SPEC_VARIABLE)
    if activation.get(SPEC_VARIABLE):
        return _read_spec(activation[SPEC_VARIABLE], f"{SPEC_VARIABLE} in conda-meta/state")
    return None


def _read_spec(text: str, source: str) -> NamedSpec:
    # Only where there is a spec: its readers take as long to load as a whole check.
    from envkit.specs.environment_yml import read_spec_file, refuse_other_file  # noqa: PLC0415
    from envkit.specs.needs import needs_gpu  # noqa: PLC0415
    from envkit.specs.resolve import resolve_spec  # noqa: PLC0415

    resolved = resolve_spec(text)
    spec = read_spec_file(resolved.path, origin=resolved.asked)
    refuse_other_file(spec)
    return NamedSpec(
        reference=resolved.reference,
        source=source,
        spec=spec,
        entry=resolved.entry,
        lock_path=resolved.lock_path,
        needs_gpu=needs_gpu(spec, resolved.entry),
    )


def _lock(asked: Asked, spec: NamedSpec | None, own_lock: bytes | None) -> NamedLock | None:
    if asked.lock is not None:
        path = Path(asked.lock)
        return read_named_lock(_content(path), str(path), "--lock")
    if own_lock is not None and asked.spec is None:
        return read_named_lock(own_lock, "conda-meta/envkit-lock.yml", "envkit create")
    if spec is None or not spec.lock_path.is_file():
        return None
    return read_named_lock(
        _content(spec.lock_path), str(spec.lock_path), f"the lock of {spec.reference}"
    )


def read_named_lock(content: bytes, path: str, source: str) -> NamedLock:
    """Read a conda-lock.yml or an explicit lock.

    Raises:
        InputError: it is neither.

    """
    from envkit.model.explicit_lock import is_explicit_lock, read_explicit_lock  # noqa: PLC0415
    from envkit.model.lock_reading import read_conda_lock  # noqa: PLC0415

    digest = hashlib.sha256(content).hexdigest()
    if is_explicit_lock(content):
        packages = read_explicit_lock(content, origin=path)
        return NamedLock(path=path, source=source, sha256=digest, lock=None, explicit=packages)
    lock = read_conda_lock(content, origin=path)
    return NamedLock(path=path, source=source, sha256=digest, lock=lock)


def _content(path: Path) -> bytes:
    from envkit.model.lock_reading import MAX_LOCK_BYTES  # noqa: PLC0415

    try:
        with path.open("rb") as file:
            return file.read(MAX_LOCK_BYTES + 1)
    except (OSError, ValueError) as error:
        said = (error.strerror if isinstance(error, OSError) else None) or str(error)
        message = f"The lock {path} cannot be read: {said}."
        raise InputError(message, next_step="Check the path given to --lock.") from error

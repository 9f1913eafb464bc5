"""The registry of a folder of specs: `envkit.toml`, one table for each spec.

A folder `archive/NAME/VERSION` beside it holds a published version: the spec, its lock and a
registry of its own with one table, so that an old version is read by the same code.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from envkit.errors import InputError
from envkit.model.conda_version import parse_conda_version
from envkit.model.versions import parse_capability, parse_driver
from envkit.specs.toml_file import read_toml

REGISTRY_FILE: Final = "envkit.toml"
REGISTRY_SCHEMA: Final = "envkit.registry/1"
ARCHIVE: Final = "archive"
_NAME: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_VERSION: Final = re.compile(r"(0|[1-9]\d{0,5})\.(0|[1-9]\d{0,5})\.(0|[1-9]\d{0,5})")
_HASH: Final = re.compile(r"sha256:[0-9a-f]{64}")
_VIRTUAL: Final = frozenset(
    {"__cuda", "__glibc", "__archspec", "__linux", "__unix", "__osx", "__win"}
)


class Needs(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The least machine that a spec can run on; None: it needs none."""

    gpu: bool
    driver: str | None = None
    """Minimum NVIDIA driver on Linux."""
    compute_capability: str | None = None
    """The oldest GPU that both the build's code and its cuDNN support."""
    memory_bytes: int | None = None
    """GPU memory below which the purpose makes no sense: arithmetic, not a measurement."""
    memory_reason: str = ""
    """The arithmetic."""


class Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One spec of a registry."""

    version: str
    """Semantic: docs/reference/environments.md says what each number promises."""
    content_hash: str
    """Of the spec file in this version; see `envkit.specs.content_hash`."""
    purpose: str
    platforms: tuple[str, ...]
    """conda platforms that are locked."""
    needs: Needs
    virtual_packages: Mapping[str, str]
    """What the solver is told about the machine: `__cuda`, `__glibc`, `__archspec` ..."""
    measured: Literal["none"] | tuple[str, ...]
    """Names of reports under baselines/ that this version was measured with."""
    note: str = ""
    """Where the stack is not the one first wanted, and why."""


class Registry(msgspec.Struct, frozen=True, kw_only=True):
    """All specs of a folder."""

    folder: Path
    specs: Mapping[str, Entry]

    def spec_path(self, name: str) -> Path:
        """Return where the spec of this name is."""
        return self.folder / f"{name}.yml"

    def lock_path(self, name: str) -> Path:
        """Return where the lock of the spec of this name is, or will be."""
        return self.folder / f"{name}.conda-lock.yml"

    def archived(self, name: str, version: str) -> Path:
        """Return the folder of a published version, whether it is there or not."""
        return self.folder / ARCHIVE / name / version

    def versions(self, name: str) -> tuple[str, ...]:
        """Return the published versions of a spec, oldest first."""
        found = (self.folder / ARCHIVE / name).glob(f"*/{REGISTRY_FILE}")
        names = [path.parent.name for path in found if _VERSION.fullmatch(path.parent.name)]
        return tuple(sorted(names, key=version_key))


def version_key(version: str) -> tuple[int, int, int]:
    """Return the numbers of a semantic version; raises ValueError if it is none."""
    found = _VERSION.fullmatch(version)
    if found is None:
        message = f"{version[:40]!r} is not a version such as 1.0.0"
        raise ValueError(message)
    return int(found[1]), int(found[2]), int(found[3])


def is_registry(folder: Path) -> bool:
    """Say whether a folder has a registry; a configuration of the same name is none."""
    path = folder / REGISTRY_FILE
    if not path.is_file():
        return False
    try:
        return _read(path).get("schema") == REGISTRY_SCHEMA
    except InputError:
        return False


def read_registry(folder: Path) -> Registry:
    """Read the registry of a folder.

    Raises:
        InputError: it is not there, is no TOML, or a table is not what an entry holds.

    """
    path = folder / REGISTRY_FILE
    table = _read(path)
    if table.get("schema") != REGISTRY_SCHEMA:
        raise _wrong(path, f'`schema` is not "{REGISTRY_SCHEMA}"')
    tables = table.get("spec", {})
    if not isinstance(tables, dict):
        raise _wrong(path, "`spec` is not a table of tables")
    return Registry(
        folder=folder, specs={name: _entry(path, name, one) for name, one in tables.items()}
    )


def _entry(path: Path, name: str, table: Any) -> Entry:
    try:
        entry = msgspec.convert(table, Entry)
        _check(name, entry)
    except (msgspec.ValidationError, ValueError) as error:
        raise _wrong(path, f"spec.{name[:60]}: {error}") from error
    return entry


def _read(path: Path) -> dict[str, Any]:
    try:
        return read_toml(path)
    except ValueError as error:
        raise _wrong(path, str(error)) from error


def _check(name: str, entry: Entry) -> None:
    if not _NAME.fullmatch(name):
        message = "names are small letters, digits and hyphens"
        raise ValueError(message)
    version_key(entry.version)
    if not _HASH.fullmatch(entry.content_hash):
        message = f"content_hash: {entry.content_hash[:80]!r} is not sha256:..."
        raise ValueError(message)
    unknown = set(entry.virtual_packages) - _VIRTUAL
    if unknown or not entry.platforms:
        message = f"no platform, or unknown virtual packages {sorted(unknown)}"
        raise ValueError(message)
    _check_needs(entry)


def _check_needs(entry: Entry) -> None:
    if (entry.needs.memory_bytes is None) == bool(entry.needs.memory_reason):
        message = "memory_bytes and memory_reason come together"
        raise ValueError(message)
    if entry.needs.driver is not None:
        parse_driver(entry.needs.driver)
    if entry.needs.compute_capability is not None:
        parse_capability(entry.needs.compute_capability)
    for package in ("__cuda", "__glibc"):
        if package in entry.virtual_packages:
            parse_conda_version(entry.virtual_packages[package])
    if entry.needs.gpu and "__cuda" not in entry.virtual_packages:
        message = "a spec that needs a GPU needs `__cuda` in virtual_packages"
        raise ValueError(message)


def _wrong(path: Path, reason: str) -> InputError:
    return InputError(
        f"The registry {path.parent.name}/{path.name} is wrong: {reason}.",
        next_step="docs/reference/environments.md says what a table holds.",
    )

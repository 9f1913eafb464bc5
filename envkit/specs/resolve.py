"""What SPEC on the command line means: a path, or a name of the registry."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from envkit.errors import InputError, UsageError
from envkit.specs import folders
from envkit.specs.registry import REGISTRY_FILE, Entry, Registry, is_registry, read_registry

_REFERENCE: Final = re.compile(r"(?P<name>[a-z0-9][a-z0-9\-]*)(?:@(?P<version>[^@/\\]*))?")


class ResolvedSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A spec that was found."""

    asked: str
    """As the user wrote it: what messages call it."""
    path: Path
    lock_path: Path
    """Where its lock is or will be; not looked at."""
    name: str | None = None
    """Its name in the registry; None: it is in none."""
    entry: Entry | None = None
    registry: Registry | None = None

    @property
    def reference(self) -> str:
        """Return `vit@1.0.0`, or the path for a spec of no registry."""
        return f"{self.name}@{self.entry.version}" if self.entry else self.asked


def resolve_spec(asked: str, *, registry: Registry | None = None) -> ResolvedSpec:
    """Find a spec.

    Args:
        asked: a path, `vit` or `vit@1.0.0`. A text with a slash or the ending .yml is a path, and
            so is one that names a file here; of a name without version the present one is meant.
        registry: where to look for names; by default the one that comes with envkit.

    Raises:
        UsageError: there is no such name or version; the message has the nearest ones.
        InputError: the path is no file, or the registry cannot be read.

    """
    path = Path(asked)
    found = _REFERENCE.fullmatch(asked)
    if found is None or asked.endswith((".yml", ".yaml")) or _is_file(path):
        return _from_path(path, asked)
    shipped = registry or read_registry(folders.environments())
    name, version = found["name"], found["version"]
    if name not in shipped.specs:
        raise _not_registered(name, list(shipped.specs))
    if version is None or version == shipped.specs[name].version:
        return _registered(shipped, name, asked)
    if version not in shipped.versions(name):
        versions = dict.fromkeys((*shipped.versions(name), shipped.specs[name].version))
        raise _not_registered(asked, [f"{name}@{one}" for one in versions])
    return _registered(read_registry(shipped.archived(name, version)), name, asked)


def files_of(asked: Iterable[str]) -> Iterator[Path]:
    """Yield every file that SPECs stand for: specs, their locks there or to be, registries.

    What cannot be found is left out: whoever reads it says so.
    """
    for one in asked:
        beside = spec_beside(Path(one)) if is_lock_name(one) else None
        yield Path(one)
        try:
            found = resolve_spec(one if beside is None else str(beside))
        except (InputError, UsageError):
            continue
        yield from (found.path, found.lock_path)
        if found.registry is not None:
            yield found.registry.folder / REGISTRY_FILE


def is_lock_name(path: str) -> bool:
    """Say whether a path is named as locks are: they match the `*.yml` of a folder of specs too."""
    return path.endswith(("conda-lock.yml", "conda-lock.yaml"))


def lock_beside(spec: Path) -> Path:
    """Return where the lock of a spec file is: `conda-lock.yml`, or `NAME.conda-lock.yml`."""
    if spec.stem == "environment":
        return spec.with_name("conda-lock.yml")
    return spec.with_name(f"{spec.stem}.conda-lock.yml")


def spec_beside(lock: Path) -> Path | None:
    """Return the spec file that a lock beside it is of, the other way round; None: not there."""
    stem = lock.name.removesuffix(lock.suffix).removesuffix("conda-lock").rstrip(".")
    names = (f"{stem or 'environment'}{ending}" for ending in (".yml", ".yaml"))
    found = (lock.with_name(name) for name in names)
    return next((path for path in found if _is_file(path)), None)


def _registered(registry: Registry, name: str, asked: str) -> ResolvedSpec:
    if name not in registry.specs:
        message = f"{registry.folder.name}: the registry does not have {name!r}"
        raise InputError(message, next_step="Install envkit again, or restore the folder.")
    return ResolvedSpec(
        asked=asked,
        path=registry.spec_path(name),
        lock_path=registry.lock_path(name),
        name=name,
        entry=registry.specs[name],
        registry=registry,
    )


def _from_path(path: Path, asked: str) -> ResolvedSpec:
    if not _is_file(path):
        message = f"{asked[:200]} is no file."
        step = "Give the path of an environment.yml, or a name such as vit or vit@1.0.0."
        raise InputError(message, next_step=step)
    if is_registry(path.parent):
        registry = read_registry(path.parent)
        if path.stem in registry.specs and path.suffix == ".yml":
            return _registered(registry, path.stem, asked)
    return ResolvedSpec(asked=asked, path=path, lock_path=lock_beside(path))


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a name longer than any file's
        return False


def _not_registered(asked: str, known: list[str]) -> UsageError:
    near = difflib.get_close_matches(asked, known, n=3, cutoff=0.5)
    hint = f" Did you mean {' or '.join(near)}?" if near else ""
    step = f"There are {', '.join(sorted(set(known)))}; a path works too."
    return UsageError(f"The registry has no spec {asked[:80]!r}.{hint}", next_step=step)

"""The records of a new environment: completed from the packages, then signed with its lock.

A lock has name, version, hashes and address of a package; conda's own records also have licence,
constraints and builds of dependencies, which stand in the package itself.
"""

from __future__ import annotations

import json
import os
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from envkit.errors import RefusedError
from envkit.model import codec
from envkit.model.conda_lock import LockedPackage
from envkit.model.installed_lock import INSTALLED_FILE, LOCK_FILE, InstalledLock

_MODE: Final = 0o644
#: Taken from the package's own index; the rest of a record is the lock's or the installer's.
_FROM_PACKAGE: Final = (
    "build_number",
    "constrains",
    "depends",
    "features",
    "license",
    "license_family",
    "noarch",
    "python_site_packages_path",
    "timestamp",
    "track_features",
)


def complete_records(
    folder: Path,
    packages: tuple[LockedPackage, ...],
    requested: Mapping[str, str],
    scratch: Path,
) -> None:
    """Complete the record of each package, and note the address that the lock has for it.

    Args:
        folder: the environment.
        packages: what was installed.
        requested: dependencies of the spec by name: recorded as asked for by the user.
        scratch: what is in it is gone later, and not named in a record.

    Raises:
        RefusedError: not every package has a record, or one is of another package.

    """
    written: set[Path] = set()
    for package in packages:
        stem = f"{package.name}-{package.version}-{package.build_string}"
        path = folder / "conda-meta" / f"{stem}.json"
        if path.is_symlink() or not path.is_file():
            reason = f"{package.name} has no record"
            raise _partial(reason)
        record = json.loads(path.read_bytes())
        _complete(record, package)
        _forget(record, scratch)
        if package.name in requested:
            record["requested_spec"] = requested[package.name]
            record["requested_specs"] = [requested[package.name]]
        # With a mode for others too, who may use the environment; py-rattler's is for one.
        _write(path, (json.dumps(record, indent=2, ensure_ascii=False) + "\n").encode())
        written.add(path)
    extra = sorted(set((folder / "conda-meta").glob("*.json")) - written)
    if extra:
        reason = f"{extra[0].name} is not in the lock"
        raise _partial(reason)


def write_state(folder: Path, variables: Mapping[str, str]) -> None:
    """Write the variables of the spec where `conda activate` finds them."""
    if variables:
        state = {"version": 1, "env_vars": dict(sorted(variables.items()))}
        _write(folder / "conda-meta" / "state", json.dumps(state).encode())


def write_origin(folder: Path, lock: bytes, origin: InstalledLock) -> None:
    """Write which lock the environment was made from; the last thing that is written."""
    _write(folder / "conda-meta" / LOCK_FILE, lock)
    _write(folder / "conda-meta" / INSTALLED_FILE, codec.encode(origin))


def with_scripts(folder: Path) -> tuple[str, ...]:
    """Return the packages with a script that conda would run after linking."""
    found = [*folder.glob("bin/.*-post-link.sh"), *folder.glob("Scripts/.*-post-link.bat")]
    return tuple(sorted(path.name[1:].rpartition("-post-link")[0] for path in found))


def _write(path: Path, content: bytes) -> None:
    """Put a file in its place, whatever a package may have put there: no link is followed."""
    if not stat.S_ISDIR(path.parent.lstat().st_mode):
        reason = f"{path.parent.name} is not a folder"
        raise _partial(reason)
    number, made = tempfile.mkstemp(prefix=".envkit-", dir=path.parent)
    with os.fdopen(number, "wb") as file:
        file.write(content)
    written = Path(made)
    written.chmod(_MODE)
    if path.is_dir() and not path.is_symlink():
        reason = f"{path.name} is a folder"
        raise _partial(reason)
    written.replace(path)


def _forget(record: dict[str, Any], scratch: Path) -> None:
    link = record.get("link")
    for holder, key in ((record, "extracted_package_dir"), (link, "source")):
        if isinstance(holder, dict) and str(holder.get(key)).startswith(str(scratch)):
            holder[key] = ""


def _complete(record: dict[str, Any], package: LockedPackage) -> None:
    own = _index(Path(record.get("extracted_package_dir") or "") / "info" / "index.json")
    if (own.get("name"), own.get("version"), own.get("build")) != (
        package.name,
        package.version,
        package.build_string,
    ):
        reason = f"the file of {package.name} holds another package"
        raise _partial(reason)
    record.update({key: own[key] for key in _FROM_PACKAGE if own.get(key) is not None})
    record["url"] = package.url
    record["channel"] = f"{package.channel_url}/"
    record["fn"] = package.file_name


def _index(path: Path) -> dict[str, Any]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except (OSError, msgspec.MsgspecError) as error:
        message = f"{path.parent.parent.name} cannot be read after it was installed"
        raise _partial(message) from error


def _partial(reason: str) -> RefusedError:
    step = "Nothing was left behind. Try again; if it stays so, lock again: envkit lock SPEC."
    return RefusedError(f"The environment would not be the locked one: {reason}.", next_step=step)

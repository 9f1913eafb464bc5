"""Package files on this machine: where they are, and whether their hashes are those of the lock.

py-rattler checks what it downloads; a file that it is given on disk it takes as it is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from envkit.errors import CannotCheckError, RefusedError
from envkit.model.conda_lock import LockedPackage
from envkit.specs.solver.channels import folder_of, mirrored

_CHUNK_BYTES: Final = 1 << 20
_ORDER: Final = ("sha256", "md5")


def local_file(package: LockedPackage, mirror: Path | None) -> Path | None:
    """Return where the file of a package is on this machine; None: it is to be downloaded."""
    if package.url.startswith("file://"):
        return folder_of(package.url)
    return None if mirror is None else mirrored(package.url, mirror)


def check_files(packages: Iterable[LockedPackage], mirror: Path | None) -> None:
    """Compare the files that are on this machine with the hashes of the lock.

    Raises:
        RefusedError: the hash of a file is another one.
        CannotCheckError: a file is missing or cannot be read.

    """
    for package in packages:
        path = local_file(package, mirror)
        if path is not None:
            _check(package, path)


def _check(package: LockedPackage, path: Path) -> None:
    kind = next(kind for kind in _ORDER if getattr(package.hash, kind) is not None)
    wanted = getattr(package.hash, kind)
    try:
        found = _digest(path, kind)
    except OSError as error:
        message = f"{path} cannot be read: {error.strerror or error}."
        step = "Complete the mirror, or leave --mirror out to download the packages."
        raise CannotCheckError(message, next_step=step) from error
    if found != wanted:
        message = f"{path.name} is not the file that was locked: {kind} {found}, not {wanted}."
        step = "Get the file again. If it is the right one, the lock is wrong: envkit lock SPEC."
        raise RefusedError(message, next_step=step)


def _digest(path: Path, kind: str) -> str:
    digest = hashlib.new(kind, usedforsecurity=False)
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()

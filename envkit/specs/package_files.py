"""Package files on this machine: where they are, and whether their hashes are those of the lock.

py-rattler takes a file that it is given on disk as it is.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO, Final

from envkit.errors import CannotCheckError, RefusedError
from envkit.model.conda_lock import LockedPackage
from envkit.specs.solver.channels import folder_of, mirrored

#: Far above the largest package of conda-forge; an endless file ends here.
MAX_PACKAGE_BYTES: Final = 16 << 30
CHUNK_BYTES: Final = 1 << 20
_ORDER: Final = ("sha256", "md5")


def local_file(package: LockedPackage, mirror: Path | None) -> Path | None:
    """Return where the file of a package is on this machine; None: it is to be downloaded."""
    if package.url.startswith("file://"):
        return folder_of(package.url)
    return None if mirror is None else mirrored(package.url, mirror)


def copy_files(
    packages: Iterable[LockedPackage], mirror: Path | None, folder: Path
) -> dict[str, str]:
    """Copy the files that are on this machine, and compare each copy with the hash of the lock.

    What is installed are these copies: a file that is changed after it was looked at is not.

    Args:
        packages: those of the lock.
        mirror: where their files are, by channel and platform.
        folder: where to write them; of this run alone.

    Returns:
        The path of the copy by the address of the package; of those to be downloaded none.

    Raises:
        RefusedError: the hash of a file is another one, or it is no plain file.
        CannotCheckError: a file is missing or cannot be read.

    """
    copies: dict[str, str] = {}
    for number, package in enumerate(packages):
        path = local_file(package, mirror)
        if path is not None:
            copy = folder / str(number) / package.file_name
            _copy_checked(package, path, copy)
            copies[package.url] = str(copy)
    return copies


def hash_of(package: LockedPackage) -> tuple[str, str]:
    """Return the hash that a package file must have: its kind, its digits."""
    kind = next(kind for kind in _ORDER if getattr(package.hash, kind) is not None)
    return kind, getattr(package.hash, kind)


def _copy_checked(package: LockedPackage, path: Path, copy: Path) -> None:
    kind, wanted = hash_of(package)
    try:
        copy.parent.mkdir()
        with _opened(path) as source, copy.open("xb") as target:
            found = _copy(source, target, kind, path)
    except OSError as error:
        message = f"{path} cannot be read: {error.strerror or error}."
        step = "Complete the mirror, or leave --mirror out to download the packages."
        raise CannotCheckError(message, next_step=step) from error
    if found != wanted:
        message = f"{path.name} is not the file that was locked: {kind} {found}, not {wanted}."
        step = "Get the file again. If it is the right one, the lock is wrong: envkit lock SPEC."
        raise RefusedError(message, next_step=step)


def _opened(path: Path) -> BinaryIO:
    """Open a plain file, without waiting for the other end where it is a pipe."""
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
    number = os.open(path, flags | getattr(os, "O_BINARY", 0))
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise _not_a_package(path, "is not a plain file")
    return os.fdopen(number, "rb")


def _copy(source: BinaryIO, target: BinaryIO, kind: str, path: Path) -> str:
    digest = hashlib.new(kind, usedforsecurity=False)
    left_bytes = MAX_PACKAGE_BYTES
    while chunk := source.read(CHUNK_BYTES):
        left_bytes -= len(chunk)
        if left_bytes < 0:
            raise _not_a_package(path, f"has more than {MAX_PACKAGE_BYTES >> 30} GiB")
        digest.update(chunk)
        target.write(chunk)
    return digest.hexdigest()


def _not_a_package(path: Path, why: str) -> RefusedError:
    message = f"{path} {why}, and so not the file that was locked."
    return RefusedError(message, next_step="Put the package file in its place in the mirror.")

"""Getting the package files of a lock from their channels: hashed as they come, bounded in size.

They are kept by their SHA-256 for the next time, and hashed again when they are taken from there.
py-rattler's own cache is not used: it holds packages unpacked, and nobody has looked through those.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import BinaryIO, Final, Literal, TypeAlias

import rattler
from rattler.package_streaming import download_to_writer

from envkit.model.conda_lock import LockedPackage
from envkit.specs.package_files import CHUNK_BYTES, MAX_PACKAGE_BYTES, hash_of

#: Told of each package before it is fetched: number of those that are here, name.
Tell: TypeAlias = Callable[[int, str], None]
_AT_ONCE: Final = 8
_SHOWN_CHARS: Final = 600


class DownloadError(Exception):
    """A package file that could not be had, and which kind of failure that is."""

    def __init__(self, message: str, how: Literal["other_hash", "no_network", "failed"]) -> None:
        super().__init__(message[:_SHOWN_CHARS])
        self.how = how


async def download(
    packages: Iterable[LockedPackage], folder: Path, kept: Path, tell: Tell
) -> dict[str, str]:
    """Fetch package files into a folder of this run.

    Returns:
        The path of each by the address of its package.

    Raises:
        DownloadError: the first that could not be had, or is another file than the locked one.

    """
    client = rattler.Client.default_client()
    free = asyncio.Semaphore(_AT_ONCE)
    copies: dict[str, str] = {}

    async def fetch(package: LockedPackage, target: Path) -> None:
        async with free:
            tell(len(copies), package.name)
            place = kept / (package.hash.sha256 or "")
            if not (package.hash.sha256 and _take(place, target, package.hash.sha256)):
                await _fetch(client, package, target)
                if package.hash.sha256:
                    _keep(target, place)
            copies[package.url] = str(target)

    await asyncio.gather(*(fetch(*one) for one in _places(packages, folder)))
    return copies


def _places(packages: Iterable[LockedPackage], folder: Path) -> list[tuple[LockedPackage, Path]]:
    """Make a folder for each package: two may have files of one name."""
    places = [(one, folder / f"{number}" / one.file_name) for number, one in enumerate(packages)]
    for _, place in places:
        place.parent.mkdir(parents=True)
    return places


async def _fetch(client: rattler.Client, package: LockedPackage, target: Path) -> None:
    kind, wanted = hash_of(package)
    with target.open("wb") as file:
        writer = _Writer(file, kind)
        try:
            await download_to_writer(client, package.url, writer)
        except (RuntimeError, OSError, ValueError) as error:
            if writer.left_bytes < 0:
                reason = f"{package.file_name} has more than {MAX_PACKAGE_BYTES >> 30} GiB"
                raise DownloadError(reason, "other_hash") from error
            if writer.failure is not None:
                raise DownloadError(str(writer.failure), "failed") from error
            reason = f"{package.file_name}: {error}"
            raise DownloadError(reason, "no_network") from error
    found = writer.digest.hexdigest()
    if found != wanted:
        reason = f"{package.file_name}: {kind} {found}, not {wanted}"
        raise DownloadError(reason, "other_hash")


class _Writer:
    """Writes what py-rattler fetches, and hashes it on the way."""

    def __init__(self, file: BinaryIO, kind: str) -> None:
        self._file = file
        self.digest = hashlib.new(kind, usedforsecurity=False)
        self.left_bytes = MAX_PACKAGE_BYTES
        self.failure: OSError | None = None

    def write(self, content: bytes) -> int:
        """Take the next piece; raises where there are too many of them."""
        self.left_bytes -= len(content)
        if self.left_bytes < 0:
            message = "too large"
            raise ValueError(message)
        self.digest.update(content)
        try:
            return self._file.write(content)
        except OSError as error:
            self.failure = error
            raise


def _take(place: Path, target: Path, wanted: str) -> bool:
    """Copy a file that was kept, if it still is the one that was locked."""
    digest = hashlib.sha256()
    try:
        with place.open("rb") as source, target.open("wb") as copy:
            while chunk := source.read(CHUNK_BYTES):
                digest.update(chunk)
                copy.write(chunk)
    except OSError:
        return False
    if digest.hexdigest() == wanted:
        return True
    with contextlib.suppress(OSError):
        place.unlink()
    return False


def _keep(file: Path, place: Path) -> None:
    """Keep a file for the next time, whole or not at all; without room or rights not."""
    half = place.with_name(f"{place.name}.{os.getpid()}")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, half)
        half.replace(place)
    except OSError:
        with contextlib.suppress(OSError):
            half.unlink()

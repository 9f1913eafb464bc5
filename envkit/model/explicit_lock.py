"""Explicit locks: a text file of package addresses behind `@EXPLICIT`, for one platform.

`conda create --file`, `conda list --explicit` and `conda-lock render` write and read them. A hash
follows `#`: an MD5, or `sha256:` and a SHA-256.
"""

from __future__ import annotations

import re
from typing import Final

from envkit.errors import InputError
from envkit.model.conda_lock import PACKAGE_FILE, LockedPackage, PackageHash
from envkit.model.invalid_file import invalid
from envkit.model.lock_reading import MAX_LOCK_BYTES, MAX_PACKAGES

_MARK: Final = "@EXPLICIT"
_PLATFORM: Final = re.compile(r"#\s*platform:\s*(?P<platform>[a-z]+-[a-z0-9]+)\s*")
_ENTRY: Final = re.compile(
    r"(?P<url>[a-z]+://\S+?)(?:#(?:(?P<md5>[0-9a-f]{32})|sha256:(?P<sha256>[0-9a-f]{64})))?"
)
_SCHEMES: Final = frozenset({"https", "http", "file"})


def is_explicit_lock(content: bytes) -> bool:
    """Say whether this is the text of an explicit lock: the mark stands on a line of its own."""
    return re.search(rb"(?m)^@EXPLICIT[ \t]*\r?$", content[:65536]) is not None


def read_explicit_lock(
    content: bytes, *, origin: str, platform: str = ""
) -> tuple[LockedPackage, ...]:
    """Read an explicit lock; dependencies are not in it, and a hash only where it was written.

    Args:
        content: the bytes of the file.
        origin: what to call the file in messages.
        platform: platform of the packages where the file does not say it (`# platform: linux-64`).

    Raises:
        InputError: too large, no `@EXPLICIT`, or a line that is no package; with the line.

    """
    if len(content) > MAX_LOCK_BYTES:
        raise invalid(origin, None, f"{len(content)} bytes are more than {MAX_LOCK_BYTES}")
    try:
        lines = content.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise invalid(origin, None, f"it is not UTF-8: {error.reason}") from error
    said = next((found["platform"] for line in lines if (found := _PLATFORM.fullmatch(line))), "")
    entries = [(n, line.strip()) for n, line in enumerate(lines, 1) if _is_entry(line)]
    if not any(line == _MARK for _, line in entries):
        raise invalid(origin, None, f"there is no line {_MARK}")
    return _packages([entry for entry in entries if entry[1] != _MARK], origin, said or platform)


def _is_entry(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("#")


def _packages(
    entries: list[tuple[int, str]], origin: str, platform: str
) -> tuple[LockedPackage, ...]:
    if len(entries) > MAX_PACKAGES:
        raise invalid(origin, None, f"more than {MAX_PACKAGES} packages")
    packages: list[LockedPackage] = []
    seen: set[str] = set()
    for number, line in entries:
        package = _package(line, origin, number, platform)
        if package.name in seen:
            raise invalid(origin, number, f"{package.name[:60]!r} stands twice")
        seen.add(package.name)
        packages.append(package)
    return tuple(packages)


def _package(line: str, origin: str, number: int, platform: str) -> LockedPackage:
    entry = _ENTRY.fullmatch(line)
    if entry is None or entry["url"].partition("://")[0] not in _SCHEMES or not line.isprintable():
        raise _no_package(line, origin, number)
    file = PACKAGE_FILE.fullmatch(entry["url"].rpartition("/")[2])
    if file is None:
        raise _no_package(line, origin, number)
    subdir = entry["url"].rpartition("/")[0].rpartition("/")[2]
    return LockedPackage(
        name=file["name"],
        version=file["version"],
        build=file["build"],
        manager="conda",
        platform=subdir if subdir != "noarch" else platform or subdir,
        url=entry["url"],
        hash=PackageHash(md5=entry["md5"], sha256=entry["sha256"]),
    )


def _no_package(line: str, origin: str, number: int) -> InputError:
    return invalid(origin, number, f"{line[:80]!r} is not the address of a conda package")

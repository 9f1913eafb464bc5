"""What a package file would write, before any of it is: its own list of paths, and its archive.

py-rattler links what `info/paths.json` names without asking whether it stays in the environment.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import msgspec
from rattler.package_streaming import ArchiveEntry, PackageArchive

_LISTS: Final = ("info/paths.json", "info/files", "info/link.json")
_LONGEST_BYTES: Final = 256 << 20
#: Of conda and of envkit, and the records of packages.
_OURS: Final = re.compile(r"conda-meta(/(envkit-.*|state|pinned|history|[^/]*\.json))?")
_DRIVE: Final = re.compile(r"[A-Za-z]:")
#: Where packages of Python alone and others have the same folder.
_SITE: Final = re.compile(r"lib/python[\d.]+t?/site-packages/")
_ENTRY_POINT: Final = re.compile(r"\s*[\w.+\- ]+?\s*=.*", re.DOTALL)
_SHOWN_CHARS: Final = 100


class UnsafePackageError(ValueError):
    """A package would write where it must not."""


class _Listed(msgspec.Struct, frozen=True):
    path: str = msgspec.field(name="_path")


class _Paths(msgspec.Struct, frozen=True):
    paths: tuple[_Listed, ...]


class _Contents(msgspec.Struct):
    """What one archive holds."""

    paths: set[str]
    """Of its files, as they are called in the environment."""
    others: set[str]
    """Of its folders and whatever else is no file."""
    links: dict[str, str]
    """Symbolic links and what they lead to."""
    lists: dict[str, bytes]


async def check_archives(files: Iterable[Path]) -> None:
    """Refuse packages of which a path leaves the environment or is one of the environment's own.

    Raises:
        UnsafePackageError: the first that is found, with the reason.

    """
    paths: set[str] = set()
    links: dict[str, str] = {}
    for file in files:
        contents = await _read(file)
        named = contents.paths | {_plain(path) for path in _listed(contents, file.name)}
        for path in named:
            _check_path(path, file.name)
        for path in contents.paths | contents.others:
            if _parent_link(path, contents.links):
                raise _unsafe(file.name, path, "is behind a link")
        paths |= {_SITE.sub("site-packages/", path) for path in named}
        links |= {_SITE.sub("site-packages/", at): to for at, to in contents.links.items()}
    _check_links(paths, links)


def _check_links(paths: set[str], links: dict[str, str]) -> None:
    """Refuse files behind links of other packages, if any link leads out of the environment."""
    through = next((path for path in paths if _parent_link(path, links)), None)
    if through is not None and any(_leads_out(at, to, links) for at, to in links.items()):
        reason = f"{through[:_SHOWN_CHARS]!r} is behind links that lead out of it"
        raise UnsafePackageError(reason)


async def _read(file: Path) -> _Contents:
    archive = await PackageArchive.from_path(file)
    found = _Contents(paths=set(), others=set(), links={}, lists={})
    for section in ("info", "pkg"):
        async for entry in archive.stream(section):
            name = _plain(entry.name)
            if name.lower() in _LISTS:
                found.lists[name] = await _list(entry, section, file.name)
            if not (entry.is_file or entry.is_link):
                found.others.add(name)
                continue
            if name in found.paths:
                raise _unsafe(file.name, name, "is in it twice")
            found.paths.add(name)
            if entry.is_symlink:
                found.links[name] = entry.link_target or ""
    return found


async def _list(entry: ArchiveEntry, section: str, package: str) -> bytes:
    name = _plain(entry.name)
    if not entry.is_file or section != "info" or name not in _LISTS:
        raise _unsafe(package, name, "is not a plain file of its own")
    if entry.size > _LONGEST_BYTES:
        raise _unsafe(package, name, "is too large")
    return await entry.read()


def _plain(path: str) -> str:
    """Return a path without what changes nothing in it; the first slash stays."""
    plain = "/".join(part for part in path.split("/") if part not in {"", "."})
    return f"/{plain}" if path.startswith("/") else plain


def _listed(contents: _Contents, package: str) -> list[str]:
    try:
        return _decoded(contents.lists)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        reason = f"{package}: its list of files cannot be read"
        raise UnsafePackageError(reason) from error


def _decoded(lists: dict[str, bytes]) -> list[str]:
    named = lists.get("info/files", b"").decode().splitlines()
    found = [line for line in named if line.strip()]
    if "info/paths.json" in lists:
        decoded = msgspec.json.decode(lists["info/paths.json"], type=_Paths)
        found += [one.path for one in decoded.paths]
    link: Any = msgspec.json.decode(lists.get("info/link.json", b"{}"))
    noarch = link.get("noarch") if isinstance(link, dict) else None
    points = noarch.get("entry_points") if isinstance(noarch, dict) else None
    for point in points or ():
        if not _ENTRY_POINT.fullmatch(str(point)):
            found.append(f"../{point}")  # a script with a slash in its name
    return found


def _check_path(path: str, package: str) -> None:
    parts = path.split("/")
    if path.startswith("/") or ".." in parts or "\\" in path or _DRIVE.match(path):
        raise _unsafe(package, path, "leaves the environment")
    if not path.isprintable() or not path:
        raise _unsafe(package, path, "is not a path")
    if _OURS.fullmatch(path.lower()):
        raise _unsafe(package, path, "is the environment's own")


def _parent_link(path: str, links: dict[str, str]) -> bool:
    at = path.rpartition("/")[0]
    while at:
        if at in links:
            return True
        at = at.rpartition("/")[0]
    return False


def _leads_out(at: str, to: str, links: dict[str, str]) -> bool:
    """Say whether a link leads out of the environment, or may: then it climbs after a name."""
    parts = [part for part in to.split("/") if part not in {"", "."}]
    up = 0
    while up < len(parts) and parts[up] == "..":
        up += 1
    climbs = up > at.count("/") or ".." in parts[up:]
    return to.startswith("/") or climbs or (up > 0 and _parent_link(at, links))


def _unsafe(package: str, path: str, why: str) -> UnsafePackageError:
    return UnsafePackageError(f"{package}: {path[:_SHOWN_CHARS]!r} {why}")

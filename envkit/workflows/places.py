"""Where a finding stands, as a repository shows it: a path from its root, and a line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Final

from envkit.model.lock_reading import MAX_LOCK_BYTES
from envkit.render.outcome import Place

#: GitHub's runners say where the checkout is; elsewhere the current folder is taken for its root.
ROOT_VARIABLE: Final = "GITHUB_WORKSPACE"
#: Lines after `- name:` in which a lock says the platform.
_LINES_OF_A_PACKAGE: Final = 400


class PlaceFinder:
    """Turns files as users name them into paths of the repository, and packages into lines."""

    def __init__(self, environ: Mapping[str, str], folder: Path) -> None:
        named = environ.get(ROOT_VARIABLE)
        self._folder = folder
        self._root = Path(named) if named else folder

    def find(self, place: Place) -> Place | None:
        """Return the place in the repository; None for what lies elsewhere, or is no file."""
        try:
            path = (self._folder / Path(place.file).expanduser()).resolve()
            inside = path.relative_to(self._root.resolve())
            if not path.is_file():
                return None
        except (OSError, ValueError, RuntimeError):  # no such home, a NUL, a loop of links
            return None
        line = place.line or line_of_package(path, place.package, place.platform)
        return Place(file=inside.as_posix(), line=line)


def line_of_package(path: Path, package: str, platform: str = "") -> int:
    """Return the line at which a lock or a spec has a package; 1 where it cannot be found."""
    if not package:
        return 1
    lines = _lines(path)
    name = re.escape(package)
    in_lock = re.compile(rf"""- name: ["']?{name}["']?\s*""")
    in_spec = re.compile(rf"""\s*-\s*["']?(?:[\w./:-]+::)?{name}(?![\w.-])""")
    in_explicit = re.compile(rf"\S*/{name}-[^-/\s]+-[^-/\s]+\.(?:conda|tar\.bz2)\b")
    first = 1
    for pattern in (in_lock, in_spec, in_explicit):
        found = [number for number, line in enumerate(lines, 1) if pattern.match(line)]
        if found:
            first = found[0]
            break
    else:
        return first
    return next((one for one in found if _is_of(lines, one, platform)), first)


def _is_of(lines: tuple[str, ...], number: int, platform: str) -> bool:
    """Whether the package that begins at a line is the one for a platform."""
    for line in lines[number : number + _LINES_OF_A_PACKAGE]:
        if line.startswith("- name:"):
            return False
        if line.strip() == f"platform: {platform}":
            return True
    return False


@lru_cache(maxsize=8)
def _lines(path: Path) -> tuple[str, ...]:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_LOCK_BYTES)
    except OSError:
        return ()
    return tuple(content.decode("utf-8", "replace").split("\n"))

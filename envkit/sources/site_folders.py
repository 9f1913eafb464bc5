"""Where the Python of a prefix looks for installed distributions, told without running it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from envkit.sources.files import NotRead, is_folder, list_folder, read_text

_VERSION_FOLDER = re.compile(r"python3\.(\d{1,3})t?")
_LIBRARY_FOLDERS: Final = ("lib", "lib64")
_SWITCHED_ON: Final = "true"


def site_folders(prefix: Path, environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the folders that hold distributions, in the order of the interpreter's `sys.path`.

    PYTHONPATH first, then the user's own folder (which an environment of conda uses, and one of
    venv does not), then the prefix, then the installation a venv was made from if it shares it.
    """
    settings = pyvenv_settings(prefix)
    shares_base = settings.get("include-system-site-packages", "").lower() == _SWITCHED_ON
    own = _own_folders(prefix, settings)
    base = _base_prefix(settings) if shares_base else None
    candidates = list(_python_path(environ))
    if not settings or shares_base:
        candidates += _user_folders(prefix, base, environ)
    candidates += own
    if base is not None:
        candidates += _own_folders(base, {})
    return _different(candidates)


def pyvenv_settings(prefix: Path) -> dict[str, str]:
    """Return what `pyvenv.cfg` says, keys in lower case; empty for anything but a venv."""
    text = read_text(prefix / "pyvenv.cfg")
    if isinstance(text, NotRead):
        return {}
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line)
    return {key.strip().lower(): value.strip() for key, _, value in pairs}


def version_folder(prefix: Path, settings: Mapping[str, str]) -> str | None:
    """Return `python3.11`, the name of the folder of the prefix's own interpreter below `lib`."""
    found = {
        name
        for library in _LIBRARY_FOLDERS
        for name in _names(prefix / library)
        if _VERSION_FOLDER.fullmatch(name)
    }
    if len(found) <= 1:
        return next(iter(found), None)
    # Several: left by an upgrade, or the folder of a system. The link of the interpreter decides.
    wanted = [Path(os.path.realpath(prefix / "bin" / name)).name for name in ("python", "python3")]
    version = settings.get("version_info") or settings.get("version") or ""
    wanted.append("python" + ".".join(version.split(".")[:2]))
    named = next((name for name in wanted if name in found), None)
    return named or max(found, key=_minor)


def _minor(name: str) -> int:
    match = _VERSION_FOLDER.fullmatch(name)
    return int(match.group(1)) if match else -1


def _names(folder: Path) -> tuple[str, ...]:
    names = list_folder(folder)
    return () if isinstance(names, NotRead) else names


def _own_folders(prefix: Path, settings: Mapping[str, str]) -> list[Path]:
    version = version_folder(prefix, settings)
    candidates = [prefix / "Lib" / "site-packages"]  # Windows
    if version is not None:
        # Debian's interpreter keeps what pip installs apart from what apt does.
        candidates.append(prefix / "local" / "lib" / version / "dist-packages")
        for library in _LIBRARY_FOLDERS:
            candidates += [
                prefix / library / version / "site-packages",
                prefix / library / version / "dist-packages",
            ]
        candidates.append(prefix / "lib" / "python3" / "dist-packages")
    return candidates


def _base_prefix(settings: Mapping[str, str]) -> Path | None:
    home = settings.get("home")
    if not home or not Path(home).is_absolute():
        return None
    folder = Path(home)
    return folder.parent if folder.name == "bin" else folder


def _python_path(environ: Mapping[str, str]) -> list[Path]:
    entries = environ.get("PYTHONPATH", "").split(os.pathsep)
    return [Path(entry) for entry in entries if entry and Path(entry).is_absolute()]


def _user_folders(prefix: Path, base: Path | None, environ: Mapping[str, str]) -> list[Path]:
    home = environ.get("HOME", "")
    user_base = environ.get("PYTHONUSERBASE") or (f"{home}/.local" if home else "")
    version = version_folder(prefix, {}) or (version_folder(base, {}) if base else None)
    if environ.get("PYTHONNOUSERSITE") or not user_base or version is None:
        return []
    return [Path(user_base) / "lib" / version / "site-packages"]


def _different(candidates: list[Path]) -> tuple[Path, ...]:
    # lib64 is often a link to lib, and a Mac's file system takes Lib for lib.
    by_place = {os.path.realpath(path): path for path in reversed(candidates) if is_folder(path)}
    kept = set(by_place.values())
    return tuple(dict.fromkeys(path for path in candidates if path in kept))

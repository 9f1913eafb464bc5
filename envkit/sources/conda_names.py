"""Where a conda environment of a given name lies, found without running conda."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from envkit.errors import UsageError
from envkit.sources.files import NotRead, is_file, is_folder, list_folder, read_bytes, read_text
from envkit.sources.redacted import clipped, escape_control

MAX_NAMES_SHOWN: Final = 8
_CONFIGURATION_FILES: Final = (".condarc", ".conda/.condarc", ".config/conda/.condarc", ".mambarc")
#: Where micromamba puts its root when nobody says otherwise.
_MAMBA_ROOTS: Final = ("micromamba", ".local/share/mamba")


def find_named(name: str, environ: Mapping[str, str]) -> Path:
    """Return the prefix of the environment called `name`.

    Looked in, first match wins: `base`: the root prefixes; else the folders of CONDA_ENVS_DIRS and
    CONDA_ENVS_PATH, those of `envs_dirs` in .condarc files, `envs` of the root prefixes
    (CONDA_ROOT, CONDA_EXE, MAMBA_ROOT_PREFIX, the active environment), `~/.conda/envs`, and the
    list `~/.conda/environments.txt`.

    Raises:
        UsageError: nothing has that name; the message lists the names that are close.

    """
    if not name or name in {".", ".."} or "/" in name or "\\" in name:
        raise UsageError(
            message=f"{_shown(name)!r} is not the name of an environment.",
            next_step="Give a folder with -p/--prefix.",
        )
    prefixes = known_prefixes(environ)
    if name not in prefixes:
        raise _not_found(name, prefixes)
    return prefixes[name]


def known_prefixes(environ: Mapping[str, str]) -> dict[str, Path]:
    """Return every environment that can be found, by name; the first of a name counts."""
    roots = list(_roots(environ))
    found: dict[str, Path] = {}
    for root in roots:
        if is_folder(root / "conda-meta"):
            found.setdefault("base", root)
    for folder in _folders_of_environments(environ, roots):
        names = list_folder(folder)
        for name in () if isinstance(names, NotRead) else names:
            if is_folder(folder / name / "conda-meta"):
                found.setdefault(name, folder / name)
    for prefix in _listed(environ):
        if is_folder(prefix / "conda-meta"):
            found.setdefault(prefix.name, prefix)
    return found


def _not_found(name: str, prefixes: Mapping[str, Path]) -> UsageError:
    close = difflib.get_close_matches(name, prefixes, n=MAX_NAMES_SHOWN, cutoff=0.5)
    shown = [_shown(one) for one in close or sorted(prefixes)[:MAX_NAMES_SHOWN]]
    if not shown:
        step = "No conda environment was found at all; give its folder with -p/--prefix."
    elif close:
        step = f"Close names: {', '.join(shown)}. Or give its folder with -p/--prefix."
    else:
        step = f"Environments found: {', '.join(shown)}. Or give its folder with -p/--prefix."
    return UsageError(f"There is no conda environment called {_shown(name)!r}.", next_step=step)


def _shown(name: str) -> str:
    return clipped(escape_control(name), 100)


def _roots(environ: Mapping[str, str]) -> Iterator[Path]:
    for variable in ("CONDA_ROOT", "MAMBA_ROOT_PREFIX", "_CONDA_ROOT"):
        if environ.get(variable):
            yield Path(environ[variable])
    for variable in ("CONDA_EXE", "CONDA_PYTHON_EXE"):
        if environ.get(variable):
            yield Path(environ[variable]).parent.parent
    active = environ.get("CONDA_PREFIX")
    if active:
        parent = Path(active).parent
        yield parent.parent if parent.name == "envs" else Path(active)
    home = _home(environ)
    if home is not None:
        yield from (home / name for name in _MAMBA_ROOTS)


def _home(environ: Mapping[str, str]) -> Path | None:
    home = environ.get("HOME") or environ.get("USERPROFILE")
    return Path(home) if home else None


def _folders_of_environments(environ: Mapping[str, str], roots: Iterable[Path]) -> Iterator[Path]:
    for variable in ("CONDA_ENVS_DIRS", "CONDA_ENVS_PATH"):
        yield from (Path(one) for one in environ.get(variable, "").split(os.pathsep) if one)
    roots = list(roots)
    home = _home(environ)
    files = [Path(environ["CONDARC"])] if environ.get("CONDARC") else []
    if home is not None:
        files += [home / name for name in _CONFIGURATION_FILES]
    files += [root / ".condarc" for root in roots]
    for file in files:
        yield from _configured(file, environ)
    yield from (root / "envs" for root in roots)
    if home is not None:
        yield home / ".conda" / "envs"


def _configured(file: Path, environ: Mapping[str, str]) -> Iterator[Path]:
    content = read_bytes(file) if is_file(file) else b""
    if isinstance(content, NotRead) or not content:
        return
    settings = _yaml(content)
    folders = settings.get("envs_dirs") if isinstance(settings, dict) else None
    home = environ.get("HOME", "~")
    for folder in folders if isinstance(folders, list) else ():
        if isinstance(folder, str) and folder:
            yield Path(home + folder[1:] if folder.startswith("~/") else folder)


def _yaml(content: bytes) -> Any:
    import yaml  # noqa: PLC0415 (only where there is such a file)

    # A file that conda could not read either names no folders.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return yaml.load(content, Loader=loader)  # noqa: S506 (both are safe loaders)
    except (yaml.YAMLError, ValueError, RecursionError):
        return None


def _listed(environ: Mapping[str, str]) -> Iterator[Path]:
    home = _home(environ)
    text = read_text(home / ".conda" / "environments.txt") if home is not None else ""
    if isinstance(text, NotRead):
        return
    yield from (Path(line.strip()) for line in text.splitlines() if line.strip())

"""Which solver makes a lock: an installed conda, mamba or micromamba, or the built-in one."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, Literal, TypeAlias

import msgspec

from envkit.errors import CannotCheckError, UsageError

SolverName: TypeAlias = Literal["conda", "mamba", "micromamba", "builtin"]
#: In the order in which `auto` looks for them.
INSTALLED: Final[tuple[SolverName, ...]] = ("conda", "mamba", "micromamba")
CONDA_LOCK: Final = "conda-lock"
RATTLER: Final = "py-rattler, the built-in solver,"
EXTRA: Final = (
    "from the folder with the clone, pipx install --force './envkit[lock]', or into the "
    "environment that envkit runs in: python -m pip install './envkit[lock]'"
)


class Solver(msgspec.Struct, frozen=True, kw_only=True):
    """The solver that conda-lock is to call."""

    name: SolverName
    executable: Path | None
    """None for the built-in one, which is made for each lock."""


def has_module(name: str) -> bool:
    """Say whether a Python module is installed, without importing it."""
    return importlib.util.find_spec(name) is not None


def choose_solver(
    asked: str,
    *,
    mirror: Path | None,
    variables: Mapping[str, str],
    installed: Callable[[str], bool] = has_module,
) -> Solver:
    """Find the solver asked for.

    Args:
        asked: `auto` or a name; `auto` takes what is installed, else the built-in one.
        mirror: channels on disk, which only the built-in one can read as if they were upstream.
        variables: of the process: PATH, CONDA_EXE, MAMBA_EXE.
        installed: whether a Python module is there.

    Raises:
        CannotCheckError: it, or conda-lock, is not installed; the next step says how to get it.
        UsageError: a mirror with a solver that cannot use it.

    """
    if mirror is not None and asked not in {"auto", "builtin"}:
        message = f"--mirror works with the built-in solver only, not with {asked}."
        raise UsageError(message, next_step="Leave --solver out, or give --solver builtin.")
    if not installed("conda_lock"):
        raise _missing(CONDA_LOCK)
    if mirror is None and asked != "builtin":
        for name in INSTALLED if asked == "auto" else (asked,):
            path = _find(name, variables)
            if path is not None:
                return Solver(name=msgspec.convert(name, SolverName), executable=path)
    if asked not in {"auto", "builtin"}:
        message = f"{asked} was not found on PATH."
        step = "Install it, or use the solver that comes with envkit: --solver builtin."
        raise CannotCheckError(message, next_step=step)
    return _builtin(installed)


def _builtin(installed: Callable[[str], bool]) -> Solver:
    if sys.platform == "win32":
        message = "The built-in solver does not run on Windows."
        raise CannotCheckError(message, next_step="Install micromamba, or lock in WSL.")
    if not installed("rattler"):
        raise _missing(RATTLER)
    return Solver(name="builtin", executable=None)


def _find(name: str, variables: Mapping[str, str]) -> Path | None:
    # Shells know conda as a function; its program is what these variables name.
    by_variable = {"conda": "CONDA_EXE", "mamba": "MAMBA_EXE", "micromamba": "MAMBA_EXE"}
    named = variables.get(by_variable[name], "")
    if Path(named).stem == name and os.access(named, os.X_OK):
        return Path(named)
    found = shutil.which(name, path=variables.get("PATH", os.defpath))
    return Path(found) if found else None


def _missing(what: str) -> CannotCheckError:
    return CannotCheckError(f"{what} is not installed.", next_step=f"Install the extra: {EXTRA}.")

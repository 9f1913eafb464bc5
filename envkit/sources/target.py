"""Which environment is judged, and why this one: named by an option, active, or found on PATH."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, Literal, TypeAlias

from envkit.errors import UsageError
from envkit.model.report import Target
from envkit.process import Completed, run
from envkit.sources.conda_names import find_named
from envkit.sources.files import NotRead, is_file, is_folder, list_folder
from envkit.sources.redacted import clipped, escape_control
from envkit.sources.site_folders import version_folder

Kind: TypeAlias = Literal["conda", "venv", "python", "prefix"]
#: Returns the executable and the prefix that an interpreter says it has.
Ask: TypeAlias = Callable[[Path, Mapping[str, str]], "tuple[Path, Path] | None"]

#: Starting an interpreter takes 20 ms on a quiet machine, seconds from a network folder.
ASK_LIMIT_S: Final = 10.0
_INTERPRETERS: Final = ("bin/python", "bin/python3", "python.exe", "Scripts/python.exe")
_QUESTION: Final = "import sys; print(sys.executable); print(sys.prefix)"


def ask_interpreter(
    python: Path, environ: Mapping[str, str], *, limit_s: float = ASK_LIMIT_S
) -> tuple[Path, Path] | None:
    """Start an interpreter to ask for its executable and prefix; None if it does not tell."""
    ended = run(
        # Not -S: before Python 3.14 it is `site` that makes a venv's prefix the venv's.
        [python, "-I", "-B", "-c", _QUESTION],
        timeout_s=limit_s,
        env=environ,
        max_stdout_bytes=1 << 16,
    )
    if not isinstance(ended, Completed) or ended.returncode != 0:
        return None
    # The last two: a sitecustomize may have printed before.
    lines = ended.stdout.decode("utf-8", "surrogateescape").splitlines()[-2:]
    if len(lines) != 2 or not all(Path(line).is_absolute() for line in lines):  # noqa: PLR2004
        return None
    return Path(lines[0]), Path(lines[1])


def choose_target(  # noqa: PLR0913 (three options of the command line and what tests replace)
    *,
    name: str | None = None,
    prefix: str | None = None,
    python: str | None = None,
    environ: Mapping[str, str],
    running: str = sys.executable,
    ask: Ask = ask_interpreter,
) -> Target:
    """Return the environment that is judged.

    Order: the option given; else the innermost active environment (`VIRTUAL_ENV`, `CONDA_PREFIX`:
    with both, the one whose programs come first on PATH, else the venv, which needs no
    deactivation of conda); else `python` or `python3` on PATH; else the running interpreter. The
    environment that envkit itself runs from is none of these unless it is active or named.

    Paths are made absolute; links are kept, since a venv's interpreter must be started by its own
    path to be the venv's.

    Raises:
        UsageError: two options, a name nobody has, a folder or an executable that is none.

    """
    given = [one for one in (name, prefix, python) if one is not None]
    if len(given) > 1:
        raise UsageError(
            message="Only one of --name, --prefix and --python can be given.",
            next_step="Leave out all but the one that names the environment to judge.",
        )
    if name is not None:
        return of_prefix(find_named(name, environ), f"--name {_shown(name)}")
    if prefix is not None:
        return _of_prefix_option(prefix)
    if python is not None:
        return _of_python_option(python, environ, ask)
    return _by_default(environ, running, ask)


def of_prefix(prefix: Path, chosen_by: str) -> Target:
    """Return the target that a folder is, with the interpreter in it if there is one."""
    interpreter = interpreter_in(prefix)
    return Target(
        kind=kind_of(prefix) if interpreter is not None else "prefix",
        prefix=str(prefix),
        python=None if interpreter is None else str(interpreter),
        chosen_by=chosen_by,
    )


def interpreter_in(prefix: Path) -> Path | None:
    """Return the interpreter of a prefix, by the path that makes it the prefix's."""
    return next((prefix / one for one in _INTERPRETERS if is_file(prefix / one)), None)


def kind_of(prefix: Path) -> Kind:
    """Tell a conda prefix from a venv from an ordinary installation."""
    if is_file(prefix / "pyvenv.cfg"):
        return "venv"
    return "conda" if is_folder(prefix / "conda-meta") else "python"


# --- options ------------------------------------------------------------------------------------


def _of_prefix_option(text: str) -> Target:
    prefix = _absolute(text)
    if is_file(prefix):
        raise UsageError(
            message=f"{_shown(text)} is a file, not the folder of an environment.",
            next_step="Give an interpreter with --python, a folder with -p/--prefix.",
        )
    names = list_folder(prefix)
    if isinstance(names, NotRead):
        raise UsageError(
            message=f"The folder {_shown(text)} cannot be judged: {_shown(names.reason)}.",
            next_step="Check the path given to -p/--prefix.",
        )
    return of_prefix(prefix, "--prefix")


def _of_python_option(text: str, environ: Mapping[str, str], ask: Ask) -> Target:
    found = _absolute(text) if _is_path(text) else _on_path(text, environ)
    if found is None:
        raise UsageError(
            message=f"There is no program {_shown(text)!r} on PATH.",
            next_step="Give the path of an interpreter to --python.",
        )
    if is_folder(found):
        raise UsageError(
            message=f"{_shown(text)} is a folder, not an interpreter.",
            next_step="Give a folder with -p/--prefix, an interpreter with --python.",
        )
    if not is_file(found) or not os.access(found, os.X_OK):
        what = "cannot be executed" if is_file(found) else "is not there"
        raise UsageError(
            message=f"The interpreter {_shown(text)} {what}.",
            next_step="Check the path given to --python.",
        )
    return _of_interpreter(found, "--python", environ, ask) or Target(
        kind="python", prefix=None, python=str(found), chosen_by="--python"
    )


def _is_path(text: str) -> bool:
    return os.sep in text or "/" in text or text.startswith("~")


def _absolute(text: str) -> Path:
    # Not `resolve`: links are kept.
    return Path(os.path.abspath(os.path.expanduser(text)))  # noqa: PTH100, PTH111


def _shown(text: str) -> str:
    return clipped(escape_control(text), 300)


# --- interpreters -------------------------------------------------------------------------------


def _of_interpreter(
    python: Path, chosen_by: str, environ: Mapping[str, str], ask: Ask
) -> Target | None:
    """Return the target of an interpreter, or None if nothing tells its prefix.

    It is started only where its place does not tell: version managers put scripts on PATH that
    choose an interpreter by the current folder, and then the chosen one is the target.
    """
    prefix = prefix_of(python)
    if prefix is None:
        answer = ask(python, environ)
        if answer is None:
            return None
        python, prefix = answer
    return Target(kind=kind_of(prefix), prefix=str(prefix), python=str(python), chosen_by=chosen_by)


def prefix_of(python: Path) -> Path | None:
    """Return the prefix of an interpreter by the folders around it, as the interpreter itself does.

    First by the path it is called by (venv, conda), then by the file that its links lead to.
    """
    for folder in (python.parent, python.parent.parent):
        if is_file(folder / "pyvenv.cfg") or is_folder(folder / "conda-meta"):
            return folder
    real = Path(os.path.realpath(python))
    around = real.parent.parent
    if version_folder(around, {}) is not None and real.name.startswith("python"):
        return around
    return None


def _on_path(name: str, environ: Mapping[str, str]) -> Path | None:
    found = shutil.which(name, path=environ.get("PATH", ""))
    return None if found is None else _absolute(found)


# --- without an option --------------------------------------------------------------------------


def _by_default(environ: Mapping[str, str], running: str, ask: Ask) -> Target:
    missing: list[str] = []
    for variable, why in _active(environ):
        prefix = _absolute(environ[variable])
        if is_folder(prefix) and (variable == "CONDA_PREFIX" or interpreter_in(prefix)):
            return of_prefix(prefix, variable + why)
        missing.append(variable)
    note = f" ({', '.join(missing)} names no environment)" if missing else ""
    for name in ("python", "python3"):
        found = _on_path(name, environ)
        target = found and _of_interpreter(found, f"{name} on PATH{note}", environ, ask)
        if target:
            return target
    chosen_by = f"the interpreter that runs envkit{note}: none is active or on PATH"
    own = Path(running)
    return _of_interpreter(own, chosen_by, environ, ask) or Target(
        kind="python", prefix=sys.prefix, python=str(own), chosen_by=chosen_by
    )


def _active(environ: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the variables of the active environments, innermost first, and why in this order."""
    variables = [name for name in ("VIRTUAL_ENV", "CONDA_PREFIX") if environ.get(name)]
    if len(variables) < 2:  # noqa: PLR2004
        return [(name, "") for name in variables]
    entries = [os.path.normpath(entry) for entry in environ.get("PATH", "").split(os.pathsep)]
    ranks = {name: _rank(environ[name], entries) for name in variables}
    venv, conda = ranks["VIRTUAL_ENV"], ranks["CONDA_PREFIX"]
    if conda < venv:
        return [("CONDA_PREFIX", ", before VIRTUAL_ENV on PATH"), ("VIRTUAL_ENV", "")]
    why = ", before CONDA_PREFIX on PATH" if venv < conda else ", inside CONDA_PREFIX"
    return [("VIRTUAL_ENV", why), ("CONDA_PREFIX", "")]


def _rank(prefix: str, entries: list[str]) -> int:
    """Return the place of a prefix's programs on PATH, past its end if they are not there."""
    places = {os.path.normpath(Path(prefix, folder)) for folder in ("bin", "Scripts", ".")}
    return next((i for i, entry in enumerate(entries) if entry in places), len(entries))

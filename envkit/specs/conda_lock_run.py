"""Starting conda-lock in a private folder, and understanding how it ended."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
import yaml

from envkit import process
from envkit.errors import CannotCheckError, InputError, InternalError
from envkit.specs.solver.launcher import write_stand_in
from envkit.specs.solver.outcome import (
    MIRROR_VARIABLE,
    OUTCOME_VARIABLE,
    Outcome,
    read_outcome,
)
from envkit.specs.solvers import Solver

#: A solve against a whole channel with a slow network.
TIMEOUT_S: Final = 1800.0
SHOWN_LINES: Final = 40
#: What conda, mamba and micromamba say; the built-in solver tells its outcome itself.
_UNSOLVABLE: Final = re.compile(
    r"Unsatisfiable|ResolvePackageNotFound|PackagesNotFound|nothing provides|[Cc]ould not solve"
    r"|Encountered problems while solving|does not exist \(perhaps a typo"
)
_NO_NETWORK: Final = re.compile(
    r"CondaHTTPError|ConnectionError|CONNECTION FAILED|Could not resolve host|[Dd]ownload error"
    r"|Max retries exceeded|Temporary failure in name resolution|[Cc]onnection (?:refused|reset)"
)
_SOLVER_SAID: Final = re.compile(
    r"Could not lock the environment for platform [^\n]*\n(?P<message>.*?)\n\s*Command:", re.DOTALL
)
#: Settings of one shell or one environment that would change what is solved.
_LEFT_OUT: Final = re.compile(r"CONDA_(?:OVERRIDE_|LOCK_|SUBDIR|PREFIX|DEFAULT_ENV|SHLVL)")


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One run of conda-lock."""

    spec_name: str
    """File name of the spec, which the lock records."""
    spec_content: bytes
    virtual_packages: Mapping[str, Mapping[str, str]]
    """By platform: all that are to be locked."""
    solver: Solver
    mirror: Path | None


def run_conda_lock(job: Job, folder: Path, variables: Mapping[str, str]) -> bytes | Outcome:
    """Return the lock that conda-lock wrote, or how the solve ended without one.

    Args:
        job: what to lock.
        folder: an empty folder that nobody else may write to.
        variables: of the process.

    Raises:
        CannotCheckError: no network, it took too long, or the solver itself does not work.
        InputError: a channel that is not there.
        InternalError: conda-lock could not be started.

    """
    lock, told = folder / "conda-lock.yml", folder / "outcome.json"
    argv = _command(job, folder, lock)
    done = process.run(
        argv,
        timeout_s=TIMEOUT_S,
        env=_environment(job, told, variables),
        cwd=folder,
        max_stderr_bytes=1 << 18,
    )
    if isinstance(done, process.NotStarted):
        raise InternalError(done.reason, next_step="Check the Python that envkit runs in.")
    if done.returncode == 0 and lock.is_file():
        return lock.read_bytes()
    if done.timed_out:
        message = f"conda-lock did not end within {TIMEOUT_S:.0f} s."
        raise CannotCheckError(message, next_step="Try --solver builtin, or a faster network.")
    said = (done.stderr + b"\n" + done.stdout).decode("utf-8", "replace")
    return _ended(read_outcome(told) or _recognised(said), said)


def _command(job: Job, folder: Path, lock: Path) -> Sequence[str | Path]:
    spec = folder / job.spec_name
    spec.write_bytes(job.spec_content)
    virtual, names = folder / "virtual-packages.yml", folder / "names.json"
    subdirs = {
        platform: {"packages": dict(packages)}
        for platform, packages in job.virtual_packages.items()
    }
    virtual.write_text(yaml.safe_dump({"subdirs": subdirs}), encoding="utf-8")
    names.write_text("{}\n", encoding="utf-8")  # of pip packages: else conda-lock fetches a list
    solver = job.solver.executable or write_stand_in(folder)
    kind = {"mamba": "--mamba", "micromamba": "--micromamba"}.get(job.solver.name)
    return [
        *(sys.executable, "-m", "conda_lock", "lock", "--conda", solver),
        *([kind] if kind else ["--no-mamba"]),
        *("--file", spec, "--lockfile", lock, "--virtual-package-spec", virtual),
        *(part for platform in job.virtual_packages for part in ("--platform", platform)),
        *("--pypi_to_conda_lookup_file", names.as_uri()),
    ]


def _environment(job: Job, told: Path, variables: Mapping[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in variables.items() if not _LEFT_OUT.match(name)}
    kept[OUTCOME_VARIABLE] = str(told)
    kept.pop(MIRROR_VARIABLE, None)
    if job.mirror is not None:
        kept[MIRROR_VARIABLE] = str(job.mirror.resolve())
    kept["PYTHONUTF8"] = "1"
    kept.setdefault("HOME", os.sep)
    return kept


def _recognised(said: str) -> Outcome:
    if _NO_NETWORK.search(said):
        return Outcome(kind="no_network")
    return Outcome(kind="unsolvable" if _UNSOLVABLE.search(said) else "failed")


def _ended(outcome: Outcome, said: str) -> Outcome:
    explained = outcome.message or _explanation(said)
    if outcome.kind == "unsolvable":
        return msgspec.structs.replace(outcome, message=explained)
    if outcome.kind == "no_network":
        last = "; ".join(_last_lines(explained, 3).splitlines())
        message = f"The channels cannot be reached: {last}."
        step = "Connect to the network, or give channels on disk with --mirror DIR."
        raise CannotCheckError(message, next_step=step)
    if outcome.kind == "missing_channel":
        raise InputError(explained, next_step="Check `channels` in the spec, and --mirror.")
    message = f"conda-lock or its solver failed. Its last lines:\n{explained}"
    raise CannotCheckError(message, next_step="Try another one: --solver builtin, for example.")


def _explanation(said: str) -> str:
    """Return what the solver said, without conda-lock's own traceback around it."""
    found = _SOLVER_SAID.search(said)
    return _last_lines(found["message"] if found else said)


def _last_lines(text: str, count: int = SHOWN_LINES) -> str:
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    return "\n".join(lines[-count:])

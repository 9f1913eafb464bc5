"""A `conda` that only plans: what conda-lock starts where no conda is installed."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from envkit.specs.solver.channels import locate
from envkit.specs.solver.outcome import (
    MIRROR_VARIABLE,
    OUTCOME_VARIABLE,
    Outcome,
    SolveError,
    write_outcome,
)
from envkit.specs.solver.protocol import (
    Arguments,
    is_made_for_virtual_packages,
    plan,
    read_arguments,
    virtual_packages,
)
from envkit.specs.solver.solve import Request, solve


def main(argv: Sequence[str], variables: Mapping[str, str]) -> int:
    """Answer one call of conda-lock on stdout; the exit code is conda's."""
    try:
        answer = _answer(read_arguments(argv), variables)
    except (SolveError, ValueError) as error:
        failed = error.outcome if isinstance(error, SolveError) else None
        _tell(variables, failed or Outcome(kind="failed", message=str(error)))
        _print({"success": False, "message": str(error), "error": str(error)})
        return 1
    _print(answer)
    return 0


def _answer(arguments: Arguments, variables: Mapping[str, str]) -> Any:
    if arguments.command in {"--version", "-V"}:
        return "conda 24.11.0 (envkit's built-in solver)"
    if arguments.command in {"info", "config"}:
        folders = [one for one in variables.get("CONDA_PKGS_DIRS", "").split(os.pathsep) if one]
        return {"pkgs_dirs": folders, "conda_version": "24.11.0", "platform": _subdir(variables)}
    if arguments.command != "create" or not {"--dry-run", "--json"} <= arguments.flags:
        message = f"the built-in solver only plans new environments, not `{arguments.command}`"
        raise ValueError(message)
    started = time.monotonic()
    records = solve(_request(arguments, variables))
    _tell(variables, Outcome(kind="solved", seconds=time.monotonic() - started))
    return plan(records, arguments.prefix)


def _request(arguments: Arguments, variables: Mapping[str, str]) -> Request:
    mirror = variables.get(MIRROR_VARIABLE)
    real = [one for one in arguments.channels if not is_made_for_virtual_packages(one)]
    named = [spec.split("::", 1)[0].strip() for spec in arguments.specs if "::" in spec]
    subdir = _subdir(variables)
    channels = [locate(one, Path(mirror) if mirror else None) for one in (*real, *named)]
    return Request(
        channels=tuple({channel.url: channel for channel in channels}.values()),
        specs=arguments.specs,
        subdir=subdir,
        virtual_packages=virtual_packages(arguments.channels, subdir, variables),
    )


def _subdir(variables: Mapping[str, str]) -> str:
    subdir = variables.get("CONDA_SUBDIR")
    if not subdir:
        message = "CONDA_SUBDIR is not set: conda-lock says with it which platform is solved for"
        raise ValueError(message)
    return subdir


def _tell(variables: Mapping[str, str], outcome: Outcome) -> None:
    if OUTCOME_VARIABLE in variables:
        write_outcome(Path(variables[OUTCOME_VARIABLE]), outcome)


def _print(answer: Any) -> None:
    text = answer if isinstance(answer, str) else msgspec.json.encode(answer).decode()
    sys.stdout.write(text + "\n")
    sys.stdout.flush()

"""What became of the child, in the terms of facts: did torch import, and if not, how did it end."""

from __future__ import annotations

from typing import Final

from envkit.model.facts import ImportFailure
from envkit.probes.launch import (
    Broken,
    ChildRun,
    Crashed,
    Exited,
    Finished,
    NotStarted,
    TimedOut,
    describe,
)

IMPORTING: Final = "importing_torch"
#: Stages in which torch is not there yet.
_BEFORE: Final = frozenset({"starting_python", "starting_probe", IMPORTING})
_NO_TORCH: Final = "No module named 'torch'"


def import_failure(run: ChildRun) -> ImportFailure | None:
    """Say how `import torch` failed; None when it worked or was not reached."""
    raised = next((error for error in run.errors if error.stage == IMPORTING), None)
    if raised is not None:
        return ImportFailure(how="raised", message=f"{raised.type}: {raised.message}")
    if run.stage not in _BEFORE:
        return None
    match run.outcome:
        case Crashed():
            return ImportFailure(how="crashed", message=describe(run))
        case TimedOut():
            return ImportFailure(how="timed_out", message=describe(run))
        case Exited():
            return ImportFailure(how="exited", message=describe(run))
        case Finished() | NotStarted() | Broken():
            return None


def never_ran(run: ChildRun) -> str:
    """Say why the target's interpreter could not be asked at all; empty when it could."""
    if run.hello is None and isinstance(run.outcome, NotStarted | Broken):
        return describe(run)
    return ""


def has_no_torch(run: ChildRun) -> bool:
    """Whether the interpreter itself says that there is no torch."""
    return any(
        error.stage == IMPORTING
        and error.type == "ModuleNotFoundError"
        and error.message.strip() == _NO_TORCH
        for error in run.errors
    )


def probes_problem(run: ChildRun) -> str:
    """Say what kept the probes from being finished; empty when nothing did."""
    if not isinstance(run.outcome, Finished):
        return describe(run)
    late = [error for error in run.errors if error.stage != IMPORTING]
    return f"{late[0].type}: {late[0].message}" if late else ""

"""What became of the child, in the terms of facts: did torch import, and if not, how did it end."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from envkit.model.facts import Facts, ImportFailure, TorchFacts
from envkit.model.observed import Absent, Known, NotApplicable, Unreadable
from envkit.probes.launch import (
    ChildRun,
    Crashed,
    Exited,
    Finished,
    describe,
)
from envkit.sources import imported_torch
from envkit.sources.interpreter import started_python
from envkit.sources.redacted import home_folders

IMPORTING: Final = "importing_torch"
SETTING: Final = "set_flags"
_SWITCH_REFUSED: Final = "not looked at, since a switch of --set was refused"
#: Stages in which torch is not there yet.
_BEFORE: Final = frozenset({"starting_python", "starting_probe", IMPORTING})
_NO_TORCH: Final = "No module named 'torch'"


def add_answer(
    facts: Facts, run: ChildRun, *, prefix: Path | None, environ: Mapping[str, str]
) -> Facts:
    """Put what the interpreter and the imported torch said over what their files say.

    Args:
        facts: what the files of the target say.
        run: what became of the child in the target's interpreter.
        prefix: prefix of the target.
        environ: environment of the target.

    """
    python = facts.python
    if run.hello is not None:
        homes = home_folders(environ)
        python = started_python(msgspec.to_builtins(run.hello), homes=homes)
    torch = _torch(facts.torch, run, prefix=prefix, environ=environ)
    return msgspec.structs.replace(facts, python=python, torch=torch)


def import_failure(run: ChildRun) -> ImportFailure | None:
    """Say how `import torch` failed; None when it worked or nobody saw it to its end.

    One that a time limit cut off may have been about to work: that is not known, no failure.
    """
    raised = next((error for error in run.errors if error.stage == IMPORTING), None)
    if raised is None and (run.stage != IMPORTING or not _ended_early(run)):
        return None  # it works, or the interpreter never came so far
    outcome = run.outcome
    return imported_torch.import_failure(
        None if raised is None else msgspec.to_builtins(raised),
        signal=outcome.signal if isinstance(outcome, Crashed) else None,
        exit_code=outcome.code if isinstance(outcome, Exited) else None,
        stage=run.stage,
    )


def probes_problem(run: ChildRun) -> str:
    """Say what kept the probes from being finished; empty when nothing did."""
    if not isinstance(run.outcome, Finished):
        return describe(run)
    first = next(iter(run.errors), None)
    if first is None:
        return ""
    return first.message if first.stage == SETTING else f"{first.type}: {first.message}"


def refused_switch(run: ChildRun) -> str:
    """Say which switch could not be set: then nothing was measured under what was asked for."""
    return next((one.message for one in run.errors if one.stage == SETTING), "")


def _why_missing(run: ChildRun) -> str:
    # The verdict says what is wrong with the switch; every fact saying it again helps nobody.
    return _SWITCH_REFUSED if refused_switch(run) else probes_problem(run)


def _torch(
    static: TorchFacts, run: ChildRun, *, prefix: Path | None, environ: Mapping[str, str]
) -> TorchFacts:
    failure = import_failure(run)
    if failure is None and run.stage in _BEFORE:
        return _not_reached(static, run)
    if _has_no_torch(run) and not isinstance(static.version, Known):
        if isinstance(static.version, Absent):
            return static
        absent = Absent(source="import torch", reason=_NO_TORCH)
        return msgspec.structs.replace(static, version=absent)
    if isinstance(static.version, Absent):
        static = _found_after_all(static)
    tests = run.self_test.tests if run.self_test is not None else ()
    return imported_torch.imported_torch_facts(
        static,
        run.facts.get("torch", {}),
        prefix=prefix,
        environ=environ,
        failure=failure,
        why_missing=_why_missing(run) or "the child did not tell",
        self_tests=[msgspec.to_builtins(test) for test in tests],
        stderr=run.stderr_tail.encode("utf-8", "backslashreplace"),
    )


def _not_reached(static: TorchFacts, run: ChildRun) -> TorchFacts:
    """Return the facts of a target whose Python never came through the import: a hang."""
    untold = Unreadable(reason=describe(run), source="import torch")
    changes = {"import_failure": untold}
    if not isinstance(static.version, Known):
        changes["version"] = untold
    return msgspec.structs.replace(static, **changes)


def _found_after_all(static: TorchFacts) -> TorchFacts:
    """Take back what the files say of a torch that is not there: the interpreter found one.

    An editable installation or a `.pth` file leads to folders without metadata.
    """
    untold = Unreadable(reason="torch was found where no metadata describe it", source="files")
    without = (Absent, NotApplicable)
    names = [
        name for name in static.__struct_fields__ if isinstance(getattr(static, name), without)
    ]
    return msgspec.structs.replace(static, **dict.fromkeys(names, untold))


def _ended_early(run: ChildRun) -> bool:
    return isinstance(run.outcome, Crashed | Exited)


def _has_no_torch(run: ChildRun) -> bool:
    return any(
        error.stage == IMPORTING
        and error.type == "ModuleNotFoundError"
        and error.message.strip() == _NO_TORCH
        for error in run.errors
    )

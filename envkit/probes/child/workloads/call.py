"""The user's own step: a function of theirs, run as one more workload.

It is called five times, on the same random numbers each time: once to warm up, twice recorded,
twice watched by the dispatcher. What it raises is told as theirs, with the end of its traceback.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
import traceback
from types import TracebackType
from typing import Any, Callable, Dict, List, Optional

from .. import streams
from ..place import Place
from ..protocol import message_of, printable
from .probes import PARTS, RUNS, Report, report_split, run_once
from .returned import Returned
from .training import without_collector

#: Frames of a traceback that are shown, the innermost ones.
MOST_FRAMES = 6
MOST_CHARS = 1800

#: Files whose frames are between us and the user's code.
_NOT_THEIRS = (
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))),
    os.path.dirname(importlib.__file__),
    "<frozen importlib",
)

#: Their step may be made of what envkit's own workloads never are.
_BLIND = (
    "tensors could not be told from workspaces: watched by torch's dispatcher, the step asks for "
    "other memory; compiled code (torch.compile) and threads pass the dispatcher by, and a step "
    "that is not the same at every call differs"
)

Step = Callable[[], Any]


class StepRaised(RuntimeError):  # noqa: N818  (named for what happened)
    """The user's code raised something; the text says what and where in their code."""


def measure(place: Place, target: str, seed: int, report: Any, *, folder: str) -> None:
    """Find the user's function and report its probes; `folder` is importable in this process only.

    `report` is a `families.GroupReport`.
    """
    try:
        measure_step(place, find(target, folder), seed, report)
    except StepRaised as raised:
        report.rest(failed=str(raised))


def find(target: str, folder: str) -> Step:
    """Return the function `module:name`, importing from a folder and working in it.

    Raises:
        StepRaised: it cannot be imported, or is no function.

    """
    os.chdir(folder)
    sys.path.insert(0, folder)
    module, _, name = target.partition(":")
    found = theirs(lambda: _imported(module, folder))
    for part in name.split("."):
        if not hasattr(found, part):
            message = "module {} has no function {}".format(module, name)
            raise StepRaised(message)
        found = getattr(found, part)
    if not callable(found):
        message = "{} is {}, and no function".format(target, type(found).__name__)
        raise StepRaised(message)
    return found  # type: ignore[no-any-return]


def _imported(module: str, folder: str) -> Any:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        # One that is missing inside of their module is theirs to tell.
        if error.name is None or not (module + ".").startswith(error.name + "."):
            raise
        message = "module {} was not found from folder {}".format(error.name, folder)
        raise StepRaised(message) from error


def theirs(code: Step) -> Any:
    """Run the user's code.

    Raises:
        StepRaised: it raised something, SystemExit included.

    """
    try:
        return code()
    except (KeyboardInterrupt, StepRaised):
        raise
    except BaseException as error:
        raise StepRaised(_told(error)) from error


def from_theirs(found: Optional[TracebackType]) -> Optional[TracebackType]:
    """Return a traceback from the first frame of the user's code on; all of it if there is none."""
    inner = found
    while inner is not None and inner.tb_frame.f_code.co_filename.startswith(_NOT_THEIRS):
        inner = inner.tb_next
    return inner or found


def _told(error: BaseException) -> str:
    """Say what the user's code raised and where, innermost frame last."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(_NOT_THEIRS)
    ]
    places = [
        "{}:{} in {}".format(_path(frame.filename), frame.lineno, frame.name)
        for frame in frames[-MOST_FRAMES:]
    ]
    where = " ({})".format(" > ".join(places)) if places else ""
    message = " ".join(message_of(error).split())
    text = "your own code raised {}: {}{}"
    return printable(text.format(type(error).__name__, message[:600], where))[:MOST_CHARS]


def _path(name: str) -> str:
    """Return a path as the user knows it: from the folder that they are in."""
    relative = os.path.relpath(name)
    return name if relative.startswith("..") else relative


def measure_step(place: Place, step: Step, seed: int, report: Report) -> None:
    """Run a step and report tensors, workspaces, left, peaks and outputs.

    What the step keeps for the next call stays: only what is not in use is cleaned up.

    Raises:
        StepRaised: it raised something.
        Unmet: a recording is not whole.

    """

    def work(_mark: Callable[[str], None]) -> Dict[str, Any]:
        place.torch.manual_seed(seed)
        with without_collector():
            outputs = Returned(theirs(step))
        gc.collect()  # what it leaves in cycles is not kept
        return {"outputs": lambda: outputs}

    work(lambda _moment: None)
    runs = [run_once(place, work, clean=False) for _ in range(RUNS)]
    _report_outputs([run.bits["outputs"] for run in runs], report)
    report("peaks", runs=[run.peaks for run in runs])
    try:
        labels = report_split(place, work, runs, report, clean=False)
    except streams.Unlike:
        for part in (*PARTS, "left"):
            report(part, not_run=_BLIND)
        return
    if labels is None:
        report("left", not_run="tensors could not be told from workspaces")
        return
    left = [
        streams.left_bytes(run.recorded.events, is_tensor)
        for run, is_tensor in zip(runs, labels)
        if run.recorded is not None
    ]
    report("left", runs=[{"left_bytes": nbytes} for nbytes in left])


def _report_outputs(runs: List[Returned], report: Report) -> None:
    left_out = runs[0].not_compared()
    if any(run.exact for run in runs):
        report("outputs", runs=[run.exact for run in runs], reason=left_out or None)
    else:
        nothing = "the function returned nothing that can be compared"
        report("outputs", not_run="; ".join(filter(None, (nothing, left_out))))

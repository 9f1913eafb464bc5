"""A job for a child, what becomes of it, and what both sides say about it."""

from __future__ import annotations

import json
import signal
from typing import Any, Callable, Optional

from .protocol import Emitter, described


class Job(object):
    """A call to make in a child: `function(args, emit)` gives a JSON value.

    `function` stands at the top level of a module of this package (a spawned child finds it by its
    name) and `args` is JSON. It may emit events: they are passed on to the parent of all.
    `cut`: the limit of all left it less time than such a job may take.
    """

    __slots__ = ("args", "cut", "function", "name", "time_limit_s")

    def __init__(
        self,
        name: str,
        function: "Callable[[dict[str, Any], Emitter], Any]",
        args: "dict[str, Any]",
        time_limit_s: float,
        *,
        cut: bool = False,
    ) -> None:
        self.name = name
        self.function = function
        self.args = args
        self.time_limit_s = time_limit_s
        self.cut = cut


class Result(object):
    """How a job ended.

    status: `finished` (value), `raised` (reason, error), `crashed` (reason is the signal's name),
    `exited` (it ended without a result), `timed_out`, `lost` (what it sent cannot be read).
    stage: the last stage that it announced.
    """

    __slots__ = ("error", "name", "reason", "seconds", "stage", "status", "value")

    def __init__(self, name: str) -> None:
        self.name = name
        self.status = "lost"
        self.value = None  # type: Any
        self.reason = ""
        self.error = {}  # type: dict[str, Any]
        self.stage = ""
        self.seconds = 0.0

    @property
    def ok(self) -> bool:
        """Whether there is a value."""
        return self.status == "finished"

    @property
    def has_told(self) -> bool:
        """Whether the job itself said how it ended."""
        return self.status in ("finished", "raised")

    def emit_error(self, emit: Emitter, stage: str) -> None:
        """Report a job without a value as an `error` event, at the last stage it announced."""
        error = self.error or {"type": self.status, "message": self.reason, "traceback_tail": ""}
        emit("error", **dict(error, stage=self.stage or stage))


def take_line(line: bytes, result: Result, emit: Emitter) -> None:
    """Keep what a job says about itself; pass on everything else."""
    try:
        event = json.loads(line.decode("utf-8"))
        name = event["event"]
    except (ValueError, TypeError, KeyError, RecursionError):
        result.reason = "it sent a line that is not an event"
        return
    if name == "result":
        result.status = "finished"
        result.value = event.get("value")
    elif name == "raised":
        result.status = "raised"
        result.error = event.get("error") or {}
        result.reason = "{}: {}".format(result.error.get("type"), result.error.get("message"))
    else:
        if name == "stage":
            result.stage = str(event.get("name"))
        emit.forward(line)


def set_timed_out(result: Result, job: Job) -> None:
    """Set the status of a job that was ended at its limit."""
    result.status = "timed_out"
    # The words of `envkit.model.report.OUT_OF_TIME`: more time for all is what helps.
    whose = "ran out of time: " if job.cut else ""
    result.reason = "{}no end after {:.3g} s".format(whose, job.time_limit_s)


def set_ending(result: Result, code: "Optional[int]") -> None:
    """Set the status of a job from its exit code (negative: signal) unless it told it itself.

    None: nobody can tell, for SIGCHLD is ignored (also inherited) or code of the target waits for
    every child.
    """
    if result.has_told:
        return
    if code is None:
        result.status = "exited"
        result.reason = result.reason or "it ended with no result; its exit code was not kept"
    elif code < 0:
        result.status = "crashed"
        result.reason = _signal_name(-code)
    elif not result.reason:
        result.status = "exited"
        result.reason = "it ended with exit code {} and no result".format(code)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "signal {}".format(number)


def tell_result(
    function: "Callable[[dict[str, Any], Emitter], Any]",
    args: "dict[str, Any]",
    emit: Emitter,
) -> None:
    """Call a job's function and send its value, or what it raised."""
    try:
        emit("result", value=function(args, emit))
    except BaseException as error:  # noqa: BLE001  (SystemExit of the target's code too)
        emit("raised", error=described(error))


def name_of(function: Any) -> str:
    """Return `module:function` for a function at the top level of a module of this package."""
    module = function.__module__.rsplit(".", 1)
    if module[0].split(".")[0] != "_envkit_child":
        message = "a job's function must be in this package, not in {}".format(function.__module__)
        raise ValueError(message)
    return "{}:{}".format(function.__module__, function.__qualname__)

"""Starting the child in the target's interpreter, and what can become of it."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec

from envkit import process
from envkit.model.report import OUT_OF_TIME
from envkit.probes.bounds import (
    MAX_EVENTS,
    MAX_FACTS,
    MAX_LINE_BYTES,
    clipped_texts,
    why_unbearable,
)
from envkit.probes.events import (
    BatchSearch,
    ChildError,
    ChildRequest,
    Confound,
    Done,
    Event,
    FactValues,
    Hello,
    KeyValues,
    Measurement,
    Probe,
    Progress,
    SelfTests,
    Setup,
    Stage,
    SuiteStart,
)

START: Final = Path(__file__).parent / "child" / "start.py"
#: Exit code of a child that can no longer write to us (`child/protocol.py` has the same).
EXIT_NO_LINE: Final = 74
OLDEST_PYTHON: Final = (3, 8)
#: As values of Python it may take 25 times as much memory.
MAX_ANSWER_BYTES: Final = 16 << 20
MAX_STDERR_BYTES: Final = 64 << 10
#: How much longer than its own time limit a child is waited for, so that it can say what hung;
#: never more than that limit again.
GRACE_S: Final = 5.0


class Finished(msgspec.Struct, frozen=True, kw_only=True, tag="finished"):
    """It said all that it had to say; `errors` may hold something all the same."""


class Crashed(msgspec.Struct, frozen=True, kw_only=True, tag="crashed"):
    """A signal ended it."""

    signal: str


class TimedOut(msgspec.Struct, frozen=True, kw_only=True, tag="timed_out"):
    """It had to be ended at the time limit."""

    stage: str
    limit_s: float
    """What it was given, without the grace."""


class Exited(msgspec.Struct, frozen=True, kw_only=True, tag="exited"):
    """It ended by itself, too early: code of the target exits (a sitecustomize, `os._exit`)."""

    code: int


class NotStarted(msgspec.Struct, frozen=True, kw_only=True, tag="not_started"):
    """There is no interpreter there that could run the probes."""

    reason: str


class Broken(msgspec.Struct, frozen=True, kw_only=True, tag="broken"):
    """What came back is not an answer."""

    reason: str


Outcome: TypeAlias = Finished | Crashed | TimedOut | Exited | NotStarted | Broken


class ChildRun(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that one child said, and how it ended."""

    outcome: Outcome
    stage: str
    """The last stage that it announced."""
    hello: Hello | None
    facts: dict[str, dict[str, Any]]
    """Family -> name -> JSON value."""
    self_test: SelfTests | None
    key: dict[str, Any] | None
    suite: SuiteStart | None
    """The suite that was begun."""
    probes: tuple[Probe, ...]
    measured: tuple[Setup | Measurement | BatchSearch, ...] = ()
    """What strategies gave, in the order in which they ended."""
    confounds: tuple[Confound, ...]
    errors: tuple[ChildError, ...]
    stderr_tail: str
    seconds: float


def run_child(
    python: str | Path,
    request: ChildRequest,
    *,
    env: Mapping[str, str] | None = None,
    on_progress: Callable[[Progress | Stage], None] | None = None,
) -> ChildRun:
    """Run the child in the target's interpreter and collect its answer.

    Args:
        python: the target's interpreter.
        request: what to do, and within which time.
        env: the target's environment variables; None for ours.
        on_progress: called, in this thread, for every stage and every step of the suite.

    Never raises for what the interpreter or the code in the target does.

    """
    answer = _Answer(on_progress)
    with _empty_folder() as empty_folder:
        result = process.stream(
            [python, "-B", START, str(os.getpid())],
            on_line=answer.take,
            timeout_s=request.time_limit_s + min(GRACE_S, request.time_limit_s),
            stdin=msgspec.json.encode(request),
            env=env,
            cwd=empty_folder,
            max_stdout_bytes=MAX_ANSWER_BYTES,
            max_stderr_bytes=MAX_STDERR_BYTES,
        )
    if isinstance(result, process.NotStarted):
        return answer.collected(NotStarted(reason=result.reason), "", 0.0)
    stderr = result.stderr.decode("utf-8", "replace")
    outcome = _outcome(answer, result, stderr, limit_s=request.time_limit_s)
    return answer.collected(outcome, stderr, result.seconds)


def describe(run: ChildRun) -> str:
    """Say in one plain sentence how a child ended."""
    match run.outcome:
        case Finished():
            return "the probe finished"
        case Crashed(signal=name):
            return f"the target's Python crashed ({name}) in stage {run.stage}"
        case TimedOut(stage=stage, limit_s=limit_s):
            return f"{OUT_OF_TIME} {_while(stage)}, with a limit of {limit_s:.0f} s"
        case Exited(code=code) if run.hello is None:
            return (
                f"the target's Python ended (exit code {code}) before the probe could begin: "
                "it is no Python interpreter, or a sitecustomize or a .pth file ends it"
            )
        case Exited(code=code):
            return f"the target's Python ended early (exit code {code}) in stage {run.stage}"
        case NotStarted(reason=reason) | Broken(reason=reason):
            return reason


def _while(stage: str) -> str:
    return "while importing torch" if stage == "importing_torch" else f"in stage {stage}"


@contextlib.contextmanager
def _empty_folder() -> Iterator[Path]:
    """Give a fresh folder to start in, so that nothing of the user's current folder is found."""
    try:
        folder = Path(tempfile.mkdtemp(prefix="envkit-"))
    except OSError:  # nowhere to write: the root is not empty, but nobody's project either
        yield Path(START.anchor)
        return
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class _Answer:
    """Collects events line by line; after the hello, the first line that is none ends it.

    Before the hello standard output still belongs to the target: a sitecustomize may print there.
    """

    def __init__(self, on_progress: Callable[[Progress | Stage], None] | None) -> None:
        self._decoder = msgspec.json.Decoder(Event)
        self._on_progress = on_progress
        self._facts: dict[str, dict[str, Any]] = {}
        self._self_test: SelfTests | None = None
        self._key: dict[str, Any] | None = None
        self._suite: SuiteStart | None = None
        self._probes: list[Probe] = []
        self._measured: list[Setup | Measurement | BatchSearch] = []
        self._confounds: list[Confound] = []
        self._errors: list[ChildError] = []
        self.hello: Hello | None = None
        self.stage = "starting_python"
        self.complete = False
        self.fault = ""

    def take(self, line: bytes) -> bool:
        """Take one line; false when nothing more is wanted."""
        if len(line) > MAX_LINE_BYTES:
            self.fault = f"{_shown(line)} is longer than {MAX_LINE_BYTES} bytes"
            return False
        try:
            event: Event = clipped_texts(self._decoder.decode(line))
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            if self.hello is None:
                return True
            self.fault = f"{_shown(line)} is not an event: {error}"
            return False
        if (self.hello is None) != isinstance(event, Hello):
            self.fault = f"{_shown(line)} comes out of order: one hello is wanted, and first"
            return False
        self._keep(event)
        self.fault = self.fault or self._excess()
        return not (self.complete or self.fault)

    def _excess(self) -> str:
        """Say of what there is more than any suite has; empty as long as there is not."""
        kept = len(self._probes) + len(self._measured) + len(self._confounds) + len(self._errors)
        if kept > MAX_EVENTS or len(self._facts) > MAX_EVENTS:
            return f"the answer has more than {MAX_EVENTS} events"
        if sum(map(len, self._facts.values())) > MAX_FACTS:
            return f"the answer has more than {MAX_FACTS} facts"
        return ""

    def _keep(self, event: Event) -> None:
        match event:
            case Hello():
                self.hello = event
                self.stage = "starting_probe"
            case Stage(name=name):
                self.stage = name
                self._tell(event)
            case Progress():
                self._tell(event)
            case Done():
                self.complete = True
            case Setup() | Measurement() | BatchSearch():
                self._measured.append(event)
            case _:
                self._keep_value(event)

    @staticmethod
    def _learn(known: dict[str, Any], values: dict[str, Any]) -> None:
        # Two jobs look at the same time, in either order: what one of them could not read does
        # not undo the other's answer.
        for name, told in values.items():
            problem = why_unbearable(told)
            value = {"unreadable": problem} if problem else told
            could_not = isinstance(value, dict) and "unreadable" in value
            if name not in known or not could_not:
                known[name] = value

    def _keep_value(
        self, event: FactValues | SelfTests | KeyValues | SuiteStart | Probe | Confound | ChildError
    ) -> None:
        match event:
            case FactValues(family=family, values=values):
                self._learn(self._facts.setdefault(family, {}), values)
            case SelfTests():
                self._self_test = event
            case KeyValues(values=values):
                self._key = values
            case SuiteStart():
                self._suite = event
            case Probe():
                self._probes.append(event)
            case Confound():
                self._confounds.append(event)
            case ChildError():
                self._errors.append(event)

    def _tell(self, event: Progress | Stage) -> None:
        if self._on_progress is not None:
            self._on_progress(event)

    def collected(self, outcome: Outcome, stderr_tail: str, seconds: float) -> ChildRun:
        """Freeze what was collected."""
        return ChildRun(
            outcome=outcome,
            stage=self.stage,
            hello=self.hello,
            facts=self._facts,
            self_test=self._self_test,
            key=self._key,
            suite=self._suite,
            probes=tuple(self._probes),
            measured=tuple(self._measured),
            confounds=tuple(self._confounds),
            errors=tuple(self._errors),
            stderr_tail=stderr_tail,
            seconds=seconds,
        )


def _outcome(answer: _Answer, result: process.Completed, stderr: str, *, limit_s: float) -> Outcome:
    unfit = _unfit_interpreter(answer, result, stderr)
    if unfit:
        return NotStarted(reason=unfit)
    fault = _fault(answer, result)
    if fault:
        return Broken(reason=fault)
    if answer.complete:
        return Finished()
    if result.timed_out:
        return TimedOut(stage=answer.stage, limit_s=limit_s)
    if result.signal is not None:
        return Crashed(signal=result.signal)
    return Exited(code=result.returncode or 0)


def _unfit_interpreter(answer: _Answer, result: process.Completed, stderr: str) -> str:
    """Say why this interpreter cannot run the probes; empty if that is not what went wrong."""
    oldest = ".".join(map(str, OLDEST_PYTHON))
    hello = answer.hello
    if hello is not None and _numbers(hello.python) < OLDEST_PYTHON:
        return f"the target's Python is {hello.python}; the probes need {oldest} or newer"
    if hello is not None or result.timed_out or result.signal is not None:
        return ""
    if "SyntaxError" in stderr and str(START) in stderr:
        return f"the target's Python cannot read the probe; it needs {oldest} or newer"
    if result.returncode == 0 and not answer.fault and not result.truncated:
        return (
            "the program ran but the probe did not begin: it is no Python interpreter, or a "
            "sitecustomize or a .pth file ends it"
        )
    return ""


def _fault(answer: _Answer, result: process.Completed) -> str:
    """Say what is wrong with the answer itself; empty if nothing is."""
    if answer.fault:
        return answer.fault
    if answer.complete:
        return ""
    if result.truncated:
        return f"the answer was longer than {MAX_ANSWER_BYTES} bytes"
    if result.returncode == EXIT_NO_LINE:
        return f"code in the target closed the probe's line to envkit in stage {answer.stage}"
    return ""


def _numbers(version: str) -> tuple[int, ...]:
    parts = version.split(".")
    plain = all(part.isdecimal() and len(part) < 9 for part in parts)  # noqa: PLR2004
    return tuple(map(int, parts)) if plain else (0,)


def _shown(line: bytes) -> str:
    """Show the beginning of a line, whatever is in it."""
    text = ascii(line[:60].decode("utf-8", "replace"))
    return f"line {text}{'...' if len(line) > 60 else ''}"  # noqa: PLR2004

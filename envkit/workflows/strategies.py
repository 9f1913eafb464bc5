"""`envkit memory strategies`: measure remedies in the target's interpreter, and compare them."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from envkit import __version__
from envkit.errors import CannotCheckError, UsageError
from envkit.model.report import Target
from envkit.model.strategies import (
    BatchTrial,
    LargestBatch,
    Results,
    Strategies,
    StrategyMeasurement,
)
from envkit.probes.child.strategies.catalogue import BATCHES, Strategy, strategies_of
from envkit.probes.events import (
    AskedStrategies,
    BatchSearch,
    ChildRequest,
    Measurement,
    OwnStep,
    Progress,
    Setup,
    Stage,
    Tried,
)
from envkit.probes.launch import ChildRun
from envkit.workflows.child_answer import probes_problem
from envkit.workflows.verify import OnProgress, Tell

DEFAULT_TIMEOUT_S: Final = 1800.0
WORKLOADS: Final = tuple(BATCHES)
#: The name for the search among those of the strategies.
LARGEST: Final = "largest-batch"
BASELINE: Final = "baseline"
_SPARE: Final = 2000


class StrategiesRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked for on the command line."""

    workload: str | None = None
    call: OwnStep | None = None
    batch: int | None = None
    device: str = "auto"
    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    memory_fraction: float | None = None
    timeout_s: float = DEFAULT_TIMEOUT_S


#: Runs the child in the interpreter of the target.
Run: TypeAlias = Callable[[Path, ChildRequest, OnProgress], ChildRun]


def measure_strategies(
    request: StrategiesRequest, target: Target, run: Run, *, created: str, tell: Tell
) -> Strategies:
    """Measure what the remedies save.

    Raises:
        UsageError: the request makes no sense.
        CannotCheckError: nothing could be measured.

    """
    wanted = _wanted(request)
    if target.python is None:
        message = "The environment has no interpreter to measure with."
        raise CannotCheckError(message, next_step="Name one with --python EXE.")

    def on_progress(event: Progress | Stage) -> None:
        if isinstance(event, Progress):
            tell(event.done, event.total, event.name)
        else:
            tell(0, 0, event.name.replace("_", " "))

    answered = run(Path(target.python), wanted, on_progress)
    return _document(request, answered, created)


def exit_code(document: Strategies, *, must_fit: bool) -> int:
    """Return 1 if the workload must fit as it is and does not, 3 if that is not known, else 0."""
    baseline = next((one for one in document.strategies if one.name == BASELINE), None)
    if baseline is not None and baseline.status == "out_of_memory":
        return 1 if must_fit else 0
    if baseline is None:
        return 3 if must_fit else 0
    return 0 if baseline.status == "measured" else 3


def _wanted(request: StrategiesRequest) -> ChildRequest:
    if request.workload is not None and request.call is not None:
        message = "--workload and --call name two things to measure."
        raise UsageError(message, next_step="Leave one of the two out.")
    asked = AskedStrategies(
        workload=request.workload or WORKLOADS[0],
        call=request.call,
        batch=request.batch,
        memory_fraction=request.memory_fraction,
        names=_names(request),
        search=LARGEST in _chosen(request),
    )
    return ChildRequest(
        tasks=("strategies",),
        device="cuda:0" if request.device == "cuda" else request.device,
        time_limit_s=request.timeout_s,
        strategies=asked,
    )


def rows_of(request: StrategiesRequest) -> list[Strategy]:
    """Return the strategies that there are for what is asked for."""
    return strategies_of("call" if request.call else "workload")


def _chosen(request: StrategiesRequest) -> list[str]:
    """Return the names that are to be measured.

    Raises:
        UsageError: a name that there is not.

    """
    known = [*(row.name for row in rows_of(request)), LARGEST]
    unknown = [name for name in (*request.only, *request.skip) if name not in known]
    if unknown:
        message = f"There is no strategy {', '.join(unknown)} here."
        raise UsageError(message, next_step=f"There are: {', '.join(known)}.")
    wanted = request.only or known
    return [name for name in known if name in wanted and name not in request.skip]


def _names(request: StrategiesRequest) -> tuple[str, ...]:
    """Return the strategies to run, with those that they are compared to."""
    chosen = set(_chosen(request))
    rows = rows_of(request)
    needed = {row.against for row in rows if row.name in chosen and row.against}
    return tuple(row.name for row in rows if row.name in chosen | needed)


def _document(request: StrategiesRequest, run: ChildRun, created: str) -> Strategies:
    setup = next((one for one in run.measured if isinstance(one, Setup)), None)
    if setup is None:
        reason = probes_problem(run) or "the child measured nothing"
        message = f"Nothing could be measured: {reason}."[:_SPARE]
        raise CannotCheckError(message, next_step="`envkit verify` says what is the matter.")
    found = {one.name: one for one in run.measured if isinstance(one, Measurement)}
    search = next((one for one in run.measured if isinstance(one, BatchSearch)), None)
    return Strategies(
        envkit_version=__version__,
        created=created,
        torch=setup.torch,
        device=setup.device_name or "cpu",
        workload=setup.workload,
        batch=setup.batch,
        memory_limit_bytes=setup.limit_bytes,
        memory_fraction=request.memory_fraction,
        strategies=tuple(
            _measured(row, found, lost=probes_problem(run))
            for row in rows_of(request)
            if row.name in _names(request)
        ),
        largest_batch=None if search is None else _largest(search),
    )


def _measured(row: Strategy, found: Mapping[str, Measurement], *, lost: str) -> StrategyMeasurement:
    one = found.get(row.name)
    if one is None:  # the child ended before it came to it
        one = Measurement(name=row.name, status="not_run", reason=lost or "it was not reached")
    values = one.values
    results, difference = _compared(row, one, found.get(row.against))
    return StrategyMeasurement(
        name=row.name,
        against=row.against or None,
        status=one.status,
        reason=one.reason or values.why_no_peak,
        peak_allocated_bytes=values.allocated_bytes,
        peak_reserved_bytes=values.reserved_bytes,
        host_growth_bytes=values.host_growth_bytes,
        step_seconds=statistics.median(values.step_seconds) if values.step_seconds else None,
        timed_steps=len(values.step_seconds),
        results=results,
        loss_difference=difference,
        step_seconds_range=_range(values.step_seconds),
    )


def _range(seconds: Sequence[float]) -> tuple[float, float] | None:
    return (min(seconds), max(seconds)) if seconds else None


def _compared(
    row: Strategy, one: Measurement, other: Measurement | None
) -> tuple[Results, float | None]:
    """Say how results compare with the reference's, and by how much losses differ."""
    if not row.against:
        return "reference", None
    if other is None or row.other_samples or {one.status, other.status} != {"measured"}:
        return "not_compared", None
    difference = _loss_difference(one.values.losses, other.values.losses)
    digests = one.values.digest, other.values.digest
    if difference is None and None in digests:
        return "not_compared", None
    equal = digests[0] == digests[1] and not difference
    return "bitwise_equal" if equal else "different", difference


def _loss_difference(ours: Sequence[float | None], theirs: Sequence[float | None]) -> float | None:
    pairs = [
        (one, other)
        for one, other in zip(ours, theirs, strict=False)
        if one is not None and other is not None
    ]
    if not pairs:
        return None
    return max(abs(one - other) / max(abs(other), 1e-30) for one, other in pairs)


def _largest(search: BatchSearch) -> LargestBatch:
    return LargestBatch(
        status=search.status,
        reason=search.reason,
        batch=search.largest or None,
        smallest_that_failed=search.smallest_failed,
        held_steps=search.held_steps,
        trials=tuple(map(_trial, search.trials)),
        holds=tuple(map(_trial, search.holds)),
    )


def _trial(one: Tried) -> BatchTrial:
    return BatchTrial(batch=one.batch, peak_allocated_bytes=one.peak_bytes)

"""Runs the strategies one after the other, each in a child of its own, then looks for the batch.

One at a time, so that none disturbs another's time or memory; this process never touches CUDA.
"""

from __future__ import annotations

import time
from typing import Any, Dict, List, NamedTuple, Optional

from .. import torch_api
from ..fork import run_jobs
from ..jobs import Job, Result
from ..place import Place, Unmet
from . import batch_search
from .catalogue import BATCHES, CPU_BATCH, ON_CPU, Strategy, strategies_of
from .measure import limit, measure_strategy
from .shard import measure_sharded

#: Longest time of one strategy, compilation included.
JOB_LIMIT_S = 300.0
#: Steps that tell whether a batch fits: optimizer states are there from the second on.
TRIAL_STEPS = 3
#: Steps that the batch must hold in the end, and how often a smaller one is tried.
HELD_STEPS = 50
MOST_HOLDS = 3

SEED = 20261130


class _Work(NamedTuple):
    """What is measured, with everything concrete."""

    workload: str
    """Name of a recipe; empty for the user's own step."""
    batch: int
    device: str
    memory_fraction: Optional[float]
    call: str
    folder: str


def look_at_memory(args: Dict[str, Any], emit: Any) -> Dict[str, Any]:
    """Job: what the device is called and what this process can have of its memory."""
    import torch

    emit.stage("memory of the device")
    place = Place(torch, torch_api, args["device"])
    if not place.is_cuda:
        return {"device_name": "", "limit_bytes": None, "torch": str(torch.__version__)}
    place.start()
    limit(place, args["memory_fraction"])
    share = args["memory_fraction"] if args["memory_fraction"] is not None else 1.0
    return {
        "device_name": str(torch.cuda.get_device_name(place.index)),
        "limit_bytes": min(int(place.total_bytes() * share), place.free_bytes()),
        "torch": str(torch.__version__),
    }


def run(request: Dict[str, Any], emit: Any, device: str) -> None:
    """Measure what `request["strategies"]` asks for on a device that can be used.

    Emits `setup` once, `measurement` for every strategy, `batch_search` where it is asked for.
    """
    asked = request["strategies"]
    work = _work(asked, device)
    looked = run_jobs([Job("setup", look_at_memory, _common(work), 120.0)], emit, request)[0]
    if not looked.ok:
        looked.emit_error(emit, "setup")
        return
    emit("setup", workload=work.workload or work.call, batch=work.batch, **looked.value)
    runner = _Runner(work, request, emit)
    runner.measure(_chosen(asked), searches=asked["search"])
    if asked["search"]:
        runner.search(looked.value["limit_bytes"])


def _chosen(asked: Dict[str, Any]) -> List[Strategy]:
    rows = strategies_of("call" if asked["call"] else "workload")
    return [row for row in rows if row.name in asked["names"]]


def _work(asked: Dict[str, Any], device: str) -> _Work:
    workload = "" if asked["call"] else asked["workload"]
    usual = BATCHES.get(workload, CPU_BATCH)
    if device == "cpu":
        workload, usual = ON_CPU.get(workload, workload), CPU_BATCH
    return _Work(
        workload=workload,
        batch=asked["batch"] or usual,
        device=device,
        memory_fraction=asked["memory_fraction"],
        call=(asked["call"] or {}).get("target", ""),
        folder=(asked["call"] or {}).get("folder", ""),
    )


def _common(work: _Work) -> Dict[str, Any]:
    return dict(work._asdict(), seed=SEED)


class _Runner:
    """Starts a child for every measurement and reports what came of it."""

    def __init__(self, work: _Work, request: Dict[str, Any], emit: Any) -> None:
        self._work = work
        self._request = request
        self._emit = emit
        self._deadline = time.monotonic() + 0.9 * float(request["time_limit_s"])

    def measure(self, rows: List[Strategy], *, searches: bool) -> None:
        """Measure every strategy of a list."""
        total = len(rows) + searches
        for done, row in enumerate(rows):
            self._emit("progress", done=done, total=total, name=row.name)
            found = self._found(row, None, self._work.batch)
            self._emit("measurement", name=row.name, **found)
        self._emit("progress", done=len(rows), total=total, name="largest batch")

    def _found(self, row: Strategy, steps: Optional[int], batch: int) -> Dict[str, Any]:
        left_s = self._deadline - time.monotonic()
        if left_s <= 0:
            reason = "the time for everything was over (--timeout)"
            return {"status": "not_run", "reason": reason, "values": {}}
        args = dict(
            _common(self._work),
            name=row.name,
            kind=row.kind,
            changes=row.changes,
            conf=row.conf,
            in_effect=row.in_effect or {},
            steps=steps,
            batch=batch,
        )
        if row.kind == "shard":
            return measure_sharded(self._work.device, args, self._emit)
        job = Job(row.name, measure_strategy, args, min(JOB_LIMIT_S, left_s))
        return _outcome(run_jobs([job], self._emit, self._request)[0])

    def search(self, limit_bytes: Optional[int]) -> None:
        """Find the largest batch, and hold it."""
        rows = strategies_of("call" if self._work.call else "workload")
        why_not = "on the CPU the system ends a process that takes too much"
        found = None
        if limit_bytes is not None:
            try:
                found = self._searched(rows[0], limit_bytes)
            except Unmet as unmet:
                why_not = str(unmet)
        self._emit("batch_search", **(found or _not_searched(why_not)))

    def _searched(self, row: Strategy, limit_bytes: int) -> Dict[str, Any]:
        def trial(batch: int) -> Optional[int]:
            return self._peak(row, TRIAL_STEPS, batch)

        found = batch_search.search(trial, self._work.batch, limit_bytes)
        holds: List[Dict[str, Any]] = []
        largest = found.largest
        while largest and len(holds) < MOST_HOLDS:
            peak_bytes = self._peak(row, HELD_STEPS, largest)
            holds.append({"batch": largest, "peak_bytes": peak_bytes})
            if peak_bytes is not None:
                break
            largest -= max(1, largest // batch_search.EXACT_BELOW)
        held = bool(holds) and holds[-1]["peak_bytes"] is not None
        return {
            "status": "found" if held else "none_fits",
            "reason": "",
            "largest": holds[-1]["batch"] if held else 0,
            "smallest_failed": found.smallest_failed,
            "trials": [trial._asdict() for trial in found.trials],
            "holds": holds,
            "held_steps": HELD_STEPS,
        }

    def _peak(self, row: Strategy, steps: int, batch: int) -> Optional[int]:
        """Return the peak of a batch, None if it does not fit.

        Raises:
            Unmet: neither could be told.

        """
        self._emit.stage("batch {}".format(batch))
        found = self._found(row, steps, batch)
        if found["status"] == "out_of_memory":
            return None
        if found["status"] != "measured":
            message = "batch {}: {}".format(batch, found["reason"])
            raise Unmet(message)
        return int(found["values"]["allocated_bytes"])


def _not_searched(reason: str) -> Dict[str, Any]:
    return {"status": "not_run", "reason": reason, "trials": []}


def _outcome(result: Result) -> Dict[str, Any]:
    """Return what a job says, or how it ended without saying anything."""
    if result.ok:
        return dict(result.value)
    return {"status": "failed", "reason": result.reason[:2000], "values": {}}

"""Runs a suite: one child a family, several at once where memory allows, every probe reported.

The family `context` needs no child where the process that looked at the device measured it.

The process that calls `run` never touches the device, so that its children can be forked. Nothing
is pinned: flags, variables and allocator settings of the user act on the probes.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Set

from . import challenge, torch_api
from .challenge import SEED, seed_from
from .families import NEED_BYTES, SPREAD, measure_family, probe_event
from .fork import run_jobs
from .jobs import Job, Result
from .membership import SUITES, Probe, Suite, call_probes

__all__ = ["SEED", "SUITES", "run"]

#: The family of the user's own step.
CALL = "call"

#: A family takes a few seconds (1.1..1.3 s for a workload on an H200, FINGERPRINT.md); ten times
#: and more of that is a hang. The request's own limit can be shorter.
FAMILY_LIMIT_S = 120.0
#: But a compiler takes its time: 66 s on two slow cores, torch 2.13.
_LIMITS_S = {"compiled": 300.0, CALL: float("inf")}

#: Share of the time left that is kept for every round of families still to come, and for all.
KEPT_SHARE = 0.15
MOST_KEPT_SHARE = 0.6

#: The families that take longest first: the last one to start should be a short one. Those that
#: may lawfully be missing come at the end, where they cost no other its time.
_ORDER = (
    *("large", "checkpointing", "vit", "options", "resnet", "numerics", "gpt", "lifetimes"),
    "exercises",
    *("graphs", "quantised", "compiled"),
)


class Plan(NamedTuple):
    """What a request asks for."""

    suite: Suite
    device: str
    probes: List[Probe]
    seed: int
    memory_limit_bytes: Optional[int]
    """Device memory that one child may use, where the request bounds it."""
    folder: str = ""
    """Where the user's own step is imported from."""

    @property
    def kind(self) -> str:
        """`cpu` or `cuda`."""
        return self.device.split(":")[0]

    def families(self) -> Dict[str, List[Probe]]:
        """Return the probes by family."""
        found: Dict[str, List[Probe]] = {}
        for probe in self.probes:
            found.setdefault(probe.family, []).append(probe)
        return found


def plan(request: Dict[str, Any]) -> Plan:
    """Read a request whose device is `cpu` or `cuda:N`.

    Raises:
        ValueError: it names a suite or a probe that there is not.

    """
    if request["suite"] not in SUITES:
        message = "there is no suite {!r}".format(request["suite"])
        raise ValueError(message)
    suite = SUITES[request["suite"]]
    device = request["device"]
    kind = device.split(":")[0]
    members = [*suite.probes[kind], *challenge.probes(request.get("challenge"), kind)]
    call = request.get("call") or {}
    if call:
        members += call_probes(kind, call["target"])
    wanted = request.get("probes")
    unknown = sorted(set(wanted or ()) - {probe.name for probe in members})
    if unknown:
        message = "suite {} has no probe {}".format(suite.name, ", ".join(unknown))
        raise ValueError(message)
    return Plan(
        suite,
        device,
        [probe for probe in members if wanted is None or probe.name in wanted],
        seed_from(request.get("challenge")),
        request.get("memory_limit_bytes"),
        call.get("folder", ""),
    )


def run(
    request: Dict[str, Any],
    emit: Any,
    beside: Sequence[Job] = (),
    context: Optional[Dict[str, Any]] = None,
) -> None:
    """Run a suite and emit its `probe`, `confound` and `progress` events.

    Every probe of the plan gets exactly one event, whatever becomes of its family. The jobs
    `beside` start with the families. `context` is what `families.measure_context` found; without
    it that family is measured first.
    """
    wanted = plan(request)
    emit(
        "suite",
        name=wanted.suite.name,
        version=wanted.suite.version,
        seed=wanted.seed,
        probes=[probe.name for probe in wanted.probes],
    )
    _Runner(wanted, request, emit).run(beside, context)


def measure_at_root(args: Dict[str, Any], emit: Any) -> Dict[str, Any]:
    """Job: `measure_family` in a folder that is the same every time and nobody else's.

    What a library compiles while it runs has the current folder in it, so from a new folder
    CUDA's cache of compiled kernels never knows it: 0.9 s for those of a ViT (NVIDIA H200, torch
    2.11.0+cu130, 2026-12-01).
    """
    os.chdir(os.path.abspath(os.sep))
    # A core file of a crash would stay there.
    torch_api.attempt(_write_no_core)
    return measure_family(args, emit)


def _write_no_core() -> None:
    import resource  # not on Windows

    _, most = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, most))


class Tally:
    """Passes events on, and knows which probes have been reported."""

    def __init__(self, emit: Any, total: int) -> None:
        self.reported: Set[str] = set()
        self._emit = emit
        self._total = total

    def __call__(self, event: str, **fields: Any) -> None:
        """Send an event."""
        self._emit(event, **fields)
        if event == "probe":
            self._count(fields["name"])

    def forward(self, line: bytes) -> None:
        """Send a finished line of a child."""
        self._emit.forward(line)
        if line.startswith(b'{"event": "probe"'):
            self._count(json.loads(line.decode("ascii"))["name"])

    def _count(self, name: str) -> None:
        self.reported.add(name)
        self._emit("progress", done=len(self.reported), total=self._total, name=name)

    def close(self) -> None:
        """Give up the descriptor: for a forked child."""
        self._emit.close()


class _Runner:
    """Runs the families of a plan."""

    def __init__(self, wanted: Plan, request: Dict[str, Any], emit: Any) -> None:
        self._plan = wanted
        self._request = request
        self._tally = Tally(emit, len(wanted.probes))
        # What is left of the limit of all; the margin is for ending children and the last lines.
        self._deadline = time.monotonic() + 0.8 * float(request["time_limit_s"])
        self._families = wanted.families()

    def run(self, beside: Sequence[Job], context: Optional[Dict[str, Any]]) -> None:
        # The context before all others: it tells how much memory there is to share out, and what
        # is used outside the allocator can only be seen while none of them runs.
        free = (self._context() if context is None else self._known(context)).get("free_bytes")
        families = [name for name in _ORDER if name in self._families]
        if self._plan.kind == "cuda":
            families = [name for name in families if self._fits(name, free)]
        self._measure(families, self._at_once(families, free), beside)
        # Alone, one after the other: they use every GPU.
        spread = [name for name in SPREAD if name in self._families]
        if self._plan.kind == "cuda":
            spread = [name for name in spread if self._fits(name, free)]
        self._measure(spread, 1)
        # The user's own step alone and last: nobody knows what it takes.
        self._measure([CALL], 1)

    def _context(self) -> Dict[str, Any]:
        for result in self._measure(["context"], 1):
            if result.ok:
                facts: Dict[str, Any] = result.value
                return facts
        return {}

    def _known(self, context: Dict[str, Any]) -> Dict[str, Any]:
        """Report what was found before the suite began, as far as it is wanted."""
        for event in context["events"] if "context" in self._families else ():
            self._tally(**event)
        facts: Dict[str, Any] = context["facts"]
        return facts

    def _fits(self, family: str, free: Optional[int]) -> bool:
        """Whether a family has the memory that it may need; if not, its probes are reported."""
        limits = [size for size in (free, self._plan.memory_limit_bytes) if size is not None]
        if not limits or NEED_BYTES[family] <= min(limits):
            return True
        text = "needs up to {} bytes of device memory and may have {}"
        reason = text.format(NEED_BYTES[family], min(limits))
        for probe in self._families[family]:
            lack = "not_run" if probe.optional else "failed"
            self._tally("probe", **probe_event(probe, 0.0, **{lack: reason}))
        return False

    def _at_once(self, families: Sequence[str], free: Optional[int]) -> int:
        if self._plan.kind == "cpu":
            threads = sys.modules["torch"].get_num_threads()
            return max(1, (os.cpu_count() or 1) // max(1, threads))
        if free is None or not families:
            return 1
        return max(1, free // max(NEED_BYTES[name] for name in families))

    def _measure(
        self, families: Sequence[str], at_once: int, beside: Sequence[Job] = ()
    ) -> List[Result]:
        """Run families, `at_once` at a time, and the jobs `beside` with the first of them.

        A round may use all the time that is left but what is kept for those after it: one that
        hangs does not cost the others their answers.
        """
        present = [name for name in families if name in self._families]
        results: List[Result] = []
        for first in range(0, len(present), at_once):
            chosen = present[first : first + at_once]
            later = -(-len(present[first + at_once :]) // at_once)
            later += CALL in self._families and chosen != [CALL]
            left_s = self._deadline - time.monotonic()
            limit_s = max(1.0, left_s * (1 - min(MOST_KEPT_SHARE, later * KEPT_SHARE)))
            jobs = [self._job(name, limit_s) for name in chosen]
            together = at_once + len(beside)
            ended = run_jobs([*jobs, *beside], self._tally, self._request, together)
            for name, result in zip(chosen, ended):
                self._unreported(name, result)
            self._tell_failures(ended[len(jobs) :])
            results += ended[: len(jobs)]
            beside = ()
        if beside:  # where no family is left to run
            self._tell_failures(run_jobs(list(beside), self._tally, self._request))
        return results

    def _tell_failures(self, results: Sequence[Result]) -> None:
        for result in results:
            if not result.ok:
                result.emit_error(self._tally, result.name)

    def _job(self, family: str, left_s: float) -> Job:
        limit_s = _LIMITS_S.get(family, FAMILY_LIMIT_S)
        args = {
            "family": family,
            "device": self._plan.device,
            "seed": self._plan.seed,
            "folder": self._plan.folder,
            "probes": [list(probe) for probe in self._families[family]],
        }
        # The user's own step may write where it was started: into a folder that is thrown away.
        function = measure_family if family == CALL else measure_at_root
        return Job(family, function, args, min(limit_s, left_s), cut=left_s < limit_s)

    def _unreported(self, family: str, result: Result) -> None:
        reason = "the child of {} ended early: {}".format(family, result.reason)
        if result.stage:
            reason += " (in stage {!r})".format(result.stage)
        for probe in self._families[family]:
            if probe.name not in self._tally.reported:
                self._tally("probe", **probe_event(probe, result.seconds, failed=reason))

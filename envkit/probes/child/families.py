"""One family of probes in a child of its own: from a fresh process to its `probe` events."""

from __future__ import annotations

import time
from typing import Any, Callable, Dict, List, Optional

from . import context, torch_api
from .exercises import probes as exercise_probes
from .membership import SUITES, Probe
from .place import Place, Unmet
from .protocol import CONTEXT_STAGE, Kept
from .repeats import judge

#: Device memory that a child may need with its context; FINGERPRINT.md: at most 3 GB a child, which
#: all keep to but `large`.
NEED_BYTES = {
    "context": 1 << 30,
    "exercises": 2 << 30,
    "vit": 3000000000,
    "resnet": 3000000000,
    "gpt": 3000000000,
    "options": 2 << 30,
    "lifetimes": 2 << 30,
    "checkpointing": 2 << 30,
    "numerics": 2 << 30,
    "large": 10000000000,
    "compiled": 3000000000,
    "graphs": 2 << 30,
    "quantised": 2 << 30,
    "collectives": 2 << 30,
    "sharded": 3000000000,
}

#: Families that start processes of their own on the devices, and use none themselves.
SPREAD = ("collectives", "sharded")


def measure_family(args: Dict[str, Any], emit: Any) -> Dict[str, Any]:
    """Job: measure the probes of a family; returns what later families need to know.

    `args`: family, device, seed, probes (the rows of `membership.Probe` as lists), and for the
    user's own step the folder that it is imported from.
    """
    import torch

    return Family(Place(torch, torch_api, args["device"]), args, emit).measure()


def measure_context(device: str, emit: Any) -> Optional[Dict[str, Any]]:
    """Measure the family `context` in a process that has a context already.

    Returns its `facts` and its `events`; the suite sends those on if it has this family. None where
    the device gave no answer: the suite then asks in a child of its own.
    """
    kept = Kept()
    probes = [list(probe) for probe in SUITES["quick"].probes["cuda"] if probe.family == "context"]
    args = {"family": "context", "device": device, "seed": 0, "probes": probes}
    emit.stage(CONTEXT_STAGE)
    facts = torch_api.attempt(lambda: measure_family(args, kept))
    return None if isinstance(facts, torch_api.Missing) else {"facts": facts, "events": kept.events}


class Family:
    """Runs the groups of a family one after the other; one that fails does not end the others."""

    def __init__(self, place: Place, args: Dict[str, Any], emit: Any) -> None:
        self._place = place
        self._emit = emit
        self._name: str = args["family"]
        self._seed: int = args["seed"]
        self._folder: str = args.get("folder", "")
        self._probes = [Probe(*row) for row in args["probes"]]
        self._facts: Dict[str, Any] = {}

    def measure(self) -> Dict[str, Any]:
        """Measure every group; return the facts that were found on the way."""
        self._emit.stage(self._name + ": start")
        if self._name == "checkpointing":
            # Checkpointing imports it anyway: now, while the other children wait for CUDA to start.
            torch_api.import_compiler(self._place.torch)
        if self._name not in SPREAD:
            self._place.start()
        groups: Dict[str, List[Probe]] = {}
        for probe in self._probes:
            groups.setdefault(probe.group, []).append(probe)
        for group, members in groups.items():
            self._emit.stage("{}: {}".format(self._name, group))
            self._measure_group(group, members)
        return self._facts

    def _measure_group(self, group: str, members: List[Probe]) -> None:
        report = GroupReport(self._emit, members)
        # Whatever torch raises here is this group's result, not the end of the family.
        ending = torch_api.attempt(lambda: self._run(group, report))
        if isinstance(ending, torch_api.Missing):
            report.rest(failed=ending.reason, **self._without_answer(group))
        elif ending is not None:
            report.rest(not_run=ending, **self._without_answer(group))
        else:
            report.rest(failed="the probe ended without a value")
        if self._name not in SPREAD:
            torch_api.attempt(self._place.clean)

    def _without_answer(self, group: str) -> Dict[str, Any]:
        if self._name == "exercises":
            return exercise_probes.unanswered(group, self._seed)
        return {}

    def _run(self, group: str, report: "GroupReport") -> Optional[str]:
        """Return why a precondition could not be set, None if all went well."""
        try:
            self._measurer()(self._place, group, self._seed, report)
        except Unmet as unmet:
            return str(unmet)
        return None

    def _measurer(self) -> Callable[..., None]:
        if self._name == "exercises":
            return exercise_probes.measure
        if self._name == "context":
            return self._measure_context
        if self._name == "numerics":
            from .numerics import probes as numeric_probes

            return numeric_probes.measure
        if self._name == "call":
            return self._measure_call
        if self._name in SPREAD:
            return self._measure_spread
        from .workloads import probes as workload_probes

        return workload_probes.measure

    def _measure_call(
        self, place: Place, group: str, seed: int, report: Callable[..., None]
    ) -> None:
        from .workloads import call

        call.measure(place, group, seed, report, folder=self._folder)

    def _measure_spread(
        self, place: Place, _group: str, seed: int, report: Callable[..., None]
    ) -> None:
        from .spread import collectives, sharded

        spread = collectives if self._name == "collectives" else sharded
        spread.measure(place, seed, report, self._emit)

    def _measure_context(
        self, place: Place, group: str, seed: int, report: Callable[..., None]
    ) -> None:
        self._facts.update(context.measure(place, group, seed, report))
        for confound in context.confounds(place):
            self._emit("confound", **confound)


class GroupReport:
    """Turns what a group found into `probe` events, each probe once."""

    def __init__(self, emit: Any, members: List[Probe]) -> None:
        self._emit = emit
        self._waiting = {probe.part: probe for probe in members}
        self._started = time.monotonic()

    def __call__(self, part: str = "", **found: Any) -> None:
        """Report a probe of this group: `runs` (at least two), or `not_run` or `failed` (why).

        `observed` and `operations` go into the event as they are: they are in no digest.
        """
        probe = self._waiting.pop(part, None)
        if probe is not None:
            seconds = round(time.monotonic() - self._started, 4)
            self._emit("probe", **probe_event(probe, seconds, **found))

    def rest(self, **found: Any) -> None:
        """Report every probe that was not reported, all alike."""
        for part in list(self._waiting):
            self(part, **found)


def probe_event(
    probe: Probe,
    seconds: float,
    *,
    runs: Any = None,
    not_run: str = "",
    failed: str = "",
    **extra: Any,
) -> Dict[str, Any]:
    """Return the fields of a `probe` event."""
    event = {
        "name": probe.name,
        "layer": probe.layer,
        "family": probe.family,
        "must_repeat": probe.must_repeat,
        "depends_on": list(probe.depends_on),
        "optional": probe.optional,
        "status": "not_run" if not_run else "failed",
        "values": None,
        "reason": not_run or failed,
        "seconds": seconds,
        "spread": None,
    }
    if runs is not None:
        verdict = judge(runs)
        event.update(status=verdict.status, values=runs[0], spread=verdict.spread)
    return dict(event, **{name: value for name, value in extra.items() if value is not None})

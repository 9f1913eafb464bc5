"""`--device all`: one child for each GPU, several at a time, and what they say held together."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import msgspec

from envkit.model.facts import Facts, GpuFacts, Sibling
from envkit.model.fingerprint import Fingerprint
from envkit.model.observed import Known, NotApplicable, Observed, value_of
from envkit.probes.events import ChildRequest, Progress, Stage
from envkit.probes.launch import ChildRun
from envkit.workflows.background import Background
from envkit.workflows.child_answer import probes_problem
from envkit.workflows.siblings import Member, compare_members

#: Most children at a time: each imports torch and starts processes of its own.
MOST_AT_ONCE: Final = 8
MOST_GPUS: Final = 64
OnProgress: TypeAlias = Callable[[Progress | Stage], None]
#: Runs a child; what it says of its progress goes to the function.
Run: TypeAlias = Callable[[ChildRequest, OnProgress], ChildRun]
#: What was read and measured of one device.
Measured: TypeAlias = tuple[Facts, Fingerprint | None]


def run_on_each(wanted: ChildRequest, run: Run, on_progress: OnProgress) -> tuple[ChildRun, ...]:
    """Ask torch how many GPUs it sees, then measure all of them; at least one run comes back.

    Only the first tells of its progress: it stands for all.
    """
    looked = run(msgspec.structs.replace(wanted, tasks=("facts",)), on_progress)
    count = looked.facts.get("torch", {}).get("device_count")
    if type(count) is not int or count < 1:
        return (looked,)
    asked = [
        msgspec.structs.replace(wanted, device=f"cuda:{index}")
        for index in range(min(count, MOST_GPUS))
    ]
    runs: list[ChildRun] = []
    at_once = max(1, min(MOST_AT_ONCE, (os.cpu_count() or 2) // 2))
    for first in range(0, len(asked), at_once):
        others = [
            Background(lambda one=one: run(one, _untold))  # type: ignore[misc]
            for one in asked[max(first, 1) : first + at_once]
        ]
        if first == 0:
            runs.append(run(asked[0], on_progress))
        runs += [one.result() for one in others]
    return tuple(runs)


def _untold(_event: Progress | Stage) -> None:
    """Tell nobody."""


def with_siblings(
    gpus: GpuFacts, device: str, runs: Sequence[ChildRun], measured: Sequence[Measured]
) -> GpuFacts:
    """Add how the devices compare, where several were asked for."""
    if device != "all":
        return gpus
    return msgspec.structs.replace(gpus, siblings=_siblings(gpus, runs, measured))


def _siblings(
    gpus: GpuFacts, runs: Sequence[ChildRun], measured: Sequence[Measured]
) -> Observed[tuple[Sibling, ...]]:
    if not any(run.suite is not None for run in runs):
        return NotApplicable(reason="no device was measured", source="--device all")
    members = [
        Member(
            place=f"cuda:{number}",
            name=_name(facts, number),
            fingerprint=fingerprint,
            problem=probes_problem(run),
            wrong=_wrong(run),
        )
        for number, (run, (facts, fingerprint)) in enumerate(zip(runs, measured, strict=True))
    ]
    source = "fingerprints of all GPUs that torch sees"
    devices = value_of(gpus.devices)
    hidden = 0 if devices is None else len(devices) - len(members)
    if hidden > 0:
        source += f"; {hidden} more {'is' if hidden == 1 else 'are'} hidden from it"
    return Known(value=compare_members(members), source=source)


def _name(facts: Facts, number: int) -> str:
    devices = value_of(facts.torch.devices) or ()
    return next((one.name for one in devices if one.index == number), "")


def _wrong(run: ChildRun) -> str:
    tests = run.self_test.tests if run.self_test is not None else ()
    bad = [one for one in tests if one.status == "fail" and one.kind == "wrong_result"]
    return f"self-test {bad[0].name}: {bad[0].reason}" if bad else ""

"""`verify` on a live machine: choose the target, read, run the child, judge.

What blocks runs at the same time: NVML and the files of the environment are read in threads while
torch starts in the target's interpreter. The readers are handed in, so that tests need no machine.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from envkit.model.facts import DriverFacts, Facts, GpuFacts, RequestFacts
from envkit.model.fingerprint import Fingerprint
from envkit.model.observed import Known, NotApplicable, Observed
from envkit.model.report import Report
from envkit.probes.events import ChildRequest, Progress, Stage
from envkit.probes.launch import ChildRun
from envkit.render.redact import Identity, redact_document
from envkit.workflows.background import Background
from envkit.workflows.conclude import conclude, now
from envkit.workflows.request import NO_FINGERPRINT, VerifyRequest
from envkit.workflows.target import ChosenTarget, TargetChoice

#: Told how far the probes are: done, total (0: not known), name.
Tell = Callable[[int, int, str], None]
OnProgress = Callable[[Progress | Stage], None]


@dataclass(frozen=True, kw_only=True)
class Readers:
    """Everything that touches the machine."""

    choose: Callable[[TargetChoice], ChosenTarget]
    driver_and_gpus: Callable[[], tuple[DriverFacts, GpuFacts]]
    files: Callable[[ChosenTarget], Facts]
    """Host, variables, Python, conda, pip and torch as files describe them."""
    child: Callable[[ChosenTarget, ChildRequest, OnProgress], ChildRun]
    imported: Callable[[ChosenTarget, Facts, ChildRun], Facts]
    """Adds to the facts of the files what the interpreter and torch said."""
    fingerprint: Callable[[ChildRun, VerifyRequest], Fingerprint | None]
    identity: Callable[[], Identity]
    clock: Callable[[], str] = now


def verify(
    choice: TargetChoice, request: VerifyRequest, readers: Readers, tell: Tell
) -> Report:
    """Judge this machine and an environment on it."""
    target = readers.choose(choice)
    driver_and_gpus = Background(readers.driver_and_gpus)
    files = Background(lambda: readers.files(target))
    run = _run_child(target, request, readers, tell)
    facts = files.result()
    if run is not None:
        facts = readers.imported(target, facts, run)
    driver, gpus = driver_and_gpus.result()
    fingerprint = None if run is None else readers.fingerprint(run, request)
    facts = msgspec.structs.replace(
        facts, request=_request_facts(request, run, fingerprint), driver=driver, gpus=gpus
    )
    identity = readers.identity()
    return conclude(
        redact_document(facts, identity),
        target=redact_document(target.target, identity),
        created=readers.clock(),
        label=request.label,
        fingerprint=fingerprint,
    )

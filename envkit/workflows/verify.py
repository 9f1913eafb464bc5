"""`verify` on a live machine: choose the target, read, run the child, judge.

What blocks runs at the same time: NVML and the files of the environment are read in threads while
torch starts in the target's interpreter. The readers are handed in, so that tests need no machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Protocol

import msgspec

from envkit import process
from envkit.model.facts import CondaFacts, DriverFacts, Facts, FilesFacts, GpuFacts, PipFacts, Rank
from envkit.model.fingerprint import Fingerprint
from envkit.model.observed import Known, NotApplicable, Observed, Unreadable, value_of
from envkit.model.report import Report, Target
from envkit.probes.events import ChildRequest, Progress, Stage
from envkit.probes.launch import ChildRun
from envkit.render.redact import Identity, redact_document, redact_reasons
from envkit.workflows.all_gpus import run_on_each, with_siblings
from envkit.workflows.asked import Asked
from envkit.workflows.background import Background
from envkit.workflows.baselines import find_yardsticks, hold_against
from envkit.workflows.child_answer import probes_problem, refused_switch
from envkit.workflows.conclude import conclude
from envkit.workflows.contract import Named
from envkit.workflows.contract_facts import asked_facts
from envkit.workflows.fingerprint import conformity_of
from envkit.workflows.request import NO_FINGERPRINT, VerifyRequest
from envkit.workflows.save import DEFAULT_LABEL

#: The stage from which on the child is a user of the GPUs itself.
USES_GPU: Final = "cuda_init"
#: Choosing the target takes less, unless an interpreter has to be asked that does not answer.
QUICK_S: Final = 1.0
#: Told how far the probes are: done, total (0: not known), name.
Tell = Callable[[int, int, str], None]
#: Waits for the check of files, and returns what it found.
FilesOf = Callable[[CondaFacts, PipFacts, Tell], FilesFacts]
OnProgress = Callable[[Progress | Stage], None]


class FingerprintOf(Protocol):
    """Puts a child's probes together; None when there is nothing to put together."""

    def __call__(
        self, run: ChildRun, *, challenge: str | None, processor: str | None
    ) -> Fingerprint | None:
        """Return the fingerprint."""


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What was read and measured, for one device."""

    device: str
    """`cuda:1`; empty for the one that stands for the machine."""
    facts: Facts
    fingerprint: Fingerprint | None


@dataclass(frozen=True, kw_only=True)
class Readers:
    """Everything that touches the machine."""

    choose: Callable[[], Target]
    driver_and_gpus: Callable[[], tuple[DriverFacts, GpuFacts]]
    files: Callable[[Target], Facts]
    """Host, variables, Python, conda, pip and torch as files describe them."""
    contract: Callable[[Asked, Target], Named]
    """The spec and the lock that were named; raises for what the user named and is not there."""
    compared: Callable[[Target, Named, Facts], Facts]
    """Adds what the environment is to be, and what pip did to conda's packages."""
    deeply: Callable[[Target], AbstractContextManager[FilesOf]]
    """The check of the files of the environment; it starts when it is entered."""
    child: Callable[[Path, ChildRequest, OnProgress], ChildRun]
    imported: Callable[[Target, Facts, ChildRun], Facts]
    """Adds to the facts of the files what the interpreter and torch said."""
    fingerprint: FingerprintOf
    identity: Identity
    clock: Callable[[], str]


def verify(request: VerifyRequest, readers: Readers, tell: Tell) -> Report:
    """Judge this machine and an environment on it."""
    return verify_each(request, readers, tell)[0]


def verify_each(request: VerifyRequest, readers: Readers, tell: Tell) -> tuple[Report, ...]:
    """Judge this machine; with `--device all` a report of each further device follows its own."""
    started_s = time.monotonic()
    target = readers.choose()
    waited_s = time.monotonic() - started_s
    if waited_s > QUICK_S:  # an interpreter did not answer: the child has only what is left
        left_s = max(1.0, request.timeout_s - waited_s)
        request = msgspec.structs.replace(request, timeout_s=left_s)
    try:
        seen = _look_deeply(target, request, readers, tell)
    finally:
        process.end_all()  # after Ctrl-C the threads may have programs running
    identity = readers.identity
    created, target = readers.clock(), redact_document(target, identity)
    return tuple(
        conclude(
            redact_document(one.facts, identity),
            target=target,
            created=created,
            label=label_of(request.label, one.device),
            fingerprint=(
                None if one.fingerprint is None else redact_reasons(one.fingerprint, identity)
            ),
        )
        for one in seen
    )


def label_of(label: str | None, device: str) -> str | None:
    """Return the label of a report: that of the machine, with the device behind it if further."""
    return f"{label or DEFAULT_LABEL}-{device.replace(':', '-')}" if device else label


def _look_deeply(
    target: Target, request: VerifyRequest, readers: Readers, tell: Tell
) -> tuple[Seen, ...]:
    """Look at the machine, and at every file if that was asked for.

    Files are hashed beside everything else, but not beside probes, whose time is limited.
    """
    if not request.contract.deep:
        return _look(target, request, readers, tell)
    check = readers.deeply(target)
    seen = None if request.suite.value == "none" else _look(target, request, readers, tell)
    with check as files_of:
        seen = seen or _look(target, request, readers, tell)
        found = files_of(seen[0].facts.conda, seen[0].facts.pip, tell)
    return tuple(
        replace(one, facts=msgspec.structs.replace(one.facts, files=found)) for one in seen
    )


def _look(target: Target, request: VerifyRequest, readers: Readers, tell: Tell) -> tuple[Seen, ...]:
    driver_and_gpus = _DriverAndGpus(readers.driver_and_gpus, tell)
    files = Background(lambda: readers.files(target))
    named = readers.contract(request.contract, target)  # before minutes of work, not after
    yardsticks = find_yardsticks(request.against, named.spec)
    runs = _run_children(target, request, readers, driver_and_gpus.on_progress)
    static = readers.compared(target, named, files.result())

    def measured_by(run: ChildRun) -> tuple[Facts, Fingerprint | None]:
        facts = readers.imported(target, static, run)
        processor = value_of(facts.host.cpu_model)
        fingerprint = readers.fingerprint(run, challenge=request.challenge, processor=processor)
        return _with_conformity(facts, fingerprint), fingerprint

    measured = [measured_by(run) for run in runs]
    works = any(value_of(facts.torch.cuda_available) is True for facts, _ in measured)
    driver, gpus = driver_and_gpus.result(child_had_cuda=works)
    gpus = with_siblings(gpus, request.device.value, runs, measured)
    seen = []
    for number, (facts, fingerprint) in enumerate(measured or [(static, None)]):
        run = runs[number] if runs else None
        device = f"cuda:{number}" if number else ""
        mine = request.facts(_suite_fact(request, run, fingerprint))
        if device:
            mine = msgspec.structs.replace(mine, device=Known(value=device, source="--device all"))
        whole = msgspec.structs.replace(
            facts, request=asked_facts(mine, named), driver=driver, gpus=gpus
        )
        held = hold_against(yardsticks, whole, fingerprint, whole=True)
        seen.append(Seen(device=device, facts=held, fingerprint=fingerprint))
    return tuple(seen)


def _run_children(
    target: Target, request: VerifyRequest, readers: Readers, on_progress: OnProgress
) -> tuple[ChildRun, ...]:
    """Run one child, or with `--device all` one for each GPU that torch sees."""
    if target.python is None:
        return ()
    device, suite = request.device.value, request.suite.value
    wanted = ChildRequest(
        tasks=("facts",) if suite == "none" else ("facts", "fingerprint"),
        device=_device(device, request.rank),
        suite="auto" if suite == "none" else suite,
        flags=request.flags,
        challenge=request.challenge,
        call=request.call,
        time_limit_s=request.timeout_s,
    )
    python = Path(target.python)
    if device != "all" or suite == "none":
        return (readers.child(python, wanted, on_progress),)
    return run_on_each(wanted, lambda one, tell: readers.child(python, one, tell), on_progress)


def _device(asked: str, rank: Rank | None) -> str:
    """Name the device as the child takes it; a rank takes the GPU of its number."""
    if rank is not None and asked in {"auto", "cuda"}:
        return f"auto:{rank.local}"
    return "cuda:0" if asked in {"cuda", "all"} else asked


class _DriverAndGpus:
    """They are read beside the child; whether that was before it used a GPU itself."""

    def __init__(self, read: Callable[[], tuple[DriverFacts, GpuFacts]], tell: Tell) -> None:
        self._reading = Background(read)
        self._tell = tell
        self._too_late = False

    def on_progress(self, event: Progress | Stage) -> None:
        """Pass on how far the child is."""
        if isinstance(event, Progress):
            self._tell(event.done, event.total, event.name)
            return
        if event.name == USES_GPU and not self._reading.done:
            self._too_late = True
        self._tell(0, 0, event.name.replace("_", " "))

    def result(self, *, child_had_cuda: bool) -> tuple[DriverFacts, GpuFacts]:
        """Wait for the facts; a child for which CUDA never started held nothing on a GPU."""
        driver, gpus = self._reading.result()
        return driver, _without_use(gpus) if self._too_late and child_had_cuda else gpus


def _without_use(gpus: GpuFacts) -> GpuFacts:
    """Take back who uses the GPUs: our own child may be among those that were seen."""
    if not isinstance(gpus.devices, Known):
        return gpus
    reason = "it was read when envkit's own probes used the GPUs already"
    untold = Unreadable(reason=reason, source=gpus.devices.source)
    devices = tuple(
        msgspec.structs.replace(one, processes=untold, free_bytes=untold)
        for one in gpus.devices.value
    )
    seen = msgspec.structs.replace(gpus.devices, value=devices)
    return msgspec.structs.replace(gpus, devices=seen)


def _with_conformity(facts: Facts, fingerprint: Fingerprint | None) -> Facts:
    if fingerprint is None:
        return facts
    conforms = conformity_of(fingerprint)
    torch = msgspec.structs.replace(facts.torch, allocator_conforms=conforms)
    return msgspec.structs.replace(facts, torch=torch)


def _suite_fact(
    request: VerifyRequest, run: ChildRun | None, fingerprint: Fingerprint | None
) -> Observed[str]:
    """Return the suite that was run, or why none was."""
    refused = "" if run is None else refused_switch(run)
    if refused:
        return Unreadable(reason=refused, source="--set")
    if request.suite.value == "none":
        return NO_FINGERPRINT
    if run is None:
        return NotApplicable(reason="the target has no interpreter", source="choice of the target")
    if fingerprint is None:
        reason = probes_problem(run) or "the probes gave nothing"
        return Unreadable(reason=reason, source="child")
    source = request.suite.source
    if request.suite.value == "auto":
        on_gpu = fingerprint.key.capability is not None
        source = "default with a GPU" if on_gpu else "default without a GPU"
    return Known(value=fingerprint.suite.name, source=source)

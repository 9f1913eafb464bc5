"""From findings and checks to the answer: status, exit code and one plain sentence."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from envkit.model.facts import Facts
from envkit.model.finding import Check, Finding, Severity, Status
from envkit.model.observed import NOT_RECORDED, Absent, NotApplicable, Unreadable, value_of
from envkit.model.report import OUT_OF_TIME, Verdict
from envkit.rules.engine import observed
from envkit.rules.memory import no_room_to_start, what_did_not_fit
from envkit.rules.registry import BY_CODE
from envkit.rules.subject import Subject

#: Exit codes, the one that outranks first; 130 is a person who wants to stop.
PRECEDENCE = (130, 2, 4, 1, 3, 0)

#: Rules about variables: that nobody set one says nothing of the machine.
_ABOUT_VARIABLES = ("ALC", "GPU007")


class FailOn(enum.IntEnum):
    """What fails a verdict (`--fail-on`); each level includes the ones before."""

    ERROR = 1
    WARNING = 2
    UNKNOWN = 3


class Probes(msgspec.Struct, frozen=True, kw_only=True):
    """How the fingerprint went."""

    outcome: Literal["complete", "not_asked", "incomplete"] = "not_asked"
    reason: str = ""
    """Why it is not complete: out of memory, out of time ..."""
    on_gpu: bool = False


class Blocked(msgspec.Struct, frozen=True, kw_only=True):
    """Something that the verdict needs and that could not be checked."""

    code: str
    reason: str


def worst(codes: Iterable[int]) -> int:
    """Return the exit code that stands for several: 130 > 2 > 4 > 1 > 3 > 0."""
    return min(codes, key=PRECEDENCE.index, default=0)


def decide(
    facts: Facts,
    findings: Sequence[Finding],
    checks: Sequence[Check],
    *,
    probes: Probes = Probes(),  # noqa: B008  (frozen)
    fail_on: FailOn = FailOn.ERROR,
) -> Verdict:
    """Give the verdict of `envkit verify`.

    Exit code 1 where a finding fails it, else 3 where something that it needs could not be
    checked, else 0. A fact that a document does not hold is no reason for 3; one that was looked
    for and could not be read is. Everything is taken from the arguments, so a saved report gives
    the verdict that it gave when it was made.
    """
    subject = Subject(facts)
    failing = [one for one in findings if _fails(one, fail_on)]
    if failing:
        return Verdict(status="fail", exit_code=1, headline=_fail_headline(failing))
    no_gpu = subject.needs_gpu and not probes.on_gpu and _cannot_use_a_gpu(subject)
    if no_gpu and not no_room_to_start(subject):
        headline = f"A GPU is needed, and {subject.torch_text} cannot use one here."
        return Verdict(status="fail", exit_code=1, headline=headline)
    blocked = _blocked(subject, findings, checks, probes=probes, fail_on=fail_on)
    if blocked is not None:
        return Verdict(status="incomplete", exit_code=3, headline=_blocked_headline(blocked))
    return Verdict(status="pass", exit_code=0, headline=_pass_headline(subject, findings, probes))


def _fails(finding: Finding, fail_on: FailOn) -> bool:
    if finding.severity is Severity.WARNING:
        return fail_on >= FailOn.WARNING
    return finding.severity is Severity.ERROR


def _cannot_use_a_gpu(subject: Subject) -> bool:
    if subject.cuda_works is False or (subject.cpu_build and subject.torch is not None):
        return True
    asked = (value_of(subject.facts.request.device) or "").partition(":")[2]
    devices = value_of(subject.facts.torch.devices)
    # `cuda:7` where torch sees one device: the GPU that is needed is not there.
    return bool(asked) and devices is not None and asked not in {str(one.index) for one in devices}


# -- what could not be checked ------------------------------------------------------------------


def _blocked(
    subject: Subject,
    findings: Sequence[Finding],
    checks: Sequence[Check],
    *,
    probes: Probes,
    fail_on: FailOn,
) -> Blocked | None:
    if any(one.code == "TOR001" for one in findings):
        return Blocked(code="TOR001", reason="torch is not installed in the target")
    if not any(_weighs(one, live=_live(subject)) for one in checks):
        return Blocked(code="", reason="nothing in it can be judged")
    full = _full_gpu(subject, findings, probes)
    if full is not None:
        return full
    if probes.outcome == "incomplete":
        return Blocked(code="", reason=probes.reason or "the probes did not finish")
    tried = not isinstance(subject.facts.torch.cuda_available, NotApplicable)
    if subject.needs_gpu and tried and not subject.cuda_works and not probes.on_gpu:
        return Blocked(code="", reason="a GPU is needed, and CUDA was not seen to work")
    return _open(subject, checks, fail_on)


def _open(subject: Subject, checks: Sequence[Check], fail_on: FailOn) -> Blocked | None:
    """Return the first unknown check that leaves the verdict open, where one does."""
    unknown = [one for one in checks if one.status is Status.UNKNOWN]
    against = next((one for one in unknown if one.against and _is_error(one)), None)
    if against is not None:
        return Blocked(code=against.code, reason=against.reason)
    if fail_on < FailOn.UNKNOWN:
        unknown = [one for one in unknown if _live(subject) and _matters(subject.facts, one)]
    first = next(iter(unknown), None)
    return None if first is None else Blocked(code=first.code, reason=first.reason)


def _full_gpu(subject: Subject, findings: Sequence[Finding], probes: Probes) -> Blocked | None:
    """Say that something found no room on the GPU, and that others hold its memory if they do."""
    said = what_did_not_fit(subject)
    if not said and probes.outcome == "incomplete" and "memory" in probes.reason:
        said = probes.reason
    if not said:
        return None
    if not any(one.code == "GPU006" for one in findings):
        return Blocked(code="", reason=said)
    return Blocked(code="GPU006", reason=f"{said}; other processes hold it")


def _is_error(check: Check) -> bool:
    rule = BY_CODE.get(check.code)
    return rule is not None and rule.severity is Severity.ERROR


def _live(subject: Subject) -> bool:
    """Whether a live machine was looked at: a paste or a profile is judged on what it holds."""
    return subject.facts.request.device != NOT_RECORDED


def _weighs(check: Check, *, live: bool) -> bool:
    """Whether a check came to an answer, and could have come to an error.

    On a live machine any answer will do: what could not be read there is dealt with by itself.
    """
    if live:
        return check.status in {Status.PASS, Status.FAIL}
    rule = BY_CODE.get(check.code)
    if rule is None or rule.severity is Severity.INFO:
        return False
    may_be_error = rule.severity is Severity.ERROR or "error" in rule.varies
    if check.status is Status.PASS:
        return may_be_error and not check.code.startswith(_ABOUT_VARIABLES)
    return may_be_error and check.status is Status.FAIL


def _matters(facts: Facts, check: Check) -> bool:
    """Whether an unknown check is one that an error could hide behind."""
    if not _is_error(check):
        return False
    path = check.reason.partition(":")[0]
    family, _, name = path.partition(".")
    if not hasattr(getattr(facts, family, None), name):
        return False  # not a fact but a table that does not say
    fact = observed(facts, path)
    return isinstance(fact, Unreadable) and fact != NOT_RECORDED


# -- one sentence -------------------------------------------------------------------------------


def _fail_headline(failing: Sequence[Finding]) -> str:
    first = _cause(failing)
    more = len(failing) - 1
    rest = "" if not more else f"; {more} more finding{'s' if more > 1 else ''} to mend"
    return f"{first.title} ({first.code}){rest}."


def _cause(failing: Sequence[Finding]) -> Finding:
    codes = {one.code for one in failing}
    return next((one for one in failing if one.caused_by not in codes), failing[0])


def _blocked_headline(blocked: Blocked) -> str:
    code = f" ({blocked.code})" if blocked.code else ""
    # Both are told here, so that a saved report and a page say it like the terminal.
    more = "; raise --timeout" if OUT_OF_TIME in blocked.reason else ""
    return f"No verdict: {blocked.reason}{code}{more}."


def _pass_headline(subject: Subject, findings: Sequence[Finding], probes: Probes) -> str:
    warnings = sum(one.severity is Severity.WARNING for one in findings)
    noted = "" if not warnings else f"; {warnings} warning{'s' if warnings > 1 else ''} below"
    torch = subject.facts.torch.version
    if isinstance(torch, NotApplicable):
        return f"Nothing is wrong with what could be read without an interpreter{noted}."
    if subject.torch is None and not subject.imported:
        return f"Nothing speaks against this machine; its torch is not known{noted}."
    device = value_of(subject.facts.request.device) or "auto"
    if probes.on_gpu or (subject.cuda_works and device != "cpu"):
        return f"{subject.torch_text} works here on {_gpu_name(subject, device)}{noted}."
    no_gpu = any(one.code in {"GPU001", "GPU008"} for one in findings)
    if probes.outcome == "complete":
        return (
            f"{subject.torch_text} works here, measured on the CPU; nothing here says what a GPU "
            f"would do{noted}."
        )
    if no_gpu or isinstance(subject.facts.gpus.devices, Absent):
        return f"Nothing speaks against {subject.torch_text} on this machine's CPU{noted}."
    return f"Nothing speaks against {subject.torch_text} on this machine{noted}."


def _gpu_name(subject: Subject, device: str) -> str:
    """Return the name of the GPU asked for: the first one, unless another was."""
    index = device.partition(":")[2] or "0"
    named = (one.name for one in subject.visible if str(one.index) == index)
    return next(named, "its GPU")

"""What the child does with a request, task by task; the boundary where everything is caught.

Order: import torch; set the flags asked for; facts of the build and of CUDA, each in a child of its
own and both at once; then the suite, with the self-test beside it, `request["device"]` made
concrete, and the memory context as the child that looked at CUDA found it. The suite starts its own
children with `fork.run_jobs`. `emit(event, **fields)` is everywhere a `protocol.Emitter`.
"""

from __future__ import annotations

import faulthandler
import importlib
import os
import sys
import time
from typing import Any, Optional

from .device_facts import comparability_key, device_facts, usable
from .flags import FlagRefused, set_flags
from .fork import Job, Result, can_fork, end_forks_on_sigterm, run_jobs, see_off
from .jobs import tell_result
from .mapped_libraries import mapped_libraries
from .protocol import CONTEXT_STAGE, Emitter
from .self_test import run_self_tests
from .states import not_applicable, unreadable
from .torch_api import Missing, attempt
from .torch_facts import CPU_BUILD, build_facts, import_torch, is_cuda_build

PROTOCOL = 1
#: Longest time for CUDA to start and the self-test to run; a cold file system is slow.
DEVICE_LIMIT_S = 120.0


def main(request: "dict[str, Any]", answers: int) -> None:
    """Answer a request on a descriptor, and end the process."""
    emit = Emitter(answers)
    # A crash writes the Python stack to stderr; the parent keeps the end of that.
    attempt(faulthandler.enable)
    end_forks_on_sigterm()
    try:
        _answer(request, emit)
    except BaseException as error:  # noqa: BLE001  (the boundary: SystemExit of the target's code too)
        emit.error(emit.last_stage, error)
    see_off()
    for stream in (sys.stdout, sys.stderr):
        attempt(stream.flush)
    emit("done")
    # The answer is complete: what libraries do at exit can only spoil it.
    os._exit(0)


def _answer(request: "dict[str, Any]", emit: Emitter) -> None:
    if request.get("protocol") != PROTOCOL:
        message = "this child speaks protocol {}, not {!r}".format(
            PROTOCOL, request.get("protocol")
        )
        raise ValueError(message)
    deadline = time.monotonic() + float(request["time_limit_s"])
    torch = import_torch(emit)
    if torch is None:
        return
    flags_are_set = _set_flags(torch, request, emit)
    if "sub" in request:
        if flags_are_set:
            _answer_sub(request["sub"], emit)
        return
    tasks = request["tasks"]
    device, context = _look(torch, request, emit, deadline)
    if "strategies" in tasks and device and flags_are_set:
        strategies = importlib.import_module("_envkit_child.strategies.run")
        strategies.run(request, emit, device)
    if "fingerprint" in tasks and device and flags_are_set:
        emit.stage("fingerprint")
        suite = importlib.import_module("_envkit_child.suite")
        name = suite_name(request["suite"], device)
        beside = [_self_test(device, deadline)] if "facts" in tasks else []
        left_s = max(1.0, deadline - time.monotonic())
        wanted = dict(request, device=device, suite=name, time_limit_s=left_s)
        suite.run(wanted, emit, beside, context)


def look_at_build(_args: "dict[str, Any]", emit: Emitter) -> None:
    """Job: what torch says of its build, its switches and its threads.

    Not asked in the parent of the forks: some of torch's harmless-looking questions leave a mark
    with which CUDA refuses to start in any child forked later. Seen on an H200 with torch 2.11:
    after `_cuda_getArchFlags()`, and after `__config__.show()`.
    """
    import torch

    emit.stage("build_facts")
    emit("facts", family="torch", values=build_facts(torch))


def suite_name(asked: str, device: str) -> str:
    """Make `auto` concrete: only here is it known whether the GPU can be used."""
    if asked != "auto":
        return asked
    return "quick" if device == "cpu" else "standard"


def _set_flags(torch: Any, request: "dict[str, Any]", emit: Emitter) -> bool:
    try:
        set_flags(torch, request.get("set") or {})
    except FlagRefused as error:
        emit.error("set_flags", error)
        return False
    return True


def _answer_sub(sub: "dict[str, Any]", emit: Emitter) -> None:
    """Do one job of a parent that cannot fork (see `fork.run_jobs`)."""
    module, _, name = sub["function"].partition(":")
    function = getattr(importlib.import_module(module), name)
    tell_result(function, sub["args"], emit)


def _look(
    torch: Any, request: "dict[str, Any]", emit: Emitter, deadline: float
) -> "tuple[Optional[str], Optional[dict[str, Any]]]":
    """Learn in children what the build is and whether CUDA works; both at the same time.

    Returns the device to measure (None if there is none) and what `measure_context` found there.
    """
    asked = request.get("device") or "auto"
    report = "facts" in request["tasks"]
    if not report and (asked == "cpu" or not is_cuda_build(torch)):
        return _concrete(asked, CPU_BUILD, emit, promised=False), None
    args = {"device": asked, "report": report, "test": "fingerprint" not in request["tasks"]}
    looked = _looked(args, emit, request, deadline)
    if looked.ok:
        asked = looked.value["asked"]
        device = _concrete(asked, looked.value["unusable"], emit, promised=looked.value["promised"])
        return device, looked.value["context"]
    looked.emit_error(emit, "cuda_init")
    reason = "the child that looked at it ended early: {} in stage {}".format(
        looked.reason, looked.stage or "start"
    )
    if report:
        emit("facts", family="torch", values=_unknown(reason))
    return _concrete(asked, reason, emit, promised=True), None


def _looked(
    args: "dict[str, Any]", emit: Emitter, request: "dict[str, Any]", deadline: float
) -> Result:
    """Look at the device, and at the build beside it where there is a report to write."""
    limit_s, cut = _device_limit(deadline)
    jobs = [Job("device", look_at_device, args, limit_s, cut=cut)]
    if args["report"] and can_fork():
        jobs.append(Job("build", look_at_build, {}, limit_s, cut=cut))
    elif args["report"]:
        look_at_build({}, emit)
    looked, *others = run_jobs(jobs, emit, request, at_once=2, until_told=True)
    for build in others:
        if not build.ok:
            build.emit_error(emit, "build_facts")
    if not looked.ok and looked.stage == CONTEXT_STAGE:
        # It had told the facts. The suite will meet what ended it, in a child that costs no other.
        again = dict(args, report=False, test=True)
        return _looked(again, emit, request, deadline)
    return looked


def _unknown(reason: str) -> "dict[str, Any]":
    names = ("cuda_available", "cuda_init_error", "device_count", "devices", "mapped_libraries")
    return {name: unreadable(reason) for name in names}


def _concrete(asked: str, unusable: str, emit: Emitter, *, promised: bool) -> "Optional[str]":
    """Return the device to measure, given why the one asked for cannot be used (empty: it can).

    `promised`: torch says that CUDA is available, or could not be asked. Then `auto` does not fall
    back to the CPU: that would pass over a GPU that nobody looked at.
    """
    device = _measured(asked, unusable, promised=promised)
    if device is None:
        emit("error", stage="device", type="DeviceUnusable", message=unusable, traceback_tail="")
    return device


def _measured(asked: str, unusable: str, *, promised: bool) -> "Optional[str]":
    if asked == "cpu":
        return asked
    if not unusable:
        return "cuda:{}".format(_index(asked)) if _is_auto(asked) else asked
    return "cpu" if _is_auto(asked) and not promised else None


def _is_auto(asked: str) -> bool:
    """Whether the CPU will do: `auto`, or `auto:N` of a rank, which takes the GPU of its number."""
    return asked.split(":", maxsplit=1)[0] == "auto"


def _index(asked: str) -> int:
    return int(asked.partition(":")[2] or 0)


def look_at_device(args: "dict[str, Any]", emit: Emitter) -> "dict[str, Any]":
    """Job: CUDA facts and key; where no suite follows, a brief self-test and the libraries too.

    Returns `asked` (the device asked for, `auto` where a rank sees only one), `unusable` (why it
    cannot be used, empty if it can), `promised` (torch says that CUDA is available) and `context`
    (where a suite follows on a GPU: see `measure_context`).
    """
    import torch

    facts = device_facts(torch, emit)
    asked = args["device"]
    if _is_auto(asked) and facts["device_count"] == 1:
        asked = "auto"  # the launcher shows each rank its own GPU only
    unusable = _why_unusable(asked, facts)
    promised = facts["cuda_available"] is True
    device = _measured(asked, unusable, promised=promised)
    if args["report"]:
        emit("facts", family="torch", values=facts)
        if device:
            emit("key", values=comparability_key(torch, facts, device))
        if args["test"] or not device:
            test_device({"device": device, "brief": True}, emit)
    context = None
    if device and device != "cpu" and not args["test"]:
        # CUDA has started here; another child would need 0.4 s (H200) to start it again.
        families = importlib.import_module("_envkit_child.families")
        context = families.measure_context(device, emit)
    return {"asked": asked, "unusable": unusable, "promised": promised, "context": context}


def _self_test(device: str, deadline: float) -> Job:
    limit_s, cut = _device_limit(deadline)
    args = {"device": device, "brief": False}
    return Job("self_test", test_device, args, limit_s, cut=cut)


def _device_limit(deadline: float) -> "tuple[float, bool]":
    """Return the seconds for a job on the device, and whether `deadline` leaves less than usual."""
    left_s = max(1.0, deadline - time.monotonic())
    return min(DEVICE_LIMIT_S, left_s), left_s < DEVICE_LIMIT_S


def test_device(args: "dict[str, Any]", emit: Emitter) -> None:
    """Job: the self-test of a device (None: of none), and the libraries mapped after it."""
    import torch

    device = args["device"]
    if device:
        emit.stage("self_test")
        if not args["brief"]:
            # Now, while the other children wait for CUDA to start. What this raises, the test that
            # needs it raises again.
            attempt(lambda: importlib.import_module("torchvision"))
        tests = run_self_tests(torch, device, brief=args["brief"])
        emit("self_test", device=device, tests=tests)
    # Only now: cuDNN and others are loaded by the first operation that needs them.
    emit.stage("mapped_libraries")
    emit("facts", family="torch", values={"mapped_libraries": _mapped()})


def _why_unusable(asked: str, facts: "dict[str, Any]") -> str:
    """Say why the device asked for (`auto`: the first one) cannot be used; empty if it can."""
    if asked == "cpu":
        return ""
    if not usable(facts):
        error = facts["cuda_init_error"]
        known = error.get("message") or error.get("unreadable") or error.get("not_applicable")
        return known or "torch.cuda.is_available() is false"
    index = _index(asked)
    count = facts["device_count"]
    if isinstance(count, int) and index >= count:
        return "there is no cuda:{}: torch sees {} device(s)".format(index, count)
    return ""


def _mapped() -> Any:
    found = mapped_libraries()
    return not_applicable(found.reason) if isinstance(found, Missing) else found

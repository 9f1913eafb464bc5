from __future__ import annotations

from typing import Any

import msgspec
import pytest
from machines import FILES, child_run

from envkit.model.facts import Facts, TorchFacts
from envkit.model.observed import Absent, Known, NotApplicable, Unreadable
from envkit.probes.events import ChildError, Hello, SelfTestOutcome, SelfTests
from envkit.probes.launch import (
    Broken,
    ChildRun,
    Crashed,
    Exited,
    NotStarted,
    TimedOut,
    describe,
)
from envkit.rules.engine import judge
from envkit.workflows.child_answer import add_answer, import_failure, probes_problem, refused_switch

HELLO = Hello(
    python="3.12.7", executable="/v/bin/python", prefix="/v", base_prefix="/", pid=1, argv0="x"
)
NOT_THERE = ChildError(
    stage="importing_torch", type="ModuleNotFoundError", message="No module named 'torch'"
)


NO_ANSWER = Broken(reason="garbage")


def answer(run: ChildRun, facts: Facts = FILES) -> Facts:
    return add_answer(facts, run, prefix=None, environ={})


def test_what_torch_says_stands_over_its_files() -> None:
    run = child_run(
        hello=HELLO,
        facts={"torch": {"version": "2.9.1+cpu", "cuda_available": False, "threads": {"intra": 4}}},
        self_test=SelfTests(
            device="cpu",
            tests=(SelfTestOutcome(name="matmul", status="pass", reason="", kind=""),),
        ),
    )
    facts = answer(run)
    assert isinstance(facts.torch.import_failure, Absent)
    assert isinstance(facts.torch.cuda_available, Known)
    assert isinstance(facts.torch.threads, Known)
    assert facts.torch.threads.value == 4
    assert isinstance(facts.torch.self_tests, Known)
    assert isinstance(facts.python.executable, Known)
    assert facts.host == FILES.host


@pytest.mark.parametrize(
    ("outcome", "how"),
    [
        (Crashed(signal="SIGSEGV"), "crashed"),
        (Exited(code=3), "exited"),
    ],
)
def test_an_import_that_ends_the_child(outcome: Any, how: str) -> None:
    failure = import_failure(child_run(outcome=outcome, stage="importing_torch", hello=HELLO))
    assert failure is not None
    assert failure.how == how
    later = child_run(outcome=outcome, stage="cuda_init", hello=HELLO)
    assert import_failure(later) is None
    assert "cuda_init" in probes_problem(later)
    told = answer(later).torch
    assert isinstance(told.import_failure, Absent)
    assert isinstance(told.cuda_available, Unreadable)
    assert "cuda_init" in told.cuda_available.reason


def test_an_import_that_a_time_limit_cut_off_is_no_failure_of_torch() -> None:
    outcome = TimedOut(stage="importing_torch", limit_s=1.0)
    run = child_run(outcome=outcome, stage="importing_torch", hello=HELLO)
    torch = answer(run).torch
    assert isinstance(torch.import_failure, Unreadable)
    assert "out of time while importing torch" in torch.import_failure.reason
    assert judged(answer(run)) == {}


def test_an_import_that_raises() -> None:
    error = ChildError(stage="importing_torch", type="OSError", message="libc10.so: no such file")
    failure = import_failure(child_run(errors=(error,), stage="importing_torch", hello=HELLO))
    assert failure is not None
    assert (failure.how, failure.message) == ("raised", "OSError: libc10.so: no such file")


def test_no_torch_for_the_files_and_for_the_interpreter() -> None:
    absent = Absent(source="site-packages", reason="torch is not installed")
    bare = msgspec.structs.replace(FILES, torch=TorchFacts(version=absent))
    run = child_run(errors=(NOT_THERE,), stage="importing_torch", hello=HELLO)
    assert answer(run, bare).torch == bare.torch
    # An interpreter whose prefix nobody could tell: its own word counts.
    unknown = NotApplicable(reason="the target has no prefix")
    lost = msgspec.structs.replace(FILES, torch=TorchFacts(version=unknown))
    assert isinstance(answer(run, lost).torch.version, Absent)
    # Files that say that there is one, which the interpreter does not find: a failure to import.
    torch = answer(run).torch
    assert isinstance(torch.version, Known)
    assert isinstance(torch.import_failure, Known)


def test_a_torch_that_lacks_another_module_is_there() -> None:
    error = ChildError(
        stage="importing_torch", type="ModuleNotFoundError", message="No module named 'numpy'"
    )
    torch = answer(child_run(errors=(error,), stage="importing_torch", hello=HELLO)).torch
    assert isinstance(torch.import_failure, Known)
    assert torch.import_failure.value.message.endswith("No module named 'numpy'")


@pytest.mark.parametrize("outcome", [NotStarted(reason="no program"), Broken(reason="garbage")])
def test_an_interpreter_that_cannot_be_asked(outcome: Any) -> None:
    torch = answer(child_run(outcome=outcome, stage="starting_python")).torch
    assert torch.version == FILES.torch.version
    assert isinstance(torch.import_failure, Unreadable)
    assert torch.import_failure.reason == outcome.reason


def test_a_device_that_cannot_be_used_is_the_reason_for_what_is_missing() -> None:
    error = ChildError(stage="device", type="DeviceUnusable", message="built without CUDA")
    torch = answer(child_run(hello=HELLO, errors=(error,))).torch
    assert isinstance(torch.self_tests, Unreadable)
    assert torch.self_tests.reason == "DeviceUnusable: built without CUDA"


def test_a_switch_that_was_refused_is_told_once_and_without_the_class_of_the_error() -> None:
    error = ChildError(stage="set_flags", type="FlagRefused", message="there is no switch 'x'")
    run = child_run(hello=HELLO, errors=(error,))
    assert probes_problem(run) == refused_switch(run) == "there is no switch 'x'"
    torch = answer(run).torch
    assert isinstance(torch.self_tests, Unreadable)
    assert torch.self_tests.reason == "not looked at, since a switch of --set was refused"


@pytest.mark.parametrize("stage", ["starting_python", "starting_probe"])
@pytest.mark.parametrize(
    "outcome",
    [
        Exited(code=3),
        TimedOut(stage="starting_python", limit_s=1.0),
        Crashed(signal="SIGSEGV"),
        NO_ANSWER,
    ],
)
def test_a_program_that_never_came_to_the_import_says_nothing_of_torch(
    outcome: Any, stage: str
) -> None:
    run = child_run(outcome=outcome, stage=stage)
    assert import_failure(run) is None
    lost = msgspec.structs.replace(FILES, torch=TorchFacts(version=NotApplicable(reason="?")))
    torch = answer(run, lost).torch
    assert isinstance(torch.import_failure, Unreadable)
    assert isinstance(torch.version, Unreadable)
    assert torch.version.reason == describe(run)
    assert judged(answer(run, lost)) == {}
    assert answer(run).torch.version == FILES.torch.version


def test_a_torch_that_has_no_metadata_is_there_all_the_same() -> None:
    absent = Absent(source="site-packages", reason="torch is not installed")
    other = NotApplicable(reason="torch is not installed")
    bare = msgspec.structs.replace(FILES, torch=TorchFacts(version=absent, cuda=other))
    raised = ChildError(stage="importing_torch", type="OSError", message="libc10.so: no such file")
    for run in (
        child_run(hello=HELLO, facts={"torch": {"file": "/editable/torch/__init__.py"}}),
        child_run(hello=HELLO, stage="importing_torch", errors=(raised,)),
        child_run(hello=HELLO, stage="importing_torch", outcome=Crashed(signal="SIGSEGV")),
    ):
        facts = answer(run, bare)
        assert isinstance(facts.torch.version, Unreadable)
        assert isinstance(facts.torch.cuda, Unreadable)
        found = judged(facts)
        assert "TOR001" not in found
        assert ("TOR002" in found) == (run.stage == "importing_torch")


def judged(facts: Facts) -> dict[str, str]:
    """Return the findings about whether torch is there and imports."""
    found = judge(facts).findings
    return {one.code: one.title for one in found if one.code in {"TOR001", "TOR002"}}

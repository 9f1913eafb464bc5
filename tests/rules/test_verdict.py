from __future__ import annotations

from typing import Any

import pytest
from judged import (
    BROKEN,
    CPU_BUILD,
    NO_GPU,
    NO_TORCH,
    NOT_APPLICABLE,
    NOT_KNOWN,
    NOTHING,
    NOTHING_OF_TORCH,
    OLD_DRIVER,
    ROCM,
    UNREADABLE,
    facts,
    failed,
    gpu,
    judged,
)

from envkit.model.facts import Facts, GpuProcess, TorchDevice, TorchFacts
from envkit.model.finding import Check, Evidence, Finding, Fix, Severity, Status
from envkit.model.observed import Known
from envkit.model.report import Verdict
from envkit.rules.engine import judge
from envkit.rules.verdict import FailOn, Probes, decide, worst

COMPLETE = Probes(outcome="complete", on_gpu=True)
ON_CPU = Probes(outcome="complete")
TOO_BIG = Probes(outcome="incomplete", reason="the probes need 3 GB and 1 GB is free")
NEEDED = {"request_needs_gpu": True}
SOMEBODY = GpuProcess(memory_bytes=Known(value=80 << 30, source="NVML"), own=False)
NEIGHBOUR = {"gpus_devices": (gpu(processes=(SOMEBODY,)),)}
#: A bare prefix: torch's files could be read, no interpreter could be started.
BARE = {
    f"torch_{name}": NOT_APPLICABLE
    for name in TorchFacts.__struct_fields__
    if name not in {"version", "cuda", "hip", "channel", "installer"}
}
NO_INTERPRETER = {f"torch_{name}": NOT_APPLICABLE for name in TorchFacts.__struct_fields__}
HIDDEN = {**BROKEN, "environment_variables": {"CUDA_VISIBLE_DEVICES": "-1"}}
ON_THE_CPU: dict[str, Any] = {**CPU_BUILD, **NO_GPU}


def verdict(probes: Probes = COMPLETE, fail_on: FailOn = FailOn.ERROR, **changes: Any) -> Verdict:
    read, result = facts(**changes), judged(**changes)
    return decide(read, result.findings, result.checks, probes=probes, fail_on=fail_on)


@pytest.mark.parametrize(
    ("situation", "probes", "changes", "status", "code", "words"),
    [
        (
            "torch works, no GPU, no spec that needs one",
            ON_CPU,
            ON_THE_CPU,
            "pass",
            0,
            "measured on the CPU; nothing here says what a GPU would do",
        ),
        ("a CUDA build on a machine without GPU", ON_CPU, NO_GPU, "pass", 0, "on the CPU"),
        ("no torch in the target", Probes(), NO_TORCH, "incomplete", 3, "TOR001"),
        ("--device cuda, no GPU", ON_CPU, {**NO_GPU, **NEEDED}, "fail", 1, "GPU001"),
        ("--device cuda, all hidden", ON_CPU, {**HIDDEN, **NEEDED}, "fail", 1, "GPU007"),
        ("--device cuda, ROCm", ON_CPU, {**ROCM, **NEEDED}, "fail", 1, "GPU008"),
        ("--device cuda, old driver", ON_CPU, {**OLD_DRIVER, **NEEDED}, "fail", 1, "DRV002"),
        (
            "--device cuda, CPU build, GPU without driver",
            ON_CPU,
            {**CPU_BUILD, "driver_version": NO_GPU["driver_version"], **NEEDED},
            "fail",
            1,
            "A GPU is needed",
        ),
        (
            "--device cuda and nothing says whether CUDA works",
            Probes(),
            {"torch_cuda_available": UNREADABLE, **NEEDED},
            "incomplete",
            3,
            "a GPU is needed",
        ),
        ("--device cuda and one is there", COMPLETE, NEEDED, "pass", 0, "works here"),
        ("GPU present, build CPU-only", ON_CPU, CPU_BUILD, "fail", 1, "TOR003"),
        ("neighbour on the GPU, probes fit", COMPLETE, NEIGHBOUR, "pass", 0, "1 warning"),
        ("probes do not fit", TOO_BIG, {}, "incomplete", 3, "1 GB is free"),
        ("probes do not fit, neighbour", TOO_BIG, NEIGHBOUR, "incomplete", 3, "1 GB is free"),
        ("a bare prefix", Probes(), BARE, "pass", 0, "torch 2.5.1+cu124"),
        ("a bare prefix, CPU torch", Probes(), {**CPU_BUILD, **BARE}, "fail", 1, "TOR003"),
        ("a bare prefix, nothing of torch", Probes(), NO_INTERPRETER, "pass", 0, "interpreter"),
        ("a bare prefix and a GPU is needed", Probes(), {**BARE, **NEEDED}, "pass", 0, "2.5.1"),
        (
            "an error outranks what could not be checked",
            TOO_BIG,
            OLD_DRIVER,
            "fail",
            1,
            "DRV002",
        ),
        (
            "a wrong result",
            COMPLETE,
            {"torch_self_tests": failed("wrong result: 0 instead of 3")},
            "fail",
            1,
            "TOR009",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and " " in value else "",
)
def test_situation(  # noqa: PLR0913, PLR0917  (a row of the contract's table)
    situation: str, probes: Probes, changes: dict[str, Any], status: str, code: int, words: str
) -> None:
    given = verdict(probes, **changes)
    assert (given.status, given.exit_code) == (status, code), situation
    assert words in given.headline
    assert given.headline.endswith(".")
    assert "\n" not in given.headline


def test_solved_afresh_passes_and_errors_of_a_named_lock_fail() -> None:
    result = judged()
    for severity, code in ((Severity.WARNING, 0), (Severity.ERROR, 1)):
        found = Finding(
            code="CON011",
            severity=severity,
            title="Solved afresh, not from the lock",
            evidence=(Evidence(what="pytorch", seen="2.5.1", source="conda-meta"),),
            fix=Fix(text="create it from the lock"),
            url="",
        )
        assert decide(facts(), (found,), result.checks).exit_code == code


def test_a_gpu_that_is_not_there_fails_who_asked_for_it() -> None:
    one = (TorchDevice(index=0, name="card", capability="8.0", memory_bytes=1, sm_count=1),)
    asked: dict[str, Any] = {"torch_devices": one, **NEEDED}
    gone = verdict(TOO_BIG, request_device="cuda:7", **asked)
    assert (gone.status, gone.exit_code) == ("fail", 1)
    assert verdict(TOO_BIG, request_device="cuda:0", **asked).exit_code == 3


def test_the_headline_names_the_device_that_was_asked_for_and_no_other() -> None:
    two = tuple(
        TorchDevice(index=index, name=name, capability="8.0", memory_bytes=1, sm_count=1)
        for index, name in enumerate(("first card", "second card"))
    )
    named = {
        device: verdict(torch_devices=two, request_device=device).headline
        for device in ("auto", "cuda:0", "cuda:1")
    }
    assert "first card" in named["auto"]
    assert "first card" in named["cuda:0"]
    assert "second card" in named["cuda:1"]
    on_cpu = verdict(ON_CPU, torch_devices=two, request_device="cpu").headline
    assert "measured on the CPU" in on_cpu
    assert "card" not in on_cpu
    assert "works here on" not in verdict(Probes(), request_device="cpu").headline


# -- something recorded ---------------------------------------------------------------------------


def recorded(read: Facts) -> Verdict:
    result = judge(read)
    return decide(read, result.findings, result.checks)


def test_a_record_is_judged_on_what_it_holds() -> None:
    only_driver = {**NOTHING_OF_TORCH, "host_glibc": NOTHING.host.glibc}
    assert verdict(Probes(), **only_driver).exit_code == 0


def test_a_record_that_holds_nothing_has_no_verdict() -> None:
    given = recorded(NOTHING)
    assert (given.status, given.exit_code) == ("incomplete", 3)
    assert "nothing in it can be judged" in given.headline


@pytest.mark.parametrize(
    "held",
    [
        {"torch_version": "2.6.0"},
        {"environment_variables": {}},
        {"gpus_devices": (gpu(compute_mode=NOT_KNOWN),)},
        {"driver_version": "550.54.15", "host_os": "linux"},
    ],
)
def test_a_record_on_which_no_error_could_be_judged_has_no_verdict(held: dict[str, Any]) -> None:
    given = recorded(facts(NOTHING, **held))
    assert (given.status, given.exit_code) == ("incomplete", 3)
    assert "nothing in it can be judged" in given.headline


@pytest.mark.parametrize("asked", ["auto", NOTHING.request.device])
@pytest.mark.parametrize("works", [NOT_KNOWN, NOT_APPLICABLE, UNREADABLE])
def test_a_known_fact_against_the_machine_keeps_the_verdict_open(works: Any, asked: Any) -> None:
    under_the_floor: dict[str, Any] = {
        "driver_version": "450.51.06",
        "torch_cuda_available": works,
        "request_device": asked,
    }
    given = verdict(Probes(), **under_the_floor)
    assert (given.status, given.exit_code) == ("incomplete", 3)
    assert "driver 450.51.06 is under the floor" in given.headline
    assert "(DRV002)" in given.headline


def test_a_cpu_build_beside_a_gpu_whose_driver_is_not_known_is_no_pass() -> None:
    unknown: dict[str, Any] = {**CPU_BUILD, "driver_version": NOT_KNOWN}
    given = verdict(Probes(), **unknown, request_device=NOTHING.request.device)
    assert (given.status, given.exit_code) == ("incomplete", 3)
    assert "(TOR003)" in given.headline


def test_only_an_error_rule_keeps_the_verdict_open() -> None:
    result = judged()
    for code, status in (("DRV002", "incomplete"), ("TOR006", "pass")):
        checks = tuple(
            Check(code=code, status=Status.UNKNOWN, reason="table", against=True)
            if one.code == code
            else one
            for one in result.checks
        )
        assert decide(facts(), result.findings, checks, probes=COMPLETE).status == status


def test_what_was_looked_for_and_could_not_be_read_has_no_verdict() -> None:
    blind: dict[str, Any] = {"torch_cuda_available": UNREADABLE, "driver_version": UNREADABLE}
    given = verdict(Probes(), **blind)
    assert given.exit_code == 3
    assert "no permission" in given.headline


def test_a_paste_that_could_not_collect_something_is_judged_on_the_rest() -> None:
    blind: dict[str, Any] = {"torch_cuda_available": UNREADABLE, "driver_version": UNREADABLE}
    given = verdict(Probes(), **blind, request_device=NOTHING.request.device)
    assert given.exit_code == 0


def test_a_record_without_torch_facts_does_not_claim_that_torch_is_right() -> None:
    given = verdict(Probes(), **NOTHING_OF_TORCH, request_device=NOTHING.request.device)
    assert "its torch is not known" in given.headline


def test_what_could_not_be_read_does_not_matter_where_cuda_was_measured_to_work() -> None:
    blind: dict[str, Any] = {
        f"driver_{name}": UNREADABLE
        for name in ("version", "libcuda", "kernel_module", "user_library", "nvml_error")
    }
    assert verdict(**blind, gpus_devices=UNREADABLE).exit_code == 0


# -- --fail-on, several inputs --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fail_on", "changes", "code"),
    [
        (FailOn.ERROR, NEIGHBOUR, 0),
        (FailOn.WARNING, NEIGHBOUR, 1),
        (FailOn.UNKNOWN, NEIGHBOUR, 1),
        (FailOn.WARNING, {}, 0),
        (FailOn.WARNING, {"torch_libraries": UNREADABLE}, 0),
        (FailOn.UNKNOWN, {"torch_libraries": UNREADABLE}, 3),
        (FailOn.UNKNOWN, {}, 0),
        (FailOn.WARNING, {"driver_version": "535.146.02"}, 0),
    ],
)
def test_fail_on_tightens(fail_on: FailOn, changes: dict[str, Any], code: int) -> None:
    assert verdict(fail_on=fail_on, **changes).exit_code == code


@pytest.mark.parametrize(
    ("codes", "code"),
    [
        ((), 0),
        ((0, 0), 0),
        ((0, 3), 3),
        ((3, 1, 0), 1),
        ((1, 4), 4),
        ((4, 2, 1, 3, 0), 2),
        ((2, 130), 130),
    ],
)
def test_the_worst_of_several_inputs_counts(codes: tuple[int, ...], code: int) -> None:
    assert worst(codes) == code


def test_the_headline_names_the_cause_and_counts_the_rest() -> None:
    changes: dict[str, Any] = {
        "gpus_devices": (gpu("NVIDIA GeForce RTX 5090", "12.0"),),
        "torch_devices": (),
        "torch_self_tests": failed("CUDA error: no kernel image is available"),
    }
    assert verdict(**changes).headline == (
        "This torch has no kernels for this GPU's compute capability (GPU002); "
        "1 more finding to mend."
    )

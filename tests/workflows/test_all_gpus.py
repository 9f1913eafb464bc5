"""`verify --device all`: one child a GPU, and the odd one out is named."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest
from machines import child_run, fingerprint, imported, known, readers

from envkit.model.codec import digest
from envkit.model.facts import DriverFacts, Facts, Gpu, GpuFacts, Sibling, TorchDevice
from envkit.model.fingerprint import Fingerprint, ProbeResult
from envkit.model.observed import Known, NotApplicable, value_of
from envkit.model.report import Report, Target
from envkit.probes.events import ChildRequest, SelfTestOutcome, SelfTests, SuiteStart
from envkit.probes.launch import ChildRun
from envkit.render.style import Style
from envkit.render.text import render_text
from envkit.workflows import all_gpus
from envkit.workflows.config import check_one_device
from envkit.workflows.judge_file import judge_report
from envkit.workflows.request import VerifyRequest
from envkit.workflows.verify import verify_each

H200, A100 = ("NVIDIA H200", "9.0", 132), ("NVIDIA A100", "8.0", 108)
ONE = ProbeResult(status="exact", values={"n": 1}, digest=digest({"n": 1}))
PEAKS = ProbeResult(
    status="exact",
    values={"allocated_bytes": 1 << 20, "reserved_bytes": 2 << 20, "segments": 1},
    digest=None,
)
ALL = VerifyRequest(
    device=Known(value="all", source="--device"), suite=Known(value="quick", source="--suite")
)


def measured(value: int = 1, model: tuple[str, str, int] = H200, **numerics: Any) -> Fingerprint:
    """Return a fingerprint of a GPU whose matmul gave this value."""
    name, capability, sm_count = model
    found = {"n": value}
    bits = ProbeResult(status="exact", values=found, digest=digest(found))
    plain = fingerprint(**{"matmul": bits, **numerics})
    key = msgspec.structs.replace(
        plain.key,
        cuda="13.0",
        cudnn=91500,
        cublas="13.1",
        capability=capability,
        sm_count=sm_count,
    )
    layers = msgspec.structs.replace(
        plain.layers,
        **{
            layer: {f"{layer}.probe": PEAKS if layer == "peaks" else ONE}
            for layer in ("allocator", "tensors", "workspaces", "peaks")
        },
    )
    return msgspec.structs.replace(plain, device=name, key=key, layers=layers)


def on(*found: Fingerprint | None, hidden: int = 0, **more: Any) -> tuple[Report, ...]:
    """Verify a machine whose GPUs give these fingerprints."""
    devices = tuple(
        TorchDevice(index=n, name="card", capability="9.0", memory_bytes=1, sm_count=1)
        for n in range(len(found))
    )

    def child(_: Path, request: ChildRequest, __: Any) -> ChildRun:
        suite = SuiteStart(name="quick", version=1, seed=0, probes=())
        began = suite if "fingerprint" in request.tasks else None
        facts = {"torch": {"device_count": len(found)}}
        return child_run(facts=facts, stage=request.device, suite=began, **more.get("run", {}))

    def seen(target: Target, facts: Facts, run: ChildRun) -> Facts:
        plain = imported(target, facts, run)
        torch = msgspec.structs.replace(
            plain.torch,
            version=known("2.9.1+cu130"),
            cuda=known("13.0"),
            cuda_available=known(value=True),
            devices=known(devices),
        )
        return msgspec.structs.replace(plain, torch=torch)

    cards = tuple(
        Gpu(index=n, name=known("card"), compute_capability=known("9.0"), processes=known(()))
        for n in range(len(found) + hidden)
    )
    return verify_each(
        ALL,
        readers(
            child=more.get("child", child),
            imported=seen,
            driver_and_gpus=lambda: (
                DriverFacts(version=known("580.95.05")),
                GpuFacts(devices=known(cards)),
            ),
            fingerprint=lambda run, **_: found[int(run.stage.partition(":")[2])],
        ),
        lambda *_: None,
    )


def siblings(report: Report) -> tuple[Sibling, ...]:
    found = value_of(report.facts.gpus.siblings)
    assert found is not None
    return found


def codes(report: Report) -> set[str]:
    return {one.code for one in report.findings}


def test_gpus_that_agree_give_a_report_each_and_pass() -> None:
    reports = on(measured(), measured(), measured())
    first = reports[0]
    assert [one.outcome for one in siblings(first)] == ["agrees"] * 3
    assert "GPU011" not in codes(first)
    assert [one.label for one in reports] == [None, "machine-cuda-1", "machine-cuda-2"]
    assert value_of(reports[2].facts.request.device) == "cuda:2"


def test_the_one_that_is_alone_is_named_although_it_is_the_first() -> None:
    report = on(measured(2), measured(), measured())[0]
    assert [one.outcome for one in siblings(report)] == ["differs", "agrees", "agrees"]
    assert siblings(report)[0].layers == ("numerics",)
    assert report.verdict.exit_code == 1
    (finding,) = (one for one in report.findings if one.code == "GPU011")
    assert [one.what for one in finding.evidence] == ["cuda:0 (card)"]


def test_of_two_that_differ_neither_is_called_the_wrong_one() -> None:
    report = on(measured(), measured(2))[0]
    (finding,) = (one for one in report.findings if one.code == "GPU011")
    assert "do not tell which" in finding.fix.text


def test_across_models_numbers_may_differ_and_requests_may_not() -> None:
    report = on(measured(), measured(2, A100))[0]
    assert [one.outcome for one in siblings(report)] == ["agrees", "agrees"]
    other = measured(2, A100)
    asks_more = {
        "tensors.probe": ProbeResult(status="exact", values={"n": 2}, digest=digest({"n": 2}))
    }
    other = msgspec.structs.replace(
        other, layers=msgspec.structs.replace(other.layers, tensors=asks_more)
    )
    report = on(measured(), other)[0]
    assert siblings(report)[1].layers == ("tensors",)


def test_slices_of_different_sizes_are_different_models() -> None:
    small, large = ("NVIDIA A100 MIG 1g.10gb", "8.0", 14), ("NVIDIA A100 MIG 2g.20gb", "8.0", 28)
    report = on(measured(1, small), measured(2, large), measured(2, small))[0]
    outcomes = [one.outcome for one in siblings(report)]
    assert outcomes == ["agrees", "agrees", "differs"]
    assert "unlike cuda:0" in siblings(report)[2].reason


def test_a_busy_card_leaves_the_verdict_open_and_is_named() -> None:
    full = ProbeResult(status="failed", values=None, digest=None, reason="out of memory")
    report = on(measured(), measured(sdpa=full))[0]
    assert [one.outcome for one in siblings(report)] == ["agrees", "incomplete"]
    assert report.verdict.exit_code == 3
    assert "cuda:1" in report.verdict.headline
    assert "out of memory" in siblings(report)[1].reason


def test_a_card_without_an_answer_leaves_the_verdict_open() -> None:
    report = on(measured(), None)[0]
    assert siblings(report)[1].outcome == "incomplete"
    assert report.verdict.exit_code == 3


def test_what_spans_all_gpus_is_told_of_the_first_and_compared_with_none() -> None:
    sums = ProbeResult(status="exact", values={"n": 5}, digest=digest({"n": 5}), optional=True)
    untold = msgspec.structs.replace(sums, status="not_run", values=None, digest=None)
    name = "collectives.all_reduce.fp32"
    told: dict[str, Any] = {name: sums}
    report = on(measured(**told), measured(**{**told, name: untold}))[0]
    assert [one.outcome for one in siblings(report)] == ["agrees", "agrees"]
    assert report.fingerprint is not None
    assert name in report.fingerprint.layers.numerics


def test_a_wrong_self_test_is_a_difference() -> None:
    bad = SelfTestOutcome(name="matmul", status="fail", reason="3 is not 4", kind="wrong_result")
    report = on(measured(), run={"self_test": SelfTests(device="cuda:0", tests=(bad,))})[0]
    assert siblings(report)[0].layers == ("self_test",)


def test_hidden_gpus_are_counted_and_the_text_has_a_row_for_each() -> None:
    report = on(measured(), measured(), hidden=2)[0]
    text = render_text(report, Style())
    assert "Devices side by side" in text
    assert "cuda:1" in text
    assert "2 more are hidden" in " ".join(text.split())


def test_a_saved_report_gives_its_verdict_again() -> None:
    report = on(measured(), measured(2))[0]
    assert judge_report(report, VerifyRequest()).verdict == report.verdict


def test_without_a_usable_gpu_all_is_a_failure() -> None:
    report = verify_each(ALL, readers(), lambda *_: None)[0]
    assert report.verdict.exit_code == 1
    assert isinstance(report.facts.gpus.siblings, NotApplicable)


def test_children_run_at_the_same_time_but_never_more_than_allowed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 4)  # two at a time
    met = threading.Barrier(2, timeout=30)
    running, most = 0, 0
    lock = threading.Lock()

    def run(request: ChildRequest, _: Any) -> ChildRun:
        nonlocal running, most
        if "fingerprint" in request.tasks:
            with lock:
                running += 1
                most = max(most, running)
            met.wait()
            with lock:
                running -= 1
        return child_run(facts={"torch": {"device_count": 4}}, stage=request.device)

    wanted = ChildRequest(tasks=("facts", "fingerprint"), device="cuda:0")
    runs = all_gpus.run_on_each(wanted, run, lambda _: None)
    assert [one.stage for one in runs] == ["cuda:0", "cuda:1", "cuda:2", "cuda:3"]
    assert most == 2


def test_what_measures_on_one_device_refuses_all() -> None:
    with pytest.raises(ValueError, match="several devices"):
        check_one_device("all")
    assert check_one_device("cuda:1") == "cuda:1"

from __future__ import annotations

import shutil
import threading
from typing import Any

import msgspec
import pytest
from machines import (
    FILES,
    NO_DRIVER,
    NO_GPU,
    PREFIX,
    TARGET,
    child_run,
    fingerprint,
    imported,
    known,
    readers,
)

from envkit import process
from envkit.model.facts import DriverFacts, Facts, Gpu, GpuFacts, GpuProcess, TorchFacts, Waiver
from envkit.model.finding import Severity
from envkit.model.fingerprint import ProbeResult
from envkit.model.observed import Absent, Known, NotApplicable, Unreadable
from envkit.model.report import Report
from envkit.probes.events import ChildError, ChildRequest, Progress, Stage
from envkit.probes.launch import Crashed, TimedOut
from envkit.sources.probe_answers import LIMIT_S
from envkit.sources.target import ASK_LIMIT_S
from envkit.workflows import live
from envkit.workflows.config import Configuration
from envkit.workflows.judge_file import judge_report
from envkit.workflows.request import VerifyRequest
from envkit.workflows.verify import verify

#: A program that is no interpreter.
CAT = shutil.which("cat") or "cat"
BUSY = Gpu(
    index=0,
    name=known("card"),
    free_bytes=known(5),
    processes=known((GpuProcess(memory_bytes=known(1 << 30), own=False),)),
)


def run(request: VerifyRequest | None = None, **fields: Any) -> Report:
    return verify(request or VerifyRequest(), readers(**fields), lambda *_: None)


def suite(name: str) -> VerifyRequest:
    return VerifyRequest(suite=Known(value=name, source="--suite"))


def test_torch_on_the_cpu_passes_and_says_what_that_means() -> None:
    report = run()
    assert (report.verdict.status, report.verdict.exit_code) == ("pass", 0)
    assert "nothing here says what a GPU would do" in report.verdict.headline
    assert report.created == "2026-11-30T12:00:00Z"
    assert report.facts.request.suite == Known(value="quick", source="default without a GPU")


def test_nothing_personal_is_left() -> None:
    report = run()
    assert report.target.python == "~/v/bin/python"
    text = msgspec.json.encode(report).decode()
    assert "ada.l" not in text
    assert "lovelace" not in text


def test_without_an_interpreter_no_child_is_started_and_the_rest_decides() -> None:
    def never(*_: object) -> Any:
        raise AssertionError

    report = run(choose=lambda: PREFIX, child=never, imported=never, fingerprint=never)
    assert report.fingerprint is None
    assert isinstance(report.facts.request.suite, NotApplicable)
    assert report.verdict.exit_code == 0


def test_the_child_is_asked_for_what_the_user_asked_for() -> None:
    asked: list[ChildRequest] = []

    def child(_: object, request: ChildRequest, __: object) -> Any:
        asked.append(request)
        return child_run()

    request = VerifyRequest(
        device=Known(value="cuda", source="--device"),
        flags={"cudnn.benchmark": True},
        timeout_s=7.0,
    )
    run(request, child=child)
    run(suite("none"), child=child)
    run(suite("standard"), child=child)
    assert [one.tasks for one in asked] == [
        ("facts", "fingerprint"),
        ("facts",),
        ("facts", "fingerprint"),
    ]
    assert [one.suite for one in asked] == ["auto", "auto", "standard"]
    assert (asked[0].device, asked[0].time_limit_s) == ("cuda:0", 7.0)
    assert asked[0].flags == {"cudnn.benchmark": True}


def test_no_fingerprint_is_no_lack_of_one() -> None:
    report = run(suite("none"), fingerprint=lambda *_, **__: None)
    assert report.verdict.exit_code == 0
    assert isinstance(report.facts.request.suite, NotApplicable)


def test_a_flag_that_torch_refuses_has_no_verdict_whatever_was_asked_for() -> None:
    refused = ChildError(stage="set_flags", type="FlagRefused", message="there is no flag no.such")
    request = msgspec.structs.replace(suite("none"), flags={"no.such": True})
    report = run(
        request,
        child=lambda *_: child_run(errors=(refused,)),
        fingerprint=lambda *_, **__: None,
    )
    assert report.verdict.exit_code == 3
    assert "no.such" in report.verdict.headline
    assert judge_report(report, VerifyRequest()) == report


@pytest.mark.parametrize(
    ("outcome", "said"),
    [(Crashed(signal="SIGSEGV"), "SIGSEGV"), (TimedOut(stage="x", limit_s=2.0), "out of time")],
)
def test_probes_that_end_early_are_incomplete_and_say_why(outcome: Any, said: str) -> None:
    report = run(child=lambda *_: child_run(outcome=outcome), fingerprint=lambda *_, **__: None)
    assert report.verdict.exit_code == 3
    assert said in report.verdict.headline


def test_a_probe_that_gives_nothing_makes_it_incomplete() -> None:
    failed = ProbeResult(
        status="failed", values=None, digest=None, reason="out of memory in /home/ada.l/x"
    )
    report = run(fingerprint=lambda *_, **__: fingerprint(conv=failed))
    assert report.verdict.exit_code == 3
    assert "numerics conv: out of memory in ~/x" in report.verdict.headline
    assert "1 of 2 probes" in report.verdict.headline


def test_probes_that_do_not_apply_are_no_lack_unless_none_is_left() -> None:
    skipped = ProbeResult(status="not_run", values=None, digest=None, reason="an old torch")
    report = run(fingerprint=lambda *_, **__: fingerprint(conv=skipped))
    assert report.verdict.exit_code == 0
    report = run(fingerprint=lambda *_, **__: fingerprint(matmul=skipped))
    assert report.verdict.exit_code == 3


def test_an_unstable_probe_is_no_lack() -> None:
    unstable = ProbeResult(status="unstable", values=None, digest=None, reason="atomics")
    assert run(fingerprint=lambda *_, **__: fingerprint(conv=unstable)).verdict.exit_code == 0


def test_a_gpu_that_is_asked_for_and_not_there_fails() -> None:
    request = VerifyRequest(device=Known(value="cuda", source="--device"))
    report = run(request, fingerprint=lambda *_, **__: None)
    assert (report.verdict.status, report.verdict.exit_code) == ("fail", 1)


def test_no_torch_is_incomplete() -> None:
    bare = msgspec.structs.replace(
        FILES, torch=TorchFacts(version=Absent(source="x", reason="torch is not installed"))
    )
    report = run(
        files=lambda _: bare, imported=lambda _, facts, __: facts, fingerprint=lambda *_, **__: None
    )
    assert report.verdict.exit_code == 3
    assert "TOR001" in {finding.code for finding in report.findings}


def test_progress_is_passed_on() -> None:
    told: list[tuple[int, int, str]] = []

    def child(_: object, __: object, on_progress: Any) -> Any:
        on_progress(Stage(name="importing_torch"))
        on_progress(Progress(done=1, total=9, name="vit.fp32"))
        return child_run()

    verify(VerifyRequest(), readers(child=child), lambda *event: told.append(event))
    assert told == [(0, 0, "importing torch"), (1, 9, "vit.fp32")]


def test_what_blocks_runs_at_the_same_time() -> None:
    both = threading.Barrier(3, timeout=20)

    def meet(answer: Any) -> Any:
        def wait(*_: object) -> Any:
            both.wait()
            return answer

        return wait

    report = run(
        driver_and_gpus=meet((NO_DRIVER, NO_GPU)), files=meet(FILES), child=meet(child_run())
    )
    assert report.verdict.exit_code == 0


def _gpus_read_late(*, cuda_works: bool) -> GpuFacts:
    """Return what is left of a GPU that was read when the child had begun to use CUDA."""
    in_use = threading.Event()

    def driver_and_gpus() -> tuple[DriverFacts, GpuFacts]:
        assert in_use.wait(timeout=20)
        return NO_DRIVER, GpuFacts(devices=known((BUSY,)))

    def child(_: object, __: object, on_progress: Any) -> Any:
        on_progress(Stage(name="cuda_init"))
        in_use.set()
        return child_run()

    def told(target: Any, facts: Facts, run: Any) -> Facts:
        torch = imported(target, facts, run).torch
        torch = msgspec.structs.replace(torch, cuda_available=known(cuda_works))
        return msgspec.structs.replace(facts, torch=torch)

    return run(driver_and_gpus=driver_and_gpus, child=child, imported=told).facts.gpus


def test_our_own_child_is_not_taken_for_somebody_else_on_the_gpu() -> None:
    devices = _gpus_read_late(cuda_works=True).devices
    assert isinstance(devices, Known)
    (seen,) = devices.value
    assert isinstance(seen.processes, Unreadable)
    assert isinstance(seen.free_bytes, Unreadable)
    assert seen.name == known("card")


def test_who_uses_the_gpu_is_kept_where_the_child_could_not() -> None:
    assert _gpus_read_late(cuda_works=False) == GpuFacts(devices=known((BUSY,)))


def test_who_uses_the_gpu_is_kept_where_it_was_read_in_time() -> None:
    gpus = GpuFacts(devices=known((BUSY,)))
    assert run(driver_and_gpus=lambda: (NO_DRIVER, gpus)).facts.gpus == gpus


def test_what_a_reader_raises_comes_through_and_everything_is_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ended: list[bool] = []
    monkeypatch.setattr(process, "end_all", lambda: ended.append(True))

    def broken(*_: object) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(child=broken)
    with pytest.raises(KeyboardInterrupt):
        run(driver_and_gpus=broken)
    assert ended == [True, True]


WARNED = {
    "driver_and_gpus": lambda: (
        DriverFacts(version=Known(value="580.95.05", source="NVML")),
        GpuFacts(devices=Unreadable(reason="NVML did not answer", source="NVML")),
    )
}


def test_a_saved_report_is_judged_as_it_was() -> None:
    waivers = (Waiver(code="GPU001", reason="known", until="2026-12-31"),)
    for request in (
        VerifyRequest(waivers=waivers),
        VerifyRequest(fail_on=Known(value="unknown", source="--fail-on")),
        VerifyRequest(device=Known(value="cuda", source="--device"), label="lab"),
        suite("none"),
    ):
        for fields in ({}, WARNED):
            report = run(request, **fields)
            again = judge_report(
                msgspec.json.decode(msgspec.json.encode(report), type=Report), VerifyRequest()
            )
            assert again == report


def test_a_waiver_holds_up_to_its_last_day() -> None:
    def judged(until: str) -> Report:
        waivers = (Waiver(code="GPU001", reason="we know", until=until),)
        request = VerifyRequest(device=Known(value="cuda", source="--device"), waivers=waivers)
        return run(request, fingerprint=lambda *_, **__: None)

    def severity(report: Report) -> Severity:
        return next(one for one in report.findings if one.code == "GPU001").severity

    assert severity(judged("2026-11-30")) is Severity.INFO
    assert "we know" in str(judged("2026-11-30").findings)
    assert severity(judged("2026-11-29")) is Severity.ERROR


def test_the_configuration_and_the_target_reach_the_report() -> None:
    assert Configuration().waivers() == ()
    assert run(choose=lambda: TARGET).target.chosen_by == "VIRTUAL_ENV"


def test_the_time_limit_holds_for_choosing_too(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[ChildRequest] = []

    def child(_: object, request: ChildRequest, __: object) -> Any:
        asked.append(request)
        return child_run()

    times = iter([100.0, 104.0])
    monkeypatch.setattr("envkit.workflows.verify.time.monotonic", lambda: next(times))
    run(VerifyRequest(timeout_s=7.0), child=child)
    assert asked[0].time_limit_s == 3.0


def test_everything_that_is_asked_has_the_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[float] = []

    def driver_and_gpus(_: object, *, limit_s: float) -> Any:
        limits.append(limit_s)
        return NO_DRIVER, NO_GPU

    def ask(*_: object, limit_s: float) -> None:
        limits.append(limit_s)

    monkeypatch.setattr(live, "read_driver_and_gpus", driver_and_gpus)
    monkeypatch.setattr(live, "ask_interpreter", ask)
    for timeout_s in (2.0, 3600.0):
        wanted = live.live_readers({}, python=CAT, timeout_s=timeout_s)
        wanted.driver_and_gpus()
        assert wanted.choose().prefix is None
    assert limits == [2.0, 2.0, LIMIT_S, ASK_LIMIT_S]

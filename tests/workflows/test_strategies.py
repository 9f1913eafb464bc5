from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from measured_strategies import BASELINE, MEASURED, MIB, SETUP, child_run, figures

from envkit.errors import CannotCheckError, UsageError
from envkit.model.report import Target
from envkit.model.strategies import Strategies, StrategyMeasurement
from envkit.probes.events import ChildError, ChildRequest, Measurement, OwnStep
from envkit.probes.launch import ChildRun
from envkit.workflows.strategies import StrategiesRequest, exit_code, measure_strategies
from envkit.workflows.verify import OnProgress

STEP = OwnStep(target="train:step", folder="/home/me")
TARGET = Target(kind="venv", prefix="/env", python="/env/bin/python", chosen_by="a test")


def measured(run: ChildRun, **asked: object) -> tuple[Strategies, ChildRequest]:
    requests: list[ChildRequest] = []

    def child(python: Path, request: ChildRequest, _on_progress: OnProgress) -> ChildRun:
        assert python == Path("/env/bin/python")
        requests.append(request)
        return run

    request = StrategiesRequest(**asked)  # type: ignore[arg-type]
    document = measure_strategies(
        request, TARGET, child, created="2026-11-30T00:00:00Z", tell=lambda *_: None
    )
    return document, requests[0]


def by_name(document: Strategies) -> dict[str, StrategyMeasurement]:
    return {one.name: one for one in document.strategies}


def test_figures_are_medians_and_peaks() -> None:
    document, _ = measured(child_run(*MEASURED))
    baseline = by_name(document)["baseline"]
    assert baseline.step_seconds == 0.1
    assert baseline.timed_steps == 3
    assert baseline.peak_allocated_bytes == 4000 * MIB
    assert baseline.results == "reference"
    assert document.device == "NVIDIA Example"


def test_results_are_compared_with_the_reference() -> None:
    found = by_name(measured(child_run(*MEASURED))[0])
    assert found["channels-last"].results == "bitwise_equal"
    assert found["channels-last"].loss_difference == 0
    assert found["autocast-bf16"].results == "different"
    assert found["autocast-bf16"].loss_difference == pytest.approx(0.01)
    assert found["checkpointing"].results == "different"
    assert found["checkpointing"].loss_difference == 0
    assert found["smaller-batch"].results == "not_compared"
    assert found["autocast-fp16"].results == "not_compared"
    assert found["lazy-dataset"].results == "bitwise_equal"


def test_two_without_any_result_are_not_called_equal() -> None:
    blind = figures("baseline", 10, digest="x", losses=(None,))
    blind = msgspec.structs.replace(
        blind, values=msgspec.structs.replace(blind.values, digest=None)
    )
    other = msgspec.structs.replace(blind, name="autocast-bf16")
    found = by_name(measured(child_run(SETUP, blind, other), call=STEP)[0])
    assert found["autocast-bf16"].results == "not_compared"


def test_what_was_not_reached_says_why() -> None:
    error = ChildError(stage="compile", type="MemoryError", message="no more")
    found = by_name(measured(child_run(SETUP, BASELINE, errors=(error,)))[0])
    assert found["compile"].status == "not_run"
    assert found["compile"].reason == "MemoryError: no more"


def test_what_is_chosen_comes_with_its_reference() -> None:
    _, request = measured(child_run(SETUP), only=("no-grad", "lazy-dataset"))
    assert request.strategies is not None
    assert request.strategies.names == (
        "inference-with-gradients",
        "no-grad",
        "eager-dataset",
        "lazy-dataset",
    )
    assert not request.strategies.search
    _, request = measured(child_run(SETUP), skip=("compile",), batch=8, device="cuda")
    assert request.strategies is not None
    assert "compile" not in request.strategies.names
    assert request.strategies.search
    assert request.device == "cuda:0"


@pytest.mark.parametrize(
    "asked",
    [
        {"workload": "vit-b16", "call": STEP},
        {"only": ("no-such",)},
        {"skip": ("compile",), "call": STEP},
    ],
)
def test_a_request_that_makes_no_sense_is_refused(asked: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        measured(child_run(SETUP), **asked)


def test_a_child_that_measured_nothing_cannot_check() -> None:
    error = ChildError(stage="importing_torch", type="ModuleNotFoundError", message="no torch")
    with pytest.raises(CannotCheckError, match="no torch"):
        measured(child_run(errors=(error,)))


def test_the_exit_code_says_whether_it_must_and_does_fit() -> None:
    def code(baseline: Measurement, *, must_fit: bool) -> int:
        return exit_code(measured(child_run(SETUP, baseline))[0], must_fit=must_fit)

    full = Measurement(name="baseline", status="out_of_memory", reason="CUDA out of memory")
    failed = Measurement(name="baseline", status="failed", reason="SIGSEGV")
    assert [code(BASELINE, must_fit=flag) for flag in (False, True)] == [0, 0]
    assert [code(full, must_fit=flag) for flag in (False, True)] == [0, 1]
    assert [code(failed, must_fit=flag) for flag in (False, True)] == [3, 3]


def test_without_the_baseline_whether_it_fits_is_not_known() -> None:
    document, _ = measured(child_run(SETUP), only=("lazy-dataset",))
    assert exit_code(document, must_fit=False) == 0
    assert exit_code(document, must_fit=True) == 3


def test_the_largest_batch_is_passed_on() -> None:
    found = measured(child_run(*MEASURED))[0].largest_batch
    assert found is not None
    assert (found.status, found.batch, found.smallest_that_failed) == ("found", 37, 38)
    assert [trial.batch for trial in found.trials] == [16, 32, 38]

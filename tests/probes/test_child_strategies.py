"""Strategies on the CPU, and the CUDA paths on a fake device: the logic, not a GPU's numbers."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from envkit.probes.child.strategies.catalogue import CALL_STRATEGIES, STRATEGIES, Strategy
from envkit.probes.events import AskedStrategies, BatchSearch, ChildRequest, Measurement, Setup
from envkit.probes.launch import Finished, run_child

Child = Callable[[str], ModuleType]
BY_NAME = {row.name: row for row in STRATEGIES}


def arguments(row: Strategy, workload: str = "vit-tiny", **more: Any) -> dict[str, Any]:
    return {
        "name": row.name,
        "kind": row.kind,
        "changes": row.changes,
        "conf": row.conf,
        "in_effect": row.in_effect or {},
        "workload": workload,
        "batch": 4,
        "seed": 7,
        "steps": None,
        "memory_fraction": None,
        **more,
    }


@pytest.fixture
def torch() -> Any:
    """Torch on one thread, since other tests may want the rest."""
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)
    return torch


@pytest.fixture
def cpu(child_module: Child, torch: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The CPU as a place, with few timed steps and a small eager data set."""
    measure, steps = child_module("strategies.measure"), child_module("strategies.steps")
    monkeypatch.setattr(measure, "TIMED", 3)
    monkeypatch.setattr(steps, "MOST_SAMPLES", 40)
    return child_module("place").Place(torch, child_module("torch_api"), "cpu")


@pytest.fixture
def gpu(child_module: Child, torch: Any) -> Any:
    from fake_cuda import FakeTorch  # noqa: PLC0415  (needs torch)

    fake = FakeTorch(torch, importlib.import_module("envkit.allocator"))
    return child_module("place").Place(fake, child_module("torch_api"), "cuda:0")


def measured(child_module: Child, place: Any, name: str, **more: Any) -> dict[str, Any]:
    args = arguments(BY_NAME[name], **more)
    answer: dict[str, Any] = child_module("strategies.measure").measured(place, args)
    return answer


def values(child_module: Child, place: Any, name: str, **more: Any) -> dict[str, Any]:
    answer = measured(child_module, place, name, **more)
    assert answer["status"] == "measured", answer["reason"]
    found: dict[str, Any] = answer["values"]
    return found


def test_the_catalogue_compares_with_what_is_in_it() -> None:
    for rows in (STRATEGIES, CALL_STRATEGIES):
        names = [row.name for row in rows]
        assert len(set(names)) == len(names)
        assert {row.against for row in rows} - {""} <= set(names)
        references = {row.name for row in rows if not row.against}
        assert {row.against for row in rows} - {""} <= references
        assert all((row.in_effect is not None) == bool(row.conf) for row in rows)


@pytest.mark.parametrize("workload", ["vit-tiny", "resnet-tiny", "gpt-tiny"])
def test_remedies_of_training_see_the_same_samples(
    child_module: Child, cpu: Any, workload: str
) -> None:
    baseline = values(child_module, cpu, "baseline", workload=workload)
    parts = values(child_module, cpu, "accumulation", workload=workload)
    again = values(child_module, cpu, "set-to-none", workload=workload)
    assert len(baseline["losses"]) == 3
    assert again["losses"] == baseline["losses"]
    assert again["digest"] == baseline["digest"]
    # A mean over parts is the mean over all, but for rounding and BatchNorm's statistics.
    assert parts["losses"] == pytest.approx(baseline["losses"], rel=0.05)
    assert parts["digest"] != baseline["digest"]
    assert parts["allocated_bytes"] < baseline["allocated_bytes"]


def test_checkpointing_saves_and_changes_no_bit_of_a_vit(child_module: Child, cpu: Any) -> None:
    baseline = values(child_module, cpu, "baseline")
    found = values(child_module, cpu, "checkpointing")
    assert found["digest"] == baseline["digest"]
    assert found["allocated_bytes"] < baseline["allocated_bytes"]


def test_outputs_are_the_same_without_gradients_and_take_less(
    child_module: Child, cpu: Any
) -> None:
    heavy = values(child_module, cpu, "inference-with-gradients")
    light = values(child_module, cpu, "no-grad")
    assert light["digest"] == heavy["digest"]
    assert light["allocated_bytes"] < heavy["allocated_bytes"]
    assert light["losses"] == [None, None, None]


def test_a_lazy_data_set_gives_the_samples_of_the_eager_one(child_module: Child, cpu: Any) -> None:
    eager = values(child_module, cpu, "eager-dataset", workload="gpt-tiny")
    lazy = values(child_module, cpu, "lazy-dataset", workload="gpt-tiny")
    assert lazy["digest"] == eager["digest"]
    if sys.platform == "linux":
        assert eager["host_growth_bytes"] >= 0


def test_batches_that_change_are_other_batches(child_module: Child, cpu: Any) -> None:
    steady = values(child_module, cpu, "baseline")
    changing = values(child_module, cpu, "changing-batches")
    assert changing["losses"][0] == steady["losses"][0]
    assert changing["losses"][1] != steady["losses"][1]


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("channels-last", {"workload": "gpt-tiny", "why": "there are no channels"}),
        ("accumulation", {"batch": 1, "why": "a batch of 1 has no equal parts"}),
        ("encoder-offloaded", {"why": "there is no other memory"}),
        ("expandable-segments", {"why": "the settings are those of the CUDA allocator"}),
    ],
)
def test_what_makes_no_sense_is_not_run(
    child_module: Child, cpu: Any, name: str, more: dict[str, Any]
) -> None:
    why = more.pop("why")
    answer = measured(child_module, cpu, name, **more)
    assert answer["status"] == "not_run"
    assert answer["reason"].startswith(why)


@pytest.mark.parametrize("package", ["bitsandbytes", "torchao"])
def test_a_package_that_is_missing_is_named(
    child_module: Child, cpu: Any, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    for module in (package, f"{package}.optim", f"{package}.prototype"):
        monkeypatch.setitem(sys.modules, module, None)
    answer = measured(child_module, cpu, f"adamw-8bit-{package}")
    assert answer["status"] == "not_run"
    assert answer["reason"] == f"{package} is not installed in this environment"


def test_an_8_bit_optimizer_is_used_where_it_is(
    child_module: Child, cpu: Any, torch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub = ModuleType("bitsandbytes.optim")
    stub.AdamW8bit = torch.optim.AdamW  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "bitsandbytes", ModuleType("bitsandbytes"))
    monkeypatch.setitem(sys.modules, "bitsandbytes.optim", stub)
    plain = values(child_module, cpu, "adamw")
    found = values(child_module, cpu, "adamw-8bit-bitsandbytes")
    assert found["digest"] == plain["digest"]


def test_out_of_memory_is_an_answer(
    child_module: Child, gpu: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_place: Any, _args: Any) -> Any:
        message = "CUDA out of memory. Tried to allocate 2.00 GiB"
        raise gpu.torch.OutOfMemoryError(message)

    monkeypatch.setattr(child_module("strategies.measure"), "prepare", full)
    answer = measured(child_module, gpu, "baseline")
    assert answer["status"] == "out_of_memory"
    assert "Tried to allocate 2.00 GiB" in answer["reason"]


def test_a_share_of_the_device_is_set_before_anything_runs(child_module: Child, gpu: Any) -> None:
    found = values(child_module, gpu, "baseline", memory_fraction=0.25, steps=2)
    assert gpu.torch.fake_device.fraction == 0.25
    assert set(found) == {"allocated_bytes", "reserved_bytes", "segments"}


def test_settings_that_torch_does_not_take_are_not_measured(
    child_module: Child, gpu: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTORCH_CUDA_ALLOC_CONF", raising=False)
    answer = measured(child_module, gpu, "max-split-size")
    assert answer["status"] == "not_run"
    assert answer["reason"] == "this torch does not take max_split_size_mb:128"


def test_settings_that_are_in_effect_are_measured(
    child_module: Child, gpu: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: dict[str, Any] = {}
    monkeypatch.setattr(
        gpu.torch.cuda.memory,
        "_snapshot",
        lambda: {"segments": [], "device_traces": [[]], "allocator_settings": taken},
    )
    monkeypatch.setattr(
        gpu.torch.cuda.memory,
        "_set_allocator_settings",
        lambda _conf: taken.update(max_split_size=128 << 20),
        raising=False,
    )
    assert values(child_module, gpu, "max-split-size", steps=1)["segments"] == 0


# --- the user's own step ------------------------------------------------------------------------


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_step.py").write_text(
        "import torch\n"
        "model = torch.nn.Linear(4, 4)\n"
        "def sized(batch):\n"
        "    return model(torch.randn(batch, 4)).square().mean()\n"
        "def plain():\n"
        "    return None\n"
    )


def called(child_module: Child, place: Any, name: str, function: str) -> Any:
    row = next(row for row in CALL_STRATEGIES if row.name == name)
    args = arguments(row, call=f"own_step:{function}", folder=str(Path.cwd()))
    try:
        return child_module("strategies.measure").measured(place, args)
    finally:
        sys.modules.pop("own_step", None)
        sys.path.remove(str(Path.cwd()))


@pytest.mark.usefixtures("own")
def test_a_step_of_the_users_own_is_called(child_module: Child, cpu: Any) -> None:
    first = called(child_module, cpu, "baseline", "sized")
    second = called(child_module, cpu, "baseline", "sized")
    assert first["values"]["losses"] == second["values"]["losses"]
    assert all(loss > 0 for loss in first["values"]["losses"])
    assert len(first["values"]["step_seconds"]) == 3


@pytest.mark.usefixtures("own")
def test_a_step_without_a_batch_has_no_smaller_one(child_module: Child, cpu: Any) -> None:
    assert called(child_module, cpu, "baseline", "plain")["status"] == "measured"
    answer = called(child_module, cpu, "smaller-batch", "plain")
    assert answer["reason"] == "own_step:plain has no parameter `batch`"
    answer = called(child_module, cpu, "baseline", "model2")
    reason = "module own_step has no function model2"
    assert answer == {"status": "failed", "reason": reason, "values": {}}


# --- all of it ----------------------------------------------------------------------------------


def test_each_strategy_runs_in_a_child_of_its_own(torch_python: str) -> None:
    asked = AskedStrategies(workload="resnet50", names=("baseline", "autocast-bf16"), batch=2)
    run = run_child(
        torch_python,
        ChildRequest(tasks=("strategies",), device="cpu", time_limit_s=100.0, strategies=asked),
    )
    assert run.outcome == Finished(), run.errors
    setup, *found, search = run.measured
    assert isinstance(setup, Setup)
    assert (setup.workload, setup.batch, setup.limit_bytes) == ("resnet-tiny", 2, None)
    assert [one.name for one in found if isinstance(one, Measurement)] == list(asked.names)
    assert all(one.status == "measured" for one in found if isinstance(one, Measurement))
    assert isinstance(search, BatchSearch)
    assert search.status == "not_run"


def test_the_largest_batch_is_held_or_given_up(
    child_module: Child, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = child_module("strategies.run")
    held_up_to = {3: 200, 50: 198}

    def answer(jobs: list[Any], _emit: Any, _request: Any) -> list[Any]:
        (job,) = jobs
        result = child_module("jobs").Result(job.name)
        result.status = "finished"
        fits = job.args["batch"] <= held_up_to[job.args["steps"]]
        peak = {"allocated_bytes": job.args["batch"] << 20}
        result.value = {"status": "measured", "reason": "", "values": peak}
        if not fits:
            result.value = {"status": "out_of_memory", "reason": "", "values": {}}
        return [result]

    monkeypatch.setattr(module, "run_jobs", answer)
    asked = {"workload": "vit-b16", "call": None, "batch": 16}
    work = module._work({**asked, "memory_fraction": None}, "cuda:0")
    told: dict[str, Any] = {}

    class Emit:
        def __call__(self, event: str, **fields: Any) -> None:
            told[event] = fields

        def stage(self, name: str) -> None:
            del name

    runner = module._Runner(work, {"time_limit_s": 100.0}, Emit())
    runner.search(205 << 20)
    found = told["batch_search"]
    assert found["status"] == "found"
    assert (found["largest"], found["held_steps"]) == (198, 50)
    assert [hold["batch"] for hold in found["holds"]] == [200, 198]
    assert found["holds"][0]["peak_bytes"] is None
    assert len(found["trials"]) <= 8

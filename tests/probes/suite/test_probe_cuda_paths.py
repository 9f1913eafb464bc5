"""Every CUDA path of the probes, on the fake device: the logic, not the numbers of a GPU."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from envkit.probes.child.exercises.operations import carry_out

Child = Callable[[str], ModuleType]


@pytest.fixture
def place(child: Child, fake_torch: Any) -> Any:
    return child("place").Place(fake_torch, child("torch_api"), "cuda:0")


class Found(dict[str, Any]):
    """Collects what a group reports, by part."""

    def __call__(self, part: str = "", **found: Any) -> None:
        assert part not in self
        self[part] = found


def measure(child: Child, family: str, place: Any, name: str) -> Found:
    found = Found()
    child(f"{family}.probes").measure(place, name, child("challenge").SEED, found)
    return found


@pytest.fixture
def small(child: Child, monkeypatch: pytest.MonkeyPatch, torch: Any) -> None:
    """Workloads small enough for the fake device."""
    del torch
    training = child("workloads.catalogue")
    monkeypatch.setitem(training.WORKLOADS, "cuda", training.WORKLOADS["cpu"])


# --- exercises ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["five_tensors", "checkerboard", "memory_limit", "streams", "random_trace"]
)
def test_an_exercise_on_the_device_gives_the_model_s_counters(
    child: Child, place: Any, model: Any, name: str
) -> None:
    found = measure(child, "exercises", place, name)[""]
    first, second = found["runs"]
    assert first == second
    total = found["observed"]["total_memory_bytes"]
    core = model.CachingAllocator("", total_memory=total)
    again = carry_out(found["operations"], core, total, model.OutOfMemory)
    assert again.steps == first["steps"]
    assert len(found["observed"]["addresses"]) == len(found["operations"])


def test_another_backend_gives_no_value(child: Child, place: Any) -> None:
    place.torch.cuda.backend = "cudaMallocAsync"
    with pytest.raises(child("place").Unmet, match="cudaMallocAsync"):
        measure(child, "exercises", place, "five_tensors")


def test_memory_in_use_gives_no_value(child: Child, place: Any) -> None:
    place.torch.fake_device.core.malloc(4096)
    with pytest.raises(child("place").Unmet, match="not empty before the exercise"):
        measure(child, "exercises", place, "five_tensors")


def test_a_full_device_gives_no_value(child: Child, place: Any) -> None:
    place.torch.fake_device.neighbour_bytes = 139 << 30
    with pytest.raises(child("place").TooFull, match="too few for the exercises"):
        measure(child, "exercises", place, "five_tensors")


def test_a_device_that_runs_out_before_the_limit_gives_no_value(
    child: Child, place: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child("exercises.probes"), "NEED_BYTES", 0)
    place.torch.fake_device.neighbour_bytes = (139 << 30) - (100 << 20)
    with pytest.raises(child("place").TooFull, match="too few to tell its end"):
        measure(child, "exercises", place, "memory_limit")


def test_the_user_s_memory_fraction_comes_back(child: Child, place: Any) -> None:
    place.torch.cuda.set_per_process_memory_fraction(0.5, 0)
    measure(child, "exercises", place, "memory_limit")
    assert place.torch.fake_device.fraction == 0.5


def test_a_stream_that_cannot_be_kept_busy_gives_no_value(
    child: Child, place: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(type(place.torch.cuda), "_sleep")
    with pytest.raises(child("place").Unmet, match=r"no torch\.cuda\._sleep"):
        measure(child, "exercises", place, "streams")


def test_counting_that_is_off_gives_no_value(
    child: Child, place: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(place.torch.cuda), "memory_stats", lambda *_: {})
    with pytest.raises(child("place").Unmet, match="counts nothing"):
        measure(child, "exercises", place, "five_tensors")


# --- workloads ------------------------------------------------------------------------------------


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", ["vit.fp32", "resnet.bf16"])
def test_a_workload_gives_all_its_parts_twice_alike(child: Child, place: Any, name: str) -> None:
    found = measure(child, "workloads", place, name)
    assert set(found) == {"losses", "weights", "peaks", "tensors", "workspaces"}
    for part in found.values():
        first, second = part["runs"]
        assert first == second
    json.dumps(found)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    "name",
    [
        *("gpt.bf16", "options.fp16", "options.accumulation", "options.checkpointing"),
        *("options.channels_last", "options.inference", "options.zeroed_gradients"),
        *("lifetimes.leak", "lifetimes.optimizer", "lifetimes.moved"),
    ],
)
def test_every_workload_gives_the_parts_that_its_suite_promises(
    child: Child, place: Any, name: str
) -> None:
    found = measure(child, "workloads", place, name)
    assert {*found} - {"held"} == {*child("members").parts(name)} - {"held"}
    assert ("held" in found) == name.startswith("lifetimes")
    for part in found.values():
        assert part["runs"][0] == part["runs"][1]


@pytest.mark.usefixtures("small")
def test_every_step_leaks_the_same_bytes(child: Child, place: Any) -> None:
    held = measure(child, "workloads", place, "lifetimes.leak")["held"]["runs"][0]
    before, *after = held.values()
    steps = [later - earlier for earlier, later in itertools.pairwise(after)]
    assert steps[0] == steps[1] > 0
    # The first step makes gradients and the optimizer's states as well; those stay.
    assert after[0] - before > steps[0]


@pytest.mark.usefixtures("small")
def test_the_first_update_makes_the_optimizer_s_states(child: Child, place: Any) -> None:
    held = measure(child, "workloads", place, "lifetimes.optimizer")["held"]["runs"][0]
    model = held["model_bytes"]
    # Two moments of every parameter.
    assert held["update_1_bytes"] - held["gradients_1_bytes"] == 2 * model
    assert held["update_2_bytes"] == held["gradients_2_bytes"]
    assert held["dropped_1_bytes"] == held["dropped_2_bytes"] == 3 * model + 4  # the loss


@pytest.mark.usefixtures("small")
def test_a_moved_model_gives_the_same_outputs(child: Child, place: Any) -> None:
    found = measure(child, "workloads", place, "lifetimes.moved")
    assert found["outputs"]["runs"][0]["same_as_before"] is True
    assert [*found["held"]["runs"][0]] == ["here_bytes", "moved_to_cpu_bytes", "moved_back_bytes"]


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("graphs.gpt", "a CUDA graph does not run here"),
        ("compiled.gpt", "torch.compile does not run here: RuntimeError: no compiler"),
        ("quantised.vit", "torchao is not installed"),
    ],
)
def test_what_is_not_there_gives_no_value(
    child: Child, place: Any, monkeypatch: pytest.MonkeyPatch, *, name: str, why: str
) -> None:
    def no_compiler(_model: Any) -> None:
        message = "no compiler"
        raise RuntimeError(message)

    monkeypatch.setattr(child("workloads.extensions").torch, "compile", no_compiler)
    monkeypatch.setattr(
        child("workloads.extensions").importlib.util, "find_spec", lambda _name: None
    )
    with pytest.raises(child("place").Unmet, match=why):
        measure(child, "workloads", place, name)


@pytest.mark.usefixtures("small")
def test_a_stream_that_cannot_be_split_is_reported_whole(
    child: Child, place: Any, monkeypatch: pytest.MonkeyPatch, torch: Any
) -> None:
    monkeypatch.setattr(torch, "compile", lambda model: model)
    found = measure(child, "workloads", place, "compiled.gpt")
    assert {*found} == {*child("members").parts("compiled.gpt")}
    requests = found["requests"]["runs"][0]["requests"]
    assert 33554432 in requests
    assert 128 * 32 * 4 in requests  # the embedding


@pytest.mark.usefixtures("small")
def test_library_memory_lands_in_workspaces(child: Child, place: Any) -> None:
    found = measure(child, "workloads", place, "vit.fp32")
    workspaces = found["workspaces"]["runs"][0]["requests"]
    # 2 steps of one convolution, forward and backward; one cuBLAS workspace in each run.
    assert workspaces.count(1048576) == 4
    assert workspaces.count(33554432) == 1
    tensors = found["tensors"]["runs"][0]["requests"]
    assert not {1048576, 33554432} & set(tensors)
    assert 3 * 64 * 64 * 4 in tensors  # a qkv weight


@pytest.mark.usefixtures("small")
def test_peaks_are_the_allocator_s_and_can_be_replayed(
    child: Child, place: Any, model: Any
) -> None:
    peaks = measure(child, "workloads", place, "resnet.fp32")["peaks"]
    core = model.CachingAllocator("", total_memory=1 << 40)
    held: list[int] = []
    for request in peaks["observed"]["requests"]:
        if request > 0:
            held.append(core.malloc(request))
        else:
            core.free(held[-request - 1])
    stats = core.memory_stats()
    assert peaks["runs"][0] == {
        "allocated_bytes": stats["allocated_bytes.all.peak"],
        "reserved_bytes": stats["reserved_bytes.all.peak"],
        "segments": stats["segment.all.peak"],
    }
    assert len(peaks["observed"]["segments"]) >= stats["segment.all.peak"]


@pytest.mark.usefixtures("small")
def test_without_memory_history_the_rest_is_still_measured(
    child: Child, place: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(type(place.torch.cuda.memory), "_record_memory_history")
    found = measure(child, "workloads", place, "vit.bf16")
    for part in ("tensors", "workspaces"):
        assert "_record_memory_history" in found[part]["not_run"]
    assert found["losses"]["runs"][0] == found["losses"]["runs"][1]
    assert found["peaks"]["observed"] is None


@pytest.mark.usefixtures("small")
def test_a_full_history_gives_no_stream(
    child: Child, place: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child("recording"), "MAX_ENTRIES", 50)
    with pytest.raises(child("place").Unmet, match="full after 50 entries"):
        measure(child, "workloads", place, "vit.bf16")


@pytest.mark.usefixtures("small")
def test_streams_that_do_not_fit_under_the_dispatcher_fail(
    child: Child, place: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = child("recording")
    watch = recording.watch

    def other(place: Any, work: Any) -> Any:
        seen = watch(place, work)
        return seen._replace(
            stream=seen.stream._replace(requests=seen.stream.requests[:10]),
            is_tensor=seen.is_tensor[:10],
        )

    monkeypatch.setattr(recording, "watch", other)
    found = measure(child, "workloads", place, "vit.bf16")
    assert "the split was not possible" in found["tensors"]["failed"]


@pytest.mark.usefixtures("small")
def test_what_is_left_over_gives_no_value(child: Child, place: Any) -> None:
    place.torch.fake_device.core.malloc(777)
    with pytest.raises(child("place").Unmet, match="1024 bytes of an earlier run"):
        measure(child, "workloads", place, "vit.bf16")


@pytest.mark.usefixtures("small")
def test_a_gpu_without_bfloat16_gives_no_value(child: Child, place: Any) -> None:
    place.torch.cuda.has_bf16 = False
    with pytest.raises(child("place").Unmet, match="no bfloat16"):
        measure(child, "workloads", place, "vit.bf16")


# --- the rest -------------------------------------------------------------------------------------


def test_context_tells_what_is_used_outside_the_allocator(child: Child, place: Any) -> None:
    found = Found()
    facts = child("context").measure(place, "memory", 0, found)
    assert found[""]["runs"][0]["used_outside_this_allocator_bytes"] == 816644096
    assert facts == {"free_bytes": found[""]["runs"][1]["free_bytes"]}


def test_a_neighbour_is_a_confound(child: Child, place: Any) -> None:
    find = child("confounds").find
    assert not [seen for seen in find(place) if seen["name"] == "other_processes"]
    place.torch.fake_device.neighbour_bytes = 10 << 30
    (seen,) = [seen for seen in find(place) if seen["name"] == "other_processes"]
    assert seen["values"] == {"at_least_bytes": (10 << 30) + 816644096 - (1 << 30)}


def test_tracers_and_profilers_are_confounds(
    child: Child, place: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = child("confounds").find
    before = find(place)
    monkeypatch.setenv("CUDA_INJECTION64_PATH", "libprofiler.so")
    monkeypatch.setattr(sys, "getprofile", lambda: print)
    new = [seen for seen in find(place) if seen not in before]
    assert [(seen["name"], seen["reason"]) for seen in new] == [
        ("python_tracer", "a function is set with sys.setprofile"),
        ("profiler", "the variable CUDA_INJECTION64_PATH is set"),
    ]


class FakeNvml:
    """libnvidia-ml with one device at bus 0B."""

    def __init__(self, reasons: int) -> None:
        self._reasons = reasons

    def nvmlInit_v2(self) -> int:  # noqa: N802  (names of nvml.h)
        return 0

    def nvmlShutdown(self) -> int:  # noqa: N802
        return 0

    def nvmlDeviceGetHandleByPciBusId_v2(  # noqa: N802
        self, name: bytes, _handle: Any
    ) -> int:
        return 0 if name == b"00000000:0b:00.0" else 6

    def nvmlDeviceGetCurrentClocksThrottleReasons(  # noqa: N802
        self, _handle: Any, reasons: Any
    ) -> int:
        reasons._obj.value = self._reasons
        return 0


@pytest.mark.parametrize(
    "case", [(0x1, []), (0x44, ["software power cap", "hardware thermal slowdown"])]
)
def test_a_slowdown_is_told_by_its_reason(
    child: Child, place: Any, monkeypatch: pytest.MonkeyPatch, case: tuple[int, list[str]]
) -> None:
    state = child("device_state")
    reasons, told = case
    monkeypatch.setattr(state.ctypes, "CDLL", lambda _name: FakeNvml(reasons))
    assert state.slowdowns(place) == told


def test_numerics_run_on_the_device(child: Child, place: Any, monkeypatch: Any) -> None:
    monkeypatch.setitem(child("numerics.operations").SIDE, "cuda", 64)
    found = measure(child, "numerics", place, "matmul.bf16")[""]
    assert found["runs"][0] == found["runs"][1]
    assert found["runs"][0]["product"]["dtype"] == "bfloat16"


@pytest.mark.parametrize("capability", [(7, 5), (8, 0)])
def test_tf32_is_allowed_for_its_probe_alone(
    child: Child, place: Any, monkeypatch: Any, torch: Any, *, capability: tuple[int, int]
) -> None:
    monkeypatch.setitem(child("numerics.operations").SIDE, "cuda", 64)
    monkeypatch.setattr(
        type(place.torch.cuda),
        "get_device_capability",
        lambda _self, _index: capability,
        raising=False,
    )
    before = torch.backends.cuda.matmul.allow_tf32
    if capability < (8, 0):
        with pytest.raises(child("place").Unmet, match="no TF32"):
            measure(child, "numerics", place, "matmul.tf32")
    else:
        assert measure(child, "numerics", place, "matmul.tf32")[""]["runs"][0]["product"]
    assert torch.backends.cuda.matmul.allow_tf32 is before


def test_a_backend_that_does_not_run_gives_no_value(child: Child, place: Any) -> None:
    with pytest.raises(child("place").Unmet, match="does not run here"):
        measure(child, "numerics", place, "sdpa.cudnn")


def test_a_family_reports_every_probe_whatever_one_does(
    child: Child, fake_torch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    place_module, families, membership = child("place"), child("families"), child("membership")
    probes = [
        probe for probe in membership.SUITES["quick"].probes["cuda"] if probe.family == "exercises"
    ]
    measured = child("exercises.probes").measure

    def sometimes(place: Any, name: str, seed: int, report: Any) -> None:
        if name == "checkerboard":
            message = "CUDA error: unspecified launch failure"
            raise RuntimeError(message)
        if name == "streams":
            message = "streams cannot be had"
            raise place_module.Unmet(message)
        measured(place, name, seed, report)

    monkeypatch.setattr(child("exercises.probes"), "measure", sometimes)
    events: list[dict[str, Any]] = []

    class Emit:
        def __call__(self, event: str, **fields: Any) -> None:
            events.append({"event": event, **fields})

        def stage(self, name: str) -> None:
            self("stage", name=name)

    args = {"family": "exercises", "seed": 7, "probes": [list(probe) for probe in probes]}
    place = place_module.Place(fake_torch, child("torch_api"), "cuda:0")
    families.Family(place, args, Emit()).measure()
    told = {event["name"]: event for event in events if event["event"] == "probe"}
    assert list(told) == [probe.name for probe in probes]
    assert told["exercises.checkerboard"]["status"] == "failed"
    assert "unspecified launch failure" in told["exercises.checkerboard"]["reason"]
    assert told["exercises.streams"]["status"] == "not_run"
    assert told["exercises.streams"]["operations"]
    assert told["exercises.random_trace"]["status"] == "exact"
    json.dumps(events)

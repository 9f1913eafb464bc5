"""CUDA facts and self-tests, on fakes: what cannot be told is said to be so."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

Child = Callable[[str], ModuleType]


class Sink:
    """Stands for the emitter: keeps the stages."""

    def __init__(self) -> None:
        self.stages: list[str] = []

    def stage(self, name: str) -> None:
        self.stages.append(name)


def card(**changes: Any) -> SimpleNamespace:
    values = {
        "name": "NVIDIA H200",
        "major": 9,
        "minor": 0,
        "total_memory": 150_000_000_000,
        "multi_processor_count": 132,
        "uuid": "11111111-2222-3333-4444-555555555555",
        "L2_cache_size": 62_914_560,
    }
    return SimpleNamespace(**{**values, **changes})


def cuda_torch(init: Callable[[], None] = lambda: None, **changes: Any) -> SimpleNamespace:
    cuda = {
        "init": init,
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "get_device_properties": lambda _index: card(),
        "get_arch_list": lambda: ["sm_80", "sm_90"],
        "get_allocator_backend": lambda: "native",
        "memory": SimpleNamespace(
            _snapshot=lambda: {
                "allocator_settings": {
                    "expandable_segments": False,
                    "garbage_collection_threshold": 0.0,
                    "roundup_power2_divisions": {"1": 0, "2": 4},
                }
            }
        ),
    }
    return SimpleNamespace(
        __version__="2.11.0+cu130",
        version=SimpleNamespace(cuda="13.0", hip=None),
        cuda=SimpleNamespace(**{**cuda, **changes}),
        backends=SimpleNamespace(cudnn=SimpleNamespace(version=lambda: 91900)),
        get_num_threads=lambda: 8,
    )


@pytest.fixture
def device(child_module: Child, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = child_module("device_facts")
    # No CUDA runtime is mapped into the process of a test, whatever was imported before.
    missing = module.Missing("no libcudart is mapped into the process")
    for name in ("runtime_error", "driver_version", "runtime_version", "cublas_version"):
        monkeypatch.setattr(module.mapped, name, lambda: missing)
    return module


def fail(message: str) -> Callable[[], None]:
    def raise_it() -> None:
        raise RuntimeError(message)

    return raise_it


def test_facts_of_a_working_card(device: ModuleType) -> None:
    sink = Sink()
    facts = device.device_facts(cuda_torch(), sink)
    assert sink.stages == ["cuda_init", "cuda_facts"]
    assert device.usable(facts)
    assert facts["cuda_init_error"] == {"absent": "CUDA could be initialised"}
    (only,) = facts["devices"]
    assert (only["capability"], only["sm_count"], only["l2_bytes"]) == ("9.0", 132, 62_914_560)
    # printf GPU-11111111-2222-3333-4444-555555555555 | sha256sum | cut -c1-16
    assert only["uuid_hash"] == "b97e2a67f952b056"
    assert facts["allocator_settings"] == {
        "expandable_segments": False,
        "garbage_collection_threshold": 0.0,
        "roundup_power2_divisions": {"1": 0, "2": 4},
    }
    assert facts["driver_version_seen"] == {"unreadable": "no libcudart is mapped into the process"}


def test_key_of_a_working_card(device: ModuleType) -> None:
    torch = cuda_torch()
    key = device.comparability_key(torch, device.device_facts(torch, Sink()), "cuda:0")
    assert (key["capability"], key["sm_count"], key["cudnn"], key["threads"]) == (
        "9.0",
        132,
        91900,
        8,
    )
    on_cpu = device.comparability_key(torch, device.device_facts(torch, Sink()), "cpu")
    assert (on_cpu["capability"], on_cpu["cudnn"], on_cpu["settings"]) == (None, None, {})


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("Error 804: forward compatibility was attempted on non supported HW", 804),
        ("Error 802: system not yet initialized", 802),
        ("Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU", 35),
        ("The NVIDIA driver on your system is too old (found version 11040).", 35),
        ("No CUDA GPUs are available", 100),
    ],
)
def test_errors_of_cuda_are_numbered(device: ModuleType, message: str, code: int) -> None:
    torch = cuda_torch(fail(message), is_available=lambda: False, device_count=lambda: 0)
    facts = device.device_facts(torch, Sink())
    assert facts["cuda_init_error"]["code"] == code
    assert not device.usable(facts)
    assert facts["devices"] == []


def test_list_of_architectures_is_not_emptied_by_a_missing_driver(device: ModuleType) -> None:
    assert device.device_facts(cuda_torch(), Sink())["arch_list"] == ["sm_80", "sm_90"]
    torch = cuda_torch(fail("Found no NVIDIA driver on your system"), get_arch_list=list)
    assert "arch_list" not in device.device_facts(torch, Sink())


def test_an_error_without_a_number_is_unreadable(device: ModuleType) -> None:
    facts = device.device_facts(cuda_torch(fail("it just does not")), Sink())
    assert facts["cuda_init_error"] == {"unreadable": "RuntimeError: it just does not"}
    assert not device.usable(facts)


def test_the_runtime_itself_is_asked_first(
    device: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = {"code": 999, "name": "cudaErrorUnknown", "message": "unknown error"}
    monkeypatch.setattr(device.mapped, "runtime_error", lambda: answer)
    facts = device.device_facts(cuda_torch(fail("something")), Sink())
    assert facts["cuda_init_error"]["code"] == 999
    assert "something" in facts["cuda_init_error"]["message"]


def test_not_available_and_no_error(device: ModuleType) -> None:
    facts = device.device_facts(cuda_torch(is_available=lambda: False), Sink())
    assert "unreadable" in facts["cuda_init_error"]
    assert not device.usable(facts)


def test_a_fork_of_a_process_that_used_cuda(device: ModuleType) -> None:
    facts = device.device_facts(cuda_torch(_is_in_bad_fork=lambda: True), Sink())
    assert "before the probe was started" in facts["cuda_init_error"]["unreadable"]


def test_old_device_properties(device: ModuleType) -> None:
    old = card()
    del old.uuid, old.L2_cache_size
    facts = device.device_facts(cuda_torch(get_device_properties=lambda _index: old), Sink())
    assert facts["devices"][0]["uuid_hash"] == {"unreadable": "this torch does not tell uuid"}


def test_one_card_that_cannot_be_asked(device: ModuleType) -> None:
    torch = cuda_torch(get_device_properties=lambda _index: fail("device lost")())
    facts = device.device_facts(torch, Sink())
    assert facts["devices"] == {"unreadable": "RuntimeError: device lost"}


def test_build_without_cuda(device: ModuleType) -> None:
    torch = SimpleNamespace(
        version=SimpleNamespace(cuda=None), cuda=SimpleNamespace(is_available=lambda: False)
    )
    facts = device.device_facts(torch, Sink())
    assert facts["cuda_available"] is False
    assert facts["cuda_init_error"] == {"not_applicable": "this torch is built without CUDA"}
    assert not device.usable(facts)


# --- mapped libraries -----------------------------------------------------------------------------

MAPS = """\
7f00-7f01 r-xp 00000000 08:01 1 /opt/env with space/lib/libcudart.so.12
7f01-7f02 r--p 00000000 08:01 1 /opt/env with space/lib/libcudart.so.12
7f02-7f03 r-xp 00000000 08:01 2 /usr/lib/libssl.so.3
7f03-7f04 rw-p 00000000 00:00 0 [heap]
7f04-7f05 rw-p 00000000 00:00 0
7f05-7f06 r-xp 00000000 08:01 3 /opt/lib/libcudnn_ops.so.9 (deleted)
7f06-7f07 r-xp 00000000 08:01 4 /usr/lib/libc.so.6
7f07-7f08 r--p 00000000 08:01 5 /opt/lib/libtorch.txt
"""


def test_mapped_files_are_filtered_and_listed_once(
    child_module: Child, monkeypatch: pytest.MonkeyPatch
) -> None:
    mapped = child_module("mapped_libraries")
    monkeypatch.setattr(mapped, "_read_text", lambda _path: MAPS)
    monkeypatch.setattr(mapped.sys, "platform", "linux")
    assert [library["path"] for library in mapped.mapped_libraries()] == [
        "/opt/env with space/lib/libcudart.so.12",
        "/opt/lib/libcudnn_ops.so.9",
        "/usr/lib/libc.so.6",
    ]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc is Linux")
def test_this_process_has_a_c_library(child_module: Child) -> None:
    names = {Path(x["path"]).name for x in child_module("mapped_libraries").mapped_libraries()}
    assert any(name.startswith(("libc.so", "libc-")) for name in names)


def test_no_proc_no_list(child_module: Child, monkeypatch: pytest.MonkeyPatch) -> None:
    mapped = child_module("mapped_libraries")
    monkeypatch.setattr(mapped.sys, "platform", "darwin")
    answer = mapped.mapped_libraries()
    assert isinstance(answer, mapped.Missing)


# --- self-test ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("CUDA error: no kernel image is available for execution on the device", "no_kernel_image"),
        ("CUDA out of memory. Tried to allocate 2.00 MiB", "out_of_memory"),
        ("cuDNN error: CUDNN_STATUS_NOT_INITIALIZED", "cudnn"),
        ("CUDA error: CUBLAS_STATUS_ALLOC_FAILED", "cublas"),
        ("operator torchvision::nms does not exist", "torchvision_mismatch"),
        ("CUDA error: an illegal memory access was encountered", "device_fault"),
        ("CUDA error: unknown error", "device_lost"),
        ("libcudnn.so.9: cannot open shared object file", "missing_library"),
        ("a new kind of trouble", "other"),
    ],
)
def test_errors_are_classified(child_module: Child, text: str, kind: str) -> None:
    assert child_module("self_test").classify(text) == kind


def test_a_torch_without_operations_runs_no_test(child_module: Child) -> None:
    outcomes = child_module("self_test").run_self_tests(SimpleNamespace(), "cpu")
    assert {outcome["status"] for outcome in outcomes} == {"not_run"}


def test_a_wrong_sum_fails(child_module: Child) -> None:
    self_test = child_module("self_test")
    wrong = SimpleNamespace(sum=lambda: SimpleNamespace(cpu=lambda: 1.5))
    torch = SimpleNamespace(float32="f", tensor=lambda *_args, **_kwargs: wrong)
    outcome = self_test._one("sum_fp32", self_test._sum, torch, "cpu")
    assert (outcome["status"], outcome["kind"]) == ("fail", "wrong_result")
    assert outcome["reason"].startswith("wrong result: 1.5 instead of")


@pytest.mark.parametrize(
    ("error", "status"),
    [(0.0, "pass"), (0.05, "pass"), (0.4, "fail"), (1, "fail"), (float("nan"), "fail")],
)
def test_a_convolution_may_take_a_detour_but_not_be_wrong(
    child_module: Child, error: float, status: str
) -> None:
    self_test = child_module("self_test")

    def convolve(image: Any, kernel: Any) -> Any:
        rows = [
            [
                sum(
                    image[0][0][r + i][c + j] * kernel[0][0][i][j]
                    for i in range(3)
                    for j in range(3)
                )
                for c in range(6)
            ]
            for r in range(7)
        ]
        rows[3][4] += error
        answer = [[rows]]
        return SimpleNamespace(cpu=lambda: SimpleNamespace(tolist=lambda: answer))

    torch = SimpleNamespace(
        float32="f",
        tensor=lambda values, **_: values,
        nn=SimpleNamespace(functional=SimpleNamespace(conv2d=convolve)),
    )
    outcome = self_test._one("conv2d_fp32", self_test._conv2d, torch, "cuda:0")
    assert (outcome["status"], outcome["kind"]) == (
        status,
        "wrong_result" if status == "fail" else "",
    )


def test_an_operation_that_raises_fails_with_its_kind(child_module: Child) -> None:
    self_test = child_module("self_test")

    def refuse(*_args: object, **_kwargs: object) -> None:
        message = "CUDA error: no kernel image is available for execution on the device"
        raise RuntimeError(message)

    torch = SimpleNamespace(float32="f", float64="d", tensor=refuse, matmul=None)
    outcomes = {o["name"]: o for o in self_test.run_self_tests(torch, "cuda:0")}
    assert outcomes["sum_fp32"]["status"] == "fail"
    assert outcomes["sum_fp32"]["kind"] == "no_kernel_image"


def test_a_full_device_is_not_tested(child_module: Child) -> None:
    # Seen on an H200 that another process had filled: every operation "failed", and the machine
    # was called broken.
    cuda = SimpleNamespace(mem_get_info=lambda _index: (5 << 20, 140 << 30))
    outcomes = child_module("self_test").run_self_tests(SimpleNamespace(cuda=cuda), "cuda:0")
    assert {outcome["status"] for outcome in outcomes} == {"not_run"}
    assert {outcome["kind"] for outcome in outcomes} == {"out_of_memory"}
    assert "5242880 bytes" in outcomes[0]["reason"]


def test_memory_that_runs_out_meanwhile_is_no_failure(child_module: Child) -> None:
    def refuse(*_args: object, **_kwargs: object) -> None:
        message = "CUDA out of memory. Tried to allocate 2.00 MiB."
        raise RuntimeError(message)

    self_test = child_module("self_test")
    torch = SimpleNamespace(float32="f", tensor=refuse)
    outcome = self_test._one("sum_fp32", self_test._sum, torch, "cuda:0")
    assert (outcome["status"], outcome["kind"]) == ("not_run", "out_of_memory")


def test_a_library_that_fails_on_a_full_device_is_no_failure_either(child_module: Child) -> None:
    # Seen on an H200 that was filled while the tests ran.
    free = iter([600 << 20, 5 << 20, 5 << 20])

    def refuse(*_args: object, **_kwargs: object) -> None:
        message = "CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm(...)`"
        raise RuntimeError(message)

    cuda = SimpleNamespace(mem_get_info=lambda _index: (next(free), 140 << 30))
    torch = SimpleNamespace(cuda=cuda, float32="f", tensor=refuse, matmul=None)
    outcomes = child_module("self_test").run_self_tests(torch, "cuda:0", brief=True)
    assert [(one["status"], one["kind"]) for one in outcomes] == [("not_run", "out_of_memory")] * 2


def test_a_brief_run_loads_neither_cudnn_nor_torchvision(child_module: Child) -> None:
    outcomes = child_module("self_test").run_self_tests(SimpleNamespace(), "cpu", brief=True)
    assert [outcome["name"] for outcome in outcomes] == ["matmul_fp32", "sum_fp32"]


def test_a_real_torch_passes_every_test(child_module: Child) -> None:
    torch = pytest.importorskip("torch")
    outcomes = child_module("self_test").run_self_tests(torch, "cpu")
    status = {outcome["name"]: outcome["status"] for outcome in outcomes}
    assert status.pop("torchvision_nms") in {"pass", "not_run"}
    assert set(status.values()) == {"pass"}
    assert len(status) == 6


# --- values ---------------------------------------------------------------------------------------


def test_values_become_json(child_module: Child) -> None:
    plain = child_module("states").plain
    missing = child_module("torch_api").Missing
    assert plain({"a": (1, missing("why")), 2: float("nan")}) == {
        "a": [1, {"unreadable": "why"}],
        "2": "nan",
    }
    assert plain("\udcff") == "?"
    assert plain(object).startswith("<class")


@pytest.mark.parametrize(
    ("asked", "count", "device", "unusable"),
    [
        ("auto:1", 2, "cuda:1", ""),
        ("auto:1", 1, "cuda:0", ""),  # the launcher shows each rank one GPU
        ("auto:3", 2, None, "there is no cuda:3"),
        ("auto:1", 0, "cpu", ""),
        ("cuda:1", 1, None, "there is no cuda:1"),
    ],
)
def test_a_rank_takes_the_gpu_of_its_number(  # noqa: PLR0913, PLR0917 (a table's columns)
    child_module: Child,
    monkeypatch: pytest.MonkeyPatch,
    asked: str,
    count: int,
    device: str | None,
    unusable: str,
) -> None:
    main = child_module("main")
    facts = {
        "cuda_available": count > 0,
        "device_count": count,
        "cuda_init_error": {"absent": "it worked"} if count else {"message": "no device"},
    }
    monkeypatch.setitem(sys.modules, "torch", cuda_torch())
    monkeypatch.setattr(main, "device_facts", lambda *_: facts)
    monkeypatch.setattr(main, "usable", lambda _: count > 0)
    looked = main.look_at_device({"device": asked, "report": False, "test": True}, Sink())
    assert unusable in looked["unusable"]
    found = main._measured(looked["asked"], looked["unusable"], promised=looked["promised"])
    assert found == device


def test_a_context_that_ends_the_look_does_not_end_all(
    child_module: Child, monkeypatch: pytest.MonkeyPatch
) -> None:
    main = child_module("main")
    started: list[dict[str, Any]] = []

    def run_jobs(jobs: list[Any], *_: object, **__: object) -> list[Any]:
        device, *others = [child_module("fork").Result(job.name) for job in jobs]
        started.append(jobs[0].args)
        device.stage = main.CONTEXT_STAGE * (len(started) == 1)
        for told in [device] * (len(started) > 1) + others:
            told.status = "finished"
        device.value = {"asked": "auto", "unusable": "", "promised": True, "context": None}
        return [device, *others]

    monkeypatch.setattr(main, "run_jobs", run_jobs)
    request = {"device": "auto", "tasks": ["facts", "fingerprint"]}
    assert main._look(cuda_torch(), request, Sink(), time.monotonic() + 60) == ("cuda:0", None)
    assert [(args["report"], args["test"]) for args in started] == [(True, False), (False, True)]


def test_a_look_at_the_context_says_so(
    child_module: Child, monkeypatch: pytest.MonkeyPatch
) -> None:
    families = child_module("families")
    monkeypatch.setattr(families, "measure_family", lambda *_: {})
    sink = Sink()
    assert families.measure_context("cuda:0", sink) == {"facts": {}, "events": []}
    assert sink.stages == [child_module("main").CONTEXT_STAGE]

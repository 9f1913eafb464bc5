"""Whole runs of the child against a real torch, and against fakes with a GPU."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from envkit.probes import launch
from envkit.probes.events import ChildRequest

if TYPE_CHECKING:
    from probes.conftest import Target


@pytest.fixture(scope="module")
def real(torch_python: str) -> launch.ChildRun:
    request = ChildRequest(
        device="cpu", flags={"deterministic_warn_only": True}, time_limit_s=240.0
    )
    return launch.run_child(torch_python, request)


def test_real_torch_answers_everything(real: launch.ChildRun) -> None:
    assert real.outcome == launch.Finished()
    assert real.errors == ()
    assert real.stage == "mapped_libraries"
    facts = real.facts["torch"]
    assert facts["version"].startswith(("1.", "2.", "3."))
    assert facts["flags"]["cudnn.enabled"] is True
    assert facts["flags"]["deterministic_warn_only"] is True
    assert facts["threads"]["intra"] >= 1
    assert facts["default_dtype"] == "float32"
    assert "PyTorch built with" in facts["built_with"]


def test_real_torch_computes(real: launch.ChildRun) -> None:
    assert real.self_test is not None
    assert real.self_test.device == "cpu"
    assert {test.name: test.status for test in real.self_test.tests} == {
        "matmul_fp32": "pass",
        "sum_fp32": "pass",
    }


def test_real_torch_is_mapped(real: launch.ChildRun) -> None:
    if not sys.platform.startswith("linux"):
        pytest.skip("mapped files can be read on Linux only")
    libraries = real.facts["torch"]["mapped_libraries"]
    assert any(Path(library["path"]).name.startswith("libtorch") for library in libraries)


def test_key_of_the_cpu(real: launch.ChildRun) -> None:
    assert real.key is not None
    assert real.key["torch"] == real.facts["torch"]["version"]
    assert (real.key["capability"], real.key["settings"]) == (None, {})
    assert all(isinstance(value, bool | int | str) for value in real.key["flags"].values())


GPU_TORCH = """
import os, signal, sys, time, types
__version__ = "2.11.0+cu130"
version = types.SimpleNamespace(cuda="13.0", hip=None, git_version="abc", debug=False)
_C = types.SimpleNamespace(_cuda_getArchFlags=lambda: "sm_80 sm_90")
cuda = types.SimpleNamespace(is_available=lambda: True, is_initialized=lambda: False)
cuda.device_count = lambda: 1
"""


def test_crash_of_cuda_is_placed_and_the_build_is_still_known(target: Target) -> None:
    crash = "cuda.init = lambda: os.kill(os.getpid(), signal.SIGSEGV)"
    target.module("torch.", GPU_TORCH + crash)
    run = target.run()
    assert run.outcome == launch.Finished()
    crashed, unusable = run.errors
    assert (crashed.stage, crashed.type, crashed.message) == ("cuda_init", "crashed", "SIGSEGV")
    assert (unusable.stage, unusable.type) == ("device", "DeviceUnusable")
    assert run.facts["torch"]["cuda_version"] == "13.0"
    assert run.facts["torch"]["arch_list"] == ["sm_80", "sm_90"]
    assert "SIGSEGV" in run.facts["torch"]["cuda_available"]["unreadable"]
    assert run.self_test is None


def test_hang_of_cuda_is_placed(target: Target) -> None:
    target.module("torch.", GPU_TORCH + "cuda.init = lambda: time.sleep(600)")
    run = target.run(time_limit_s=3.0)
    assert run.outcome == launch.Finished()
    assert [(error.stage, error.type) for error in run.errors] == [
        ("cuda_init", "timed_out"),
        ("device", "DeviceUnusable"),
    ]


POISONED = """
marked = None
def mark(answer):
    global marked
    marked = os.getpid()
    return answer
cuda.init = lambda: None
cuda._is_in_bad_fork = lambda: marked is not None and marked != os.getpid()
cuda.get_arch_list = lambda: mark(["sm_90"])
"""


@pytest.mark.parametrize(
    "question",
    [
        "_C._cuda_getArchFlags = lambda: mark('sm_90')",
        "_C._cudnn = types.SimpleNamespace(getCompileVersion=lambda: mark((9, 1, 0)))",
        "compiled_with_cxx11_abi = lambda: mark(True)",
        "get_num_threads = lambda: mark(4)",
        "get_default_dtype = lambda: mark('float32')",
        "__config__ = types.SimpleNamespace(show=lambda: mark('text'))",
    ],
)
def test_no_question_about_the_build_spoils_cuda_for_later_forks(
    target: Target, question: str
) -> None:
    # Measured on an H200, torch 2.11: one such question made CUDA unusable in every fork.
    target.module("torch.", GPU_TORCH + POISONED + question)
    run = target.run()
    assert run.errors == ()
    assert "absent" in run.facts["torch"]["cuda_init_error"]


def test_a_gpu_that_torch_promises_and_that_does_not_start_is_not_passed_over(
    target: Target,
) -> None:
    target.module("torch.", GPU_TORCH + "def fail(): raise RuntimeError('no')\ncuda.init = fail")
    run = target.run(device="auto")
    assert [error.type for error in run.errors] == ["DeviceUnusable"]
    assert run.self_test is None


def test_a_card_that_is_asked_for_and_not_there(target: Target) -> None:
    target.module("torch.", GPU_TORCH + "cuda.init = lambda: None")
    run = target.run(device="cuda:3")
    assert [error.message for error in run.errors] == ["there is no cuda:3: torch sees 1 device(s)"]
    assert run.self_test is None


FAKEBOX = {
    "FB_TORCH": "2.6.0+cu124",
    "FB_TCUDA": "12.4",
    "FB_GPU": "NVIDIA A100-SXM4-80GB",
    "FB_CC": "8.0",
    "FB_MEM": "81920",
    "FB_ARCH": "sm_75 sm_80 compute_90",
    "FB_AVAIL": "1",
}


@pytest.mark.parametrize("available", ["0", "1"])
def test_fakebox_offers_little_and_that_is_said(
    target: Target, shared: Path, available: str
) -> None:
    target.env["PYTHONPATH"] = str(shared / "bench" / "fakebox" / "site")
    target.env.update(FAKEBOX, FB_AVAIL=available)
    run = target.run()
    assert run.outcome == launch.Finished()
    assert run.errors == ()
    facts = run.facts["torch"]
    assert (facts["version"], facts["cuda_version"]) == ("2.6.0+cu124", "12.4")
    assert facts["cuda_available"] is (available == "1")
    assert facts["arch_list"] == ["sm_75", "sm_80", "compute_90"]
    assert facts["cudnn_version_loaded"] == 91002
    assert "unreadable" in facts["nccl_version"]
    assert "unreadable" in facts["allocator_settings"]
    assert run.self_test is not None
    assert {test.status for test in run.self_test.tests} == {"not_run"}
    if available == "1":
        assert facts["devices"][0]["memory_bytes"] == 80 << 30
        assert facts["devices"][0]["capability"] == "8.0"
    else:
        assert facts["devices"] == []

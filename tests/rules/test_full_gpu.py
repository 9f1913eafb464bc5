"""A GPU full of somebody else's tensors: no verdict, and the neighbour is named, not the driver."""

from __future__ import annotations

from typing import Any

import pytest
from judged import (
    BROKEN,
    FAIL,
    NOT_APPLICABLE,
    NOT_KNOWN,
    SKIP,
    UNKNOWN,
    codes,
    error,
    facts,
    gpu,
    judged,
    known,
)
from judged import (
    verdict as status,
)

from envkit.model.facts import GpuProcess, SelfTest
from envkit.model.observed import Known
from envkit.model.report import Verdict
from envkit.rules.verdict import Probes, decide

SOMEBODY = GpuProcess(memory_bytes=Known(value=140 << 30, source="NVML"), own=False)
FULL: dict[str, Any] = {"gpus_devices": (gpu(processes=(SOMEBODY,), free_bytes=12 << 20),)}
ROOMY: dict[str, Any] = {"gpus_devices": (gpu(processes=(SOMEBODY,), free_bytes=60 << 30),)}
EXPANDABLE: dict[str, Any] = {
    "environment_variables": {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"},
    "torch_allocator_settings": {"expandable_segments": True},
}
NO_ROOM: dict[str, Any] = {**BROKEN, "torch_cuda_error": error(2)}


def outcomes(reason: str, state: Any = "fail") -> dict[str, Any]:
    names = ("matmul_fp64", "matmul_fp32")
    return {"torch_self_tests": tuple(SelfTest(name=n, status=state, reason=reason) for n in names)}


def verdict(probes: Probes = Probes(), **changes: Any) -> Verdict:  # noqa: B008  (frozen)
    read, result = facts(**changes), judged(**changes)
    return decide(read, result.findings, result.checks, probes=probes)


@pytest.mark.parametrize("state", ["fail", "not_run"])
@pytest.mark.parametrize(
    "reason",
    [
        "OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 MiB.",
        "RuntimeError: CUDA error: out of memory",
        "12582912 bytes of the device's memory are free, 536870912 are needed",
        "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "RuntimeError: cuDNN error: CUDNN_STATUS_NOT_INITIALIZED",
    ],
)
def test_self_tests_without_room_give_no_verdict_and_name_the_neighbour(
    reason: str, state: str
) -> None:
    changes = {**FULL, **outcomes(reason, state)}
    given = verdict(**changes)
    assert (given.status, given.exit_code) == ("incomplete", 3)
    assert "GPU006" in given.headline
    assert "2 self-tests" in given.headline
    assert status("TOR009", **changes) is UNKNOWN
    assert codes(**changes) == ["GPU006"]


def test_no_room_and_no_neighbour_is_incomplete_without_blame() -> None:
    given = verdict(**outcomes("CUDA out of memory"))
    assert (given.exit_code, "GPU006" in given.headline) == (3, False)


def test_a_wrong_result_beside_a_full_gpu_is_still_an_error() -> None:
    wrong = SelfTest(name="sum_fp32", status="fail", reason="wrong result: 1.0 instead of 2.0")
    short = SelfTest(name="matmul_fp64", status="fail", reason="CUDA out of memory")
    changes = {**FULL, "torch_self_tests": (wrong, short)}
    assert verdict(**changes).exit_code == 1
    finding = next(one for one in judged(**changes).findings if one.code == "TOR009")
    assert [one.what for one in finding.evidence] == ["self-test sum_fp32"]


def test_a_handle_that_fails_where_there_is_room_is_an_error() -> None:
    reason = "cuDNN error: CUDNN_STATUS_NOT_INITIALIZED"
    assert status("TOR009", **ROOMY, **outcomes(reason)) is FAIL
    assert status("TOR009", **outcomes(reason)) is FAIL


@pytest.mark.parametrize("state", ["fail", "not_run"])
def test_the_drivers_word_for_expandable_segments_is_not_the_size_of_the_gpu(state: str) -> None:
    reason = "RuntimeError: CUDA driver error: out of memory"
    assert status("TOR009", **outcomes(reason, state)) is FAIL
    assert codes(**EXPANDABLE, **outcomes(reason, state)) == ["ALC003", "TOR009"]
    full = {**FULL, **EXPANDABLE, **outcomes(reason, state)}
    assert status("TOR009", **full) is UNKNOWN
    assert status("ALC003", **full) is not FAIL


@pytest.mark.parametrize("needed", [False, True])
def test_cuda_that_finds_no_room_to_start_is_not_a_lost_gpu(needed: bool) -> None:  # noqa: FBT001
    changes = {**FULL, **NO_ROOM, "request_needs_gpu": needed}
    assert status("DRV008", **changes) is UNKNOWN
    assert codes(**changes) == ["GPU006"]
    given = verdict(**changes)
    assert (given.status, given.exit_code) == ("incomplete", 3)
    assert "GPU006" in given.headline


def test_error_2_with_nobody_on_the_gpu_is_the_drivers() -> None:
    assert status("DRV008", **NO_ROOM) is FAIL
    assert verdict(**NO_ROOM).exit_code == 1


def test_probes_that_find_no_room_are_explained_by_the_neighbour() -> None:
    short = Probes(outcome="incomplete", reason="3 of 9 probes failed, first vit: out of memory")
    assert "GPU006" in verdict(short, **FULL).headline
    late = Probes(outcome="incomplete", reason="the time limit was over")
    assert "GPU006" not in verdict(late, **FULL).headline


def test_without_a_fingerprint_nobody_asks_about_the_allocator() -> None:
    unasked = {"request_suite": NOT_APPLICABLE, "torch_allocator_conforms": NOT_KNOWN}
    assert status("ALC005", **unasked) is SKIP
    assert status("ALC005", torch_allocator_conforms=NOT_KNOWN) is SKIP
    asked = {"request_suite": "quick", "torch_allocator_conforms": NOT_KNOWN}
    assert status("ALC005", **asked) is UNKNOWN
    assert (
        status("ALC005", request_suite=NOT_APPLICABLE, torch_allocator_conforms=known(value=False))
        is FAIL
    )

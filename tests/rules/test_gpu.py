from __future__ import annotations

from typing import Any

import pytest
from judged import (
    ABSENT,
    BROKEN,
    CPU_BUILD,
    FAIL,
    NO_GPU,
    NO_TORCH,
    NOT_APPLICABLE,
    NOT_KNOWN,
    NOTHING_OF_TORCH,
    PASS,
    ROCM,
    SKIP,
    UNKNOWN,
    UNREADABLE,
    error,
    failed,
    finding,
    gpu,
    packages,
    verdict,
)

from envkit.model.facts import GpuProcess, TorchDevice
from envkit.model.finding import Severity, Status
from envkit.model.observed import Known

PASCAL = gpu("NVIDIA GeForce GTX 1080", "6.1", index=1)
NEWEST = gpu("NVIDIA GeForce RTX 5090", "12.0")
HIDDEN = {"environment_variables": {"CUDA_VISIBLE_DEVICES": ""}}
SOMEBODY = GpuProcess(memory_bytes=Known(value=1 << 30, source="NVML"), own=False)
OWN = GpuProcess(memory_bytes=Known(value=1 << 30, source="NVML"), own=True)


def only(*gpus: Any) -> dict[str, Any]:
    return {"gpus_devices": gpus, "torch_devices": ()}


def visible(value: str) -> dict[str, Any]:
    return {"environment_variables": {"CUDA_VISIBLE_DEVICES": value}}


CASES: list[tuple[str, Status, dict[str, Any]]] = [
    ("GPU001", PASS, {}),
    ("GPU001", FAIL, NO_GPU),
    ("GPU001", FAIL, {**BROKEN, "gpus_devices": ()}),
    ("GPU001", PASS, {"gpus_devices": ABSENT}),
    ("GPU001", SKIP, {**ROCM, **NO_GPU}),
    ("GPU001", UNKNOWN, {**NO_GPU, "gpus_devices": UNREADABLE, "gpus_pci_devices": UNREADABLE}),
    ("GPU002", PASS, {}),
    ("GPU002", FAIL, only(NEWEST)),
    ("GPU002", FAIL, {**only(gpu(), PASCAL), "torch_arch_list": ("sm_70", "sm_80")}),
    ("GPU002", PASS, {"gpus_devices": (gpu(), PASCAL), "torch_arch_list": ("sm_70", "sm_80")}),
    ("GPU002", FAIL, {**only(NEWEST), "torch_arch_list": NOT_KNOWN}),
    ("GPU002", PASS, {**only(NEWEST), "torch_arch_list": ("compute_90",)}),
    (
        "GPU002",
        FAIL,
        {**only(NEWEST), "torch_arch_list": ("compute_90",), "driver_version": "535.183.01"},
    ),
    ("GPU002", FAIL, {"torch_self_tests": failed("CUDA error: no kernel image is available")}),
    ("GPU002", SKIP, CPU_BUILD),
    ("GPU002", SKIP, ROCM),
    ("GPU002", UNKNOWN, {**only(gpu("Some new GPU", UNREADABLE))}),
    ("GPU002", UNKNOWN, {"torch_arch_list": UNREADABLE, "torch_version": "2.5.1+mine"}),
    ("GPU003", PASS, {}),
    ("GPU003", FAIL, {"gpus_devices": (gpu(), PASCAL)}),
    (
        "GPU003",
        FAIL,
        {
            "gpus_devices": (
                gpu("NVIDIA GeForce RTX 3090", NOT_KNOWN),
                gpu("NVIDIA GeForce GTX 1080 Ti", NOT_KNOWN, index=1),
            )
        },
    ),
    ("GPU003", PASS, {"gpus_devices": (gpu(), gpu("NVIDIA A100-PCIE-40GB", index=1))}),
    ("GPU003", SKIP, NO_GPU),
    ("GPU003", UNKNOWN, {"gpus_devices": UNREADABLE}),
    ("GPU004", PASS, {}),
    ("GPU004", FAIL, {"gpus_devices": (gpu(mig=True),)}),
    (
        "GPU004",
        FAIL,
        {
            "torch_devices": (
                TorchDevice(
                    index=0,
                    name="NVIDIA A100 80GB PCIe MIG 1g.10gb",
                    capability="8.0",
                    memory_bytes=1 << 33,
                    sm_count=14,
                ),
            )
        },
    ),
    ("GPU004", SKIP, NO_GPU),
    ("GPU004", UNKNOWN, {"gpus_devices": UNREADABLE}),
    ("GPU004", UNKNOWN, {"gpus_devices": (gpu(mig=NOT_KNOWN),)}),
    ("GPU004", FAIL, {"gpus_devices": (gpu(mig=NOT_KNOWN), gpu(mig=True, index=1))}),
    ("GPU004", PASS, {"gpus_devices": (gpu(mig=NOT_APPLICABLE),)}),
    ("GPU005", PASS, {}),
    ("GPU005", FAIL, {"gpus_devices": (gpu(ecc_uncorrected=3),)}),
    ("GPU005", FAIL, {"gpus_devices": (gpu(row_remap_pending=True),)}),
    ("GPU005", SKIP, NO_GPU),
    (
        "GPU005",
        UNKNOWN,
        {"gpus_devices": (gpu(ecc_uncorrected=UNREADABLE, row_remap_pending=UNREADABLE),)},
    ),
    ("GPU006", PASS, {"gpus_devices": (gpu(processes=(OWN,)),)}),
    ("GPU006", FAIL, {"gpus_devices": (gpu(processes=(OWN, SOMEBODY)),)}),
    ("GPU006", SKIP, NO_GPU),
    ("GPU006", UNKNOWN, {"gpus_devices": (gpu(processes=UNREADABLE),)}),
    ("GPU007", PASS, {}),
    ("GPU007", PASS, visible("0")),
    ("GPU007", PASS, visible("MIG-9f4e0cdd-1f4f-5f0b-9b1c-000000000000")),
    ("GPU007", FAIL, visible("")),
    ("GPU007", FAIL, visible("-1")),
    ("GPU007", FAIL, visible("1")),
    ("GPU007", FAIL, visible("0,3")),
    ("GPU007", FAIL, visible("cuda:0")),
    ("GPU007", SKIP, {**NO_GPU, **HIDDEN}),
    ("GPU007", UNKNOWN, {"environment_variables": UNREADABLE}),
    ("GPU008", PASS, {}),
    ("GPU008", PASS, CPU_BUILD),
    ("GPU008", FAIL, ROCM),
    ("GPU008", FAIL, {**CPU_BUILD, "torch_version": "2.6.0+xpu"}),
    ("GPU008", FAIL, {**CPU_BUILD, "torch_version": "2.6.0", "host_os": "macos"}),
    ("GPU008", FAIL, {**CPU_BUILD, "torch_accelerator": "npu"}),
    ("GPU008", FAIL, {**CPU_BUILD, "pip_distributions": packages(torch_npu="2.5.1")}),
    ("GPU008", FAIL, {**NO_GPU, "torch_cuda_available": True, "torch_version": "2.5.0"}),
    ("GPU008", FAIL, {**ROCM, "torch_version": "2.9.0+rocmsdk20251116", "torch_hip": NOT_KNOWN}),
    (
        "GPU008",
        FAIL,
        {
            "torch_version": "2.10.0",
            "torch_cuda": "10.2",
            "torch_devices": NOT_KNOWN,
            "gpus_devices": UNREADABLE,
            "driver_version": UNREADABLE,
        },
    ),
    ("GPU008", SKIP, NO_TORCH),
    ("GPU008", UNKNOWN, NOTHING_OF_TORCH),
    ("GPU009", PASS, {}),
    ("GPU009", FAIL, {"gpus_devices": (gpu(compute_mode="exclusive_process"),)}),
    ("GPU009", SKIP, NO_GPU),
    ("GPU009", UNKNOWN, {"gpus_devices": (gpu(compute_mode=UNREADABLE),)}),
    ("GPU010", PASS, {}),
    ("GPU010", FAIL, {"gpus_devices": (gpu("NVIDIA GB10", "12.1"),)}),
    ("GPU010", FAIL, {"host_jetson": True}),
    ("GPU010", SKIP, NO_GPU),
    ("GPU010", UNKNOWN, {"gpus_devices": UNREADABLE}),
    ("GPU010", UNKNOWN, {"gpus_devices": (gpu("NVIDIA Nobody 9000"),)}),
]


@pytest.mark.parametrize(("code", "status", "changes"), CASES)
def test_rule(code: str, status: Status, changes: dict[str, Any]) -> None:
    assert verdict(code, **changes) is status


@pytest.mark.parametrize(
    ("code", "changes"),
    [
        ("GPU001", NO_GPU),
        ("GPU007", {**BROKEN, **HIDDEN}),
        ("GPU008", {**ROCM, "gpus_devices": ABSENT}),
    ],
)
def test_without_a_gpu_it_is_an_error_only_where_one_is_needed(
    code: str, changes: dict[str, Any]
) -> None:
    assert finding(code, **changes).severity is not Severity.ERROR
    assert finding(code, **changes, request_needs_gpu=True).severity is Severity.ERROR


def test_exclusive_mode_is_an_error_where_it_kept_cuda_from_working() -> None:
    mode = {"gpus_devices": (gpu(compute_mode="exclusive_process"),)}
    assert finding("GPU009", **mode).severity is Severity.WARNING
    busy = {**BROKEN, **mode, "torch_cuda_error": error(46)}
    assert finding("GPU009", **busy).severity is Severity.ERROR


def test_a_busy_gpu_is_the_cause_of_cuda_that_cannot_be_initialised() -> None:
    mode = {"gpus_devices": (gpu(compute_mode="exclusive_process"),)}
    busy = {**BROKEN, **mode, "torch_cuda_error": error(46)}
    assert finding("DRV008", **busy).caused_by == "GPU009"


def test_a_missing_kernel_names_gpu_list_and_a_build_that_has_it() -> None:
    found = finding("GPU002", **only(NEWEST), driver_version="580.95.05")
    assert "12.0" in found.evidence[0].seen
    assert found.evidence[1].seen.endswith("sm_90")
    assert found.fix.command is not None
    assert "--index-url https://download.pytorch.org/whl/cu13" in found.fix.command
    assert found.fix.command.startswith("~/vit/bin/python -m pip install")


def test_with_one_good_gpu_and_no_build_for_all_the_others_are_named() -> None:
    old = gpu("Tesla K80", "3.7", index=1)
    found = finding("GPU002", **only(gpu(), old, gpu("NVIDIA B200", "10.0", index=2)))
    assert "CUDA_VISIBLE_DEVICES=0" in found.fix.text
    assert found.fix.command is None

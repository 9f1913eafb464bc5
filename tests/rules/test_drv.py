from __future__ import annotations

from typing import Any

import pytest
from judged import (
    ABSENT,
    BROKEN,
    CPU_BUILD,
    FAIL,
    NO_GPU,
    NOT_KNOWN,
    OLD_DRIVER,
    PASS,
    SKIP,
    UNKNOWN,
    UNREADABLE,
    codes,
    error,
    failed,
    finding,
    gpu,
    verdict,
)

from envkit.model.facts import PciDevice
from envkit.model.finding import Severity, Status

NO_DRIVER = {**BROKEN, "driver_version": ABSENT, "driver_libcuda": NOT_KNOWN}
GEFORCE = gpu("NVIDIA GeForce RTX 3090", "8.6")
BLIND = {"driver_cuda_error": UNREADABLE, "torch_cuda_error": UNREADABLE}

CASES: list[tuple[str, Status, dict[str, Any]]] = [
    ("DRV001", PASS, {}),
    ("DRV001", PASS, {**BROKEN}),
    ("DRV001", FAIL, NO_DRIVER),
    (
        "DRV001",
        FAIL,
        {
            **NO_DRIVER,
            "gpus_devices": ABSENT,
            "gpus_pci_devices": (PciDevice(address="01:00.0", device_id="10de:2204"),),
        },
    ),
    ("DRV001", SKIP, NO_GPU),
    ("DRV001", SKIP, CPU_BUILD),
    ("DRV001", UNKNOWN, {**BROKEN, "driver_version": UNREADABLE}),
    ("DRV002", PASS, {}),
    ("DRV002", PASS, {**BROKEN}),
    ("DRV002", PASS, {"driver_version": "470.129.06"}),
    ("DRV002", FAIL, OLD_DRIVER),
    ("DRV002", FAIL, {**BROKEN, "driver_version": "525.60.11"}),
    ("DRV002", PASS, {**BROKEN, "driver_version": "525.60.13"}),
    ("DRV002", PASS, {**BROKEN, "driver_version": "525.105.17"}),
    ("DRV002", FAIL, {**BROKEN, "driver_version": "527.40", "host_os": "windows"}),
    (
        "DRV002",
        FAIL,
        {**BROKEN, "driver_version": "526.90", "driver_libcuda": NOT_KNOWN, "host_os": "wsl"},
    ),
    ("DRV002", FAIL, {**BROKEN, "driver_version": UNREADABLE, "driver_cuda_version": "11.0"}),
    ("DRV002", FAIL, {**BROKEN, "torch_cuda_error": error(35)}),
    ("DRV002", SKIP, CPU_BUILD),
    ("DRV002", UNKNOWN, {**OLD_DRIVER, "torch_cuda_available": NOT_KNOWN}),
    ("DRV002", UNKNOWN, {**BROKEN, "driver_version": UNREADABLE}),
    ("DRV002", UNKNOWN, {**BROKEN, "torch_cuda": "14.0"}),
    ("DRV003", PASS, {}),
    ("DRV003", FAIL, {"driver_version": "535.146.02"}),
    ("DRV003", FAIL, {"driver_version": "527.41", "host_os": "windows", "torch_cuda": "12.1"}),
    ("DRV003", SKIP, CPU_BUILD),
    ("DRV003", SKIP, {"driver_version": "470.129.06"}),
    ("DRV003", UNKNOWN, {"driver_version": UNREADABLE}),
    ("DRV004", PASS, {}),
    ("DRV004", FAIL, {"driver_version": "470.129.06"}),
    ("DRV004", FAIL, {"driver_compat_library": "/usr/local/cuda-12.4/compat/libcuda.so.1"}),
    ("DRV004", PASS, OLD_DRIVER),
    ("DRV004", SKIP, CPU_BUILD),
    ("DRV004", UNKNOWN, {"driver_version": UNREADABLE}),
    ("DRV005", PASS, {}),
    ("DRV005", FAIL, {**BROKEN, "torch_cuda_error": error(804)}),
    (
        "DRV005",
        FAIL,
        {
            **BROKEN,
            "gpus_devices": (GEFORCE,),
            "environment_variables": {"LD_LIBRARY_PATH": "/usr/local/cuda-13.0/compat"},
        },
    ),
    (
        "DRV005",
        PASS,
        {**BROKEN, "environment_variables": {"LD_LIBRARY_PATH": "/usr/local/cuda-13.0/compat"}},
    ),
    ("DRV005", SKIP, CPU_BUILD),
    ("DRV005", UNKNOWN, {**BLIND, "torch_cuda_available": UNREADABLE}),
    ("DRV006", PASS, {}),
    ("DRV006", FAIL, {**BROKEN, "driver_user_library": "560.35.03"}),
    ("DRV006", FAIL, {**BROKEN, "driver_nvml_error": "Driver/library version mismatch"}),
    ("DRV006", FAIL, {**BROKEN, "torch_cuda_error": error(803)}),
    ("DRV006", PASS, {"driver_user_library": "560.35.03"}),
    ("DRV006", SKIP, NO_GPU),
    (
        "DRV006",
        UNKNOWN,
        {
            **BROKEN,
            "driver_kernel_module": UNREADABLE,
            "driver_user_library": UNREADABLE,
            "driver_nvml_error": UNREADABLE,
        },
    ),
    ("DRV007", PASS, {**BROKEN}),
    ("DRV007", FAIL, {**BROKEN, "torch_cuda_error": error(802)}),
    ("DRV007", SKIP, CPU_BUILD),
    ("DRV007", UNKNOWN, {**BROKEN, **BLIND}),
    ("DRV008", PASS, {}),
    ("DRV008", FAIL, {**BROKEN}),
    ("DRV008", FAIL, {**BROKEN, "torch_cuda_error": error(999)}),
    ("DRV008", FAIL, {**BROKEN, "torch_cuda_error": error(2)}),
    ("DRV008", SKIP, {**BROKEN, "environment_variables": {"CUDA_VISIBLE_DEVICES": ""}}),
    ("DRV008", SKIP, OLD_DRIVER),
    ("DRV008", UNKNOWN, {"torch_cuda_available": UNREADABLE}),
    ("DRV009", PASS, {}),
    ("DRV009", PASS, {**BROKEN}),
    ("DRV009", FAIL, {**BROKEN, "driver_libcuda": "/usr/local/cuda/lib64/stubs/libcuda.so"}),
    ("DRV009", FAIL, {**BROKEN, "driver_libcuda": ABSENT}),
    ("DRV009", FAIL, {**BROKEN, "torch_cuda_error": error(34)}),
    ("DRV009", FAIL, {**BROKEN, "host_os": "wsl", "driver_version": "551.61"}),
    (
        "DRV009",
        PASS,
        {**BROKEN, "host_os": "wsl", "driver_libcuda": "/usr/lib/wsl/lib/libcuda.so.1"},
    ),
    (
        "DRV009",
        FAIL,
        {
            **BROKEN,
            "host_container": "docker",
            "environment_variables": {"NVIDIA_DRIVER_CAPABILITIES": "utility"},
        },
    ),
    ("DRV009", SKIP, CPU_BUILD),
    ("DRV009", UNKNOWN, {**BROKEN, "driver_libcuda": UNREADABLE}),
    ("DRV010", PASS, {}),
    ("DRV010", FAIL, {**BROKEN, "torch_cuda_error": error(222)}),
    (
        "DRV010",
        FAIL,
        {"torch_self_tests": failed("the provided PTX was compiled with an unsupported toolchain")},
    ),
    ("DRV010", SKIP, NO_GPU),
    ("DRV010", UNKNOWN, {"torch_self_tests": UNREADABLE, **BLIND}),
]


@pytest.mark.parametrize(("code", "status", "changes"), CASES)
def test_rule(code: str, status: Status, changes: dict[str, Any]) -> None:
    assert verdict(code, **changes) is status


def test_a_finding_names_floor_source_and_the_build_that_would_run() -> None:
    found = finding("DRV002", **OLD_DRIVER)
    assert [one.seen for one in found.evidence][:2] == ["470.129.06", "525.60.13"]
    row, _, sources = found.evidence[1].source.partition(": ")
    assert row == "compat/data/driver.yaml, floors 12"
    assert sources.startswith("https://docs.nvidia.com/")
    assert found.fix.command is not None
    assert "torch==2.7.1" in found.fix.command
    assert "https://download.pytorch.org/whl/cu118" in found.fix.command
    assert "cuda-compat" in found.fix.text, "an A100 may use forward compatibility"


def test_forward_compatibility_is_not_proposed_for_geforce() -> None:
    assert "cuda-compat" not in finding("DRV002", **OLD_DRIVER, gpus_devices=(GEFORCE,)).fix.text


def test_minor_version_compatibility_is_information() -> None:
    assert finding("DRV003", driver_version="535.146.02").severity is Severity.INFO


@pytest.mark.parametrize(
    ("os", "words"), [("wsl", "wsl --shutdown"), ("linux", "dmesg")], ids=["wsl", "linux"]
)
def test_how_to_revive_a_driver_depends_on_the_platform(os: str, words: str) -> None:
    changes = {**BROKEN, "driver_libcuda": "/usr/lib/wsl/lib/libcuda.so.1"}
    found = finding("DRV008", **changes, host_os=os)
    assert found.fix.command is not None
    assert words in found.fix.command


def test_a_cpu_build_known_by_its_version_alone_is_no_broken_driver() -> None:
    changes = {**CPU_BUILD, "torch_cuda": NOT_KNOWN}
    assert "TOR003" in codes(**changes)
    assert not {"DRV001", "DRV002", "DRV008", "GPU002"} & {*codes(**changes)}

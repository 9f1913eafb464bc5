"""Facts of the driver from what the probe said and what the kernel says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from envkit.model.facts import CudaError, DriverFacts
from envkit.model.observed import Absent, Known, NotApplicable, Unreadable, value_of
from envkit.sources.driver import driver_facts, read_kernel_module
from envkit.sources.probe_answers import (
    Answers,
    Asked,
    CudaInit,
    CudaVersion,
    Failure,
    GpuAnswer,
    LibCuda,
    Nvml,
)

from .trees import known, plant

PROPRIETARY = (
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023\n"
    "GCC version:  gcc version 11.4.0\n"
)
OPEN = (
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build  (root@x)\n"
)
NO_NVML = Nvml(found=False, error=Failure(code=0, message="libnvidia-ml.so.1: cannot open"))
NO_LIBCUDA = LibCuda(found=False, reason="libcuda.so.1: cannot open shared object file")
NVML = Nvml(
    found=True,
    driver_version=Asked(value="580.65.06"),
    cuda_version=Asked(value=13000),
    gpu_count=Asked(value=1),
)
LIBCUDA = LibCuda(found=True, paths=("/usr/lib/x86_64-linux-gnu/libcuda.so.580.65.06",))
WORKS: dict[str, Any] = {
    "nvml": NVML,
    "libcuda": LIBCUDA,
    "cuda_version": CudaVersion(code=0, version=13000),
    "cuda_init": CudaInit(error=None),
}


def facts(root: Path, files: dict[str, str] | None = None, **said: Any) -> DriverFacts:
    return driver_facts(Answers(**said), root=plant(root, files or {}), system="linux")


@pytest.mark.parametrize(
    ("files", "version"),
    [
        ({"proc/driver/nvidia/version": PROPRIETARY}, "535.104.05"),
        ({"proc/driver/nvidia/version": OPEN}, "580.65.06"),
        ({"sys/module/nvidia/version": "470.256.02\n"}, "470.256.02"),
    ],
)
def test_the_kernel_modules_version(tmp_path: Path, files: dict[str, str], version: str) -> None:
    assert known(read_kernel_module(root=plant(tmp_path, files), system="linux")) == version


@pytest.mark.parametrize(
    ("files", "state"),
    [
        ({}, Absent),
        ({"proc/driver/nvidia/version/": ""}, Unreadable),
        ({"proc/driver/nvidia/version": "\x00\xff no number"}, Unreadable),
        ({"sys/module/nvidia/version": "none"}, Unreadable),
        ({"dev/dxg": ""}, NotApplicable),
    ],
)
def test_the_kernel_module_in_every_other_state(
    tmp_path: Path, files: dict[str, str], state: type
) -> None:
    assert isinstance(read_kernel_module(root=plant(tmp_path, files), system="linux"), state)


def test_a_driver_that_works(tmp_path: Path) -> None:
    found = facts(tmp_path, {"proc/driver/nvidia/version": OPEN}, **WORKS)
    assert found.version == Known(value="580.65.06", source="NVML")
    assert known(found.kernel_module) == "580.65.06"
    assert known(found.user_library) == "580.65.06"
    assert found.cuda_version == Known(value="13.0", source="NVML")
    assert known(found.libcuda) == "/usr/lib/x86_64-linux-gnu/libcuda.so.580.65.06"
    assert isinstance(found.compat_library, Absent)
    assert isinstance(found.nvml_error, Absent)
    assert isinstance(found.cuda_error, Absent)


def test_no_driver_at_all(tmp_path: Path) -> None:
    found = facts(tmp_path, nvml=NO_NVML, libcuda=NO_LIBCUDA)
    assert isinstance(found.version, Absent)
    assert isinstance(found.kernel_module, Absent)
    assert isinstance(found.user_library, Absent)
    assert isinstance(found.cuda_version, Absent)
    assert isinstance(found.cuda_error, NotApplicable)
    assert "libnvidia-ml" in known(found.nvml_error)


def test_libraries_without_a_loaded_kernel_module_are_no_driver(tmp_path: Path) -> None:
    nvml = Nvml(found=True, error=Failure(code=9, message="Driver Not Loaded"))
    found = facts(tmp_path, nvml=nvml, libcuda=NO_LIBCUDA)
    assert isinstance(found.version, Absent)


def test_a_kernel_side_that_cannot_be_read_is_not_no_driver(tmp_path: Path) -> None:
    files = {"proc/driver/nvidia/version/": ""}
    found = facts(tmp_path, files, nvml=NO_NVML, libcuda=NO_LIBCUDA)
    assert isinstance(found.version, Unreadable)
    assert "not a regular file" in found.version.reason


def test_without_nvml_the_library_tells_the_version(tmp_path: Path) -> None:
    found = facts(tmp_path, **{**WORKS, "nvml": NO_NVML})
    assert found.version == Known(value="580.65.06", source="file name of libcuda")
    assert found.cuda_version == Known(value="13.0", source="cuDriverGetVersion")


def test_a_compatibility_library_does_not_tell_the_drivers_version(tmp_path: Path) -> None:
    library = LibCuda(found=True, paths=("/usr/local/cuda-13.0/compat/libcuda.so.580.65.06",))
    said = {**WORKS, "nvml": NO_NVML, "libcuda": library}
    found = facts(tmp_path, {"proc/driver/nvidia/version": PROPRIETARY}, **said)
    assert known(found.version) == "535.104.05"
    assert known(found.user_library) == "580.65.06"
    assert known(found.compat_library) == "/usr/local/cuda-13.0/compat/libcuda.so.580.65.06"


def test_a_stub_is_not_a_driver(tmp_path: Path) -> None:
    library = LibCuda(found=True, paths=("/usr/local/cuda/lib64/stubs/libcuda.so",))
    error = Failure(code=34, name="CUDA_ERROR_STUB_LIBRARY")
    found = facts(
        tmp_path,
        nvml=NO_NVML,
        libcuda=library,
        cuda_version=CudaVersion(code=34, version=0),
        cuda_init=CudaInit(error=error),
    )
    assert isinstance(found.version, Absent)
    assert isinstance(found.user_library, NotApplicable)
    assert isinstance(found.cuda_version, Unreadable)
    assert known(found.libcuda).endswith("stubs/libcuda.so")
    assert known(found.cuda_error) == CudaError(code=34, name="CUDA_ERROR_STUB_LIBRARY")


def test_the_halves_of_a_driver_can_differ(tmp_path: Path) -> None:
    nvml = Nvml(found=True, error=Failure(code=18, message="Driver/library version mismatch"))
    error = Failure(code=803, name="CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", message="unsupported")
    found = facts(
        tmp_path,
        {"proc/driver/nvidia/version": PROPRIETARY},
        **{**WORKS, "nvml": nvml, "cuda_init": CudaInit(error=error)},
    )
    assert known(found.kernel_module) == "535.104.05"
    assert known(found.user_library) == "580.65.06"
    assert known(found.nvml_error) == "Driver/library version mismatch (NVML error 18)"
    assert known(found.cuda_error).code == 803


@pytest.mark.parametrize(
    "path",
    ["/usr/lib/wsl/lib/libcuda.so.1", "/usr/lib/aarch64-linux-gnu/tegra/libcuda.so.1.1"],
)
def test_file_names_without_a_version(tmp_path: Path, path: str) -> None:
    library = LibCuda(found=True, paths=(path,))
    found = facts(tmp_path, {"dev/dxg": ""}, **{**WORKS, "libcuda": library})
    assert isinstance(found.user_library, NotApplicable)
    assert isinstance(found.kernel_module, NotApplicable)
    assert known(found.version) == "580.65.06"


def test_a_library_that_cannot_be_loaded_is_not_an_absent_one(tmp_path: Path) -> None:
    broken = LibCuda(found=False, broken=True, reason="libcuda.so.1: invalid ELF header")
    found = facts(tmp_path, nvml=NO_NVML, libcuda=broken)
    assert isinstance(found.libcuda, Unreadable)
    assert isinstance(found.version, Unreadable)
    assert isinstance(found.cuda_error, Unreadable)


def test_a_probe_that_hung_is_unreadable_not_absent(tmp_path: Path) -> None:
    why = {"nvml": "it did not answer in time (nvmlInit)", "libcuda": "no answer (cuInit)"}
    found = facts(tmp_path, why_silent=why)
    assert isinstance(found.version, Unreadable)
    assert "nvmlInit" in found.version.reason
    assert known(found.nvml_error) == "it did not answer in time (nvmlInit)"
    assert isinstance(found.libcuda, Unreadable)
    assert isinstance(found.cuda_error, Unreadable)
    assert "cuInit" in found.cuda_error.reason


def test_with_nvml_hung_the_kernel_still_tells_the_version(tmp_path: Path) -> None:
    files = {"proc/driver/nvidia/version": OPEN}
    found = facts(tmp_path, files, why_silent={"nvml": "hung", "libcuda": "hung"})
    assert known(found.version) == "580.65.06"


def test_a_version_that_is_none_is_not_believed(tmp_path: Path) -> None:
    nvml = Nvml(
        found=True,
        driver_version=Asked(value="not a version; \x1b[31m"),
        gpu_count=Asked(value=0),
    )
    found = facts(tmp_path, nvml=nvml, libcuda=NO_LIBCUDA)
    assert isinstance(found.version, Unreadable)


@pytest.mark.parametrize(
    ("code", "words"),
    [(15, "GPU 1: GPU is lost (NVML error 15)"), (4, None)],  # 4: not ours to use, no failure
)
def test_a_lost_gpu_is_an_error_of_nvml(tmp_path: Path, code: int, words: str | None) -> None:
    lost = {"name": Asked(error=Failure(code=code, message="GPU is lost"))}
    gpus = (
        GpuAnswer(api="nvml", index=0, values={"name": Asked(value="Fake H100")}),
        GpuAnswer(api="nvml", index=1, values=lost),
    )
    found = facts(tmp_path, **{**WORKS, "gpus": gpus})
    assert value_of(found.nvml_error) == words


def test_outside_linux_the_kernel_and_paths_do_not_apply(tmp_path: Path) -> None:
    said = {**WORKS, "libcuda": LibCuda(found=True)}
    found = driver_facts(Answers(**said), root=tmp_path, system="win32")
    assert isinstance(found.kernel_module, NotApplicable)
    assert isinstance(found.compat_library, NotApplicable)
    assert isinstance(found.libcuda, Unreadable)


@pytest.mark.parametrize("number", [7, 10**9])
def test_what_is_no_cuda_version_is_not_written_as_one(tmp_path: Path, number: int) -> None:
    nvml = msgspec.structs.replace(NVML, cuda_version=Asked(value=number))
    found = facts(tmp_path, **{**WORKS, "nvml": nvml})
    assert isinstance(found.cuda_version, Unreadable)
    assert f"{number} is not a CUDA version integer" in found.cuda_version.reason
    driver = CudaVersion(code=0, version=number)
    found = facts(tmp_path, **{**WORKS, "nvml": NO_NVML, "cuda_version": driver})
    assert isinstance(found.cuda_version, Unreadable)

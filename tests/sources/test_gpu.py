"""Facts of GPUs from what NVML and libcuda said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from envkit.model.facts import Gpu, GpuProcess
from envkit.model.observed import Absent, Known, NotApplicable, Observed, Unreadable
from envkit.sources.gpu import gpu_devices, pids_are_ours
from envkit.sources.nvidia import read_driver_and_gpus
from envkit.sources.probe_answers import (
    Answers,
    Asked,
    CudaCount,
    CudaInit,
    Failure,
    GpuAnswer,
    LibCuda,
    Nvml,
)

from .trees import known, plant

DRIVER: Observed[str] = Known(value="570.86.15", source="NVML")
PROCESSES = [{"pid": 41, "memory_bytes": None}, {"pid": 42, "memory_bytes": 5 << 30}]
VALUES = {
    "name": Asked(value="Fake H100"),
    "compute_capability": Asked(value="9.0"),
    "memory": Asked(value=[80 << 30, 70 << 30]),
    "uuid_hash": Asked(value="0123456789abcdef"),
    "mig": Asked(value=False),
    "ecc_uncorrected": Asked(value=0),
    "row_remap_pending": Asked(value=True),
    "compute_mode": Asked(value=3),
    "processes": Asked(value=PROCESSES),
    "throttle_mask": Asked(value=0x1 | 0x4 | 0x40),
}


def nvml_says(*gpus: dict[str, Asked], count: int | None = None) -> Answers:
    answers = tuple(GpuAnswer(api="nvml", index=i, values=v) for i, v in enumerate(gpus))
    asked = Asked(value=len(gpus) if count is None else count)
    return Answers(nvml=Nvml(found=True, gpu_count=asked), gpus=answers)


def one(answers: Answers, **options: Any) -> Gpu:
    (gpu,) = known(gpu_devices(answers, driver=DRIVER, **options))
    return gpu


def test_everything_that_nvml_tells() -> None:
    gpu = one(nvml_says(VALUES))
    assert known(gpu.name) == "Fake H100"
    assert known(gpu.compute_capability) == "9.0"
    assert (known(gpu.memory_bytes), known(gpu.free_bytes)) == (80 << 30, 70 << 30)
    assert known(gpu.mig) is False
    assert known(gpu.ecc_uncorrected) == 0
    assert known(gpu.row_remap_pending) is True
    assert known(gpu.compute_mode) == "exclusive_process"
    assert known(gpu.throttle_reasons) == ("sw_power_cap", "hw_thermal_slowdown")


def test_an_idle_gpu_is_not_a_throttled_one() -> None:
    assert known(one(nvml_says({**VALUES, "throttle_mask": Asked(value=1)})).throttle_reasons) == ()


def test_bits_nobody_knows_are_shown() -> None:
    gpu = one(nvml_says({**VALUES, "throttle_mask": Asked(value=0x4001)}))
    assert known(gpu.throttle_reasons) == ("unknown_0x4000",)


def test_what_a_gpu_does_not_have_is_not_applicable() -> None:
    unsupported = Asked(error=Failure(code=3, message="Not Supported"))
    values = {**VALUES, "mig": unsupported, "ecc_uncorrected": unsupported, "memory": unsupported}
    gpu = one(nvml_says(values))
    assert isinstance(gpu.mig, NotApplicable)
    assert isinstance(gpu.ecc_uncorrected, NotApplicable)
    assert isinstance(gpu.memory_bytes, Unreadable)  # every GPU has memory


def test_answers_of_another_form_are_unreadable() -> None:
    values = {
        **VALUES,
        "name": Asked(value=5),
        "memory": Asked(value=[]),
        "compute_mode": Asked(value=7),
        "mig": Asked(error=Failure(code=0, message="AttributeError: no such call")),
    }
    gpu = one(nvml_says(values))
    assert isinstance(gpu.name, Unreadable)
    assert isinstance(gpu.free_bytes, Unreadable)
    assert isinstance(gpu.compute_mode, Unreadable)
    assert isinstance(gpu.mig, Unreadable)


def test_names_are_escaped() -> None:
    gpu = one(nvml_says({**VALUES, "name": Asked(value="RTX\x1b[31m\n4090")}))
    assert known(gpu.name) == "RTX\\x1b[31m 4090"


def test_processes_largest_first_none_of_them_ours() -> None:
    found = known(one(nvml_says(VALUES), pids_are_ours=False).processes)
    assert [process.own for process in found] == [False, False]
    assert known(found[0].memory_bytes) == 5 << 30
    assert isinstance(found[1].memory_bytes, Unreadable)


def test_our_own_process_is_told_by_its_number() -> None:
    found = known(one(nvml_says(VALUES), own_pids=[42]).processes)
    assert found[0] == GpuProcess(memory_bytes=Known(value=5 << 30, source="NVML"), own=True)
    assert found[1].own is False


def test_in_a_container_process_numbers_cannot_be_compared() -> None:
    gpu = one(nvml_says(VALUES), own_pids=[42], pids_are_ours=False)
    assert isinstance(gpu.processes, Unreadable)
    assert "2 processes" in gpu.processes.reason
    empty = {**VALUES, "processes": Asked(value=[])}
    assert known(one(nvml_says(empty), own_pids=[7], pids_are_ours=False).processes) == ()


def test_a_lost_gpu_and_one_that_was_not_reached_keep_their_places() -> None:
    lost = {"name": Asked(error=Failure(code=15, message="GPU is lost"))}
    answers = nvml_says(VALUES, lost, count=3)
    devices = known(gpu_devices(answers, driver=DRIVER))
    assert [gpu.index for gpu in devices] == [0, 1, 2]
    assert isinstance(devices[1].name, Unreadable)
    assert devices[1].name.reason == "GPU is lost"
    assert isinstance(devices[2].name, Unreadable)


def test_without_nvml_libcuda_lists_them() -> None:
    values = {key: VALUES[key] for key in ("name", "compute_capability", "uuid_hash")}
    answers = Answers(
        nvml=Nvml(found=False, error=Failure(code=0, message="not there")),
        cuda_count=CudaCount(count=2),
        gpus=(GpuAnswer(api="libcuda", index=0, values=values),),
    )
    devices = gpu_devices(answers, driver=DRIVER)
    assert isinstance(devices, Known)
    assert devices.source == "libcuda"
    assert known(devices.value[0].name) == "Fake H100"
    assert isinstance(devices.value[0].free_bytes, Unreadable)
    assert isinstance(devices.value[1].name, Unreadable)


def test_a_driver_that_sees_no_device_is_a_known_none() -> None:
    error = Failure(code=100, name="CUDA_ERROR_NO_DEVICE")
    answers = Answers(cuda_init=CudaInit(error=error), why_silent={"nvml": "hung"})
    assert known(gpu_devices(answers, driver=DRIVER)) == ()


def test_no_driver_is_absent_and_a_silent_one_is_unreadable() -> None:
    absent = Absent(source="NVML", reason="no driver")
    missing = LibCuda(found=False, reason="not there")
    assert isinstance(gpu_devices(Answers(libcuda=missing), driver=absent), Absent)
    silent = gpu_devices(
        Answers(libcuda=missing, why_silent={"nvml": "it did not answer in time"}), driver=DRIVER
    )
    assert isinstance(silent, Unreadable)
    assert silent.reason == "libcuda: not there; nvml: it did not answer in time"


@pytest.mark.parametrize("files", [{}, {"proc/self/ns/pid": ""}])
def test_process_numbers_are_ours_only_in_the_first_namespace(
    tmp_path: Path, files: dict[str, str]
) -> None:
    assert pids_are_ours(root=plant(tmp_path, files)) is False


def test_driver_bus_and_gpus_in_one_go(tmp_path: Path) -> None:
    plant(tmp_path, {"sys/bus/pci/devices/": ""})
    driver, gpus = read_driver_and_gpus({}, root=tmp_path, answers=nvml_says(VALUES))
    assert isinstance(driver.nvml_error, Absent)
    assert known(gpus.pci_devices) == ()
    assert len(known(gpus.devices)) == 1

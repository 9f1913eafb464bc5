"""One cause and what follows from it, on machines where several things are wrong at once."""

from __future__ import annotations

from typing import Any

import pytest
from judged import (
    ABSENT,
    BROKEN,
    CPU_BUILD,
    NOT_APPLICABLE,
    OLD_DRIVER,
    UNREADABLE,
    error,
    failed,
    gpu,
    judged,
    library,
    raised,
)

from envkit.model.facts import CondaPackage, PciDevice

NO_KERNEL = "CUDA error: no kernel image is available for execution on the device"
BLACKWELL: dict[str, Any] = {
    "gpus_devices": (gpu("NVIDIA GeForce RTX 5090", "12.0"),),
    "torch_devices": (),
}
OLD_CUDNN: dict[str, Any] = {
    "torch_cudnn": 8003,
    "environment_variables": {"LD_LIBRARY_PATH": "/apps/cudnn/8.0.3"},
    "torch_libraries": (library("/apps/cudnn/8.0.3/libcudnn.so.8"),),
}
TWO_TORCHES = {
    "conda_packages": (CondaPackage(name="pytorch", version="2.1.0", build="x", channel="pytorch"),)
}
ON_THE_BUS = (PciDevice(address="0000:01:00.0", device_id="10de:20b0"),)
NVJITLINK = "ImportError: libcusparse.so.12: undefined symbol: __nvJitLinkComplete_12_4"

MACHINES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "a GPU on the bus and no driver": (
        {
            **BROKEN, "driver_version": ABSENT, "driver_libcuda": ABSENT, "gpus_devices": ABSENT,
            "gpus_pci_devices": ON_THE_BUS, "driver_cuda_error": NOT_APPLICABLE,
            "torch_cuda_error": error(35),
        },
        ["DRV001"],
    ),
    "an old driver that says so": ({**OLD_DRIVER, "torch_cuda_error": error(35)}, ["DRV002"]),
    "a GPU without kernels": (
        {**BLACKWELL, "torch_self_tests": failed(NO_KERNEL) + failed(NO_KERNEL, "torchvision_nms")},
        ["GPU002", "TOR009 < GPU002"],
    ),
    "another cuDNN first on the path": (
        {**OLD_CUDNN, "torch_self_tests": failed("cuDNN version incompatibility", "conv2d_fp32")},
        ["LIB003", "LIB001 < LIB003", "TOR009 < LIB001"],
    ),
    "another nvJitLink first on the path": (
        {**raised(NVJITLINK), "environment_variables": {"LD_LIBRARY_PATH": "/opt/cuda/lib64"}},
        ["LIB003", "LIB006 < LIB003", "TOR002 < LIB006"],
    ),
    "two torches, and the import fails": (
        {**raised("ImportError: undefined symbol: foo"), **TWO_TORCHES},
        ["TOR004", "TOR002 < TOR004"],
    ),
    "halves of the driver differ": (
        {
            **BROKEN, "driver_kernel_module": "535.1.01", "torch_cuda_error": error(803),
            "driver_nvml_error": "Driver/library version mismatch (NVML error 18)",
            "driver_cuda_error": error(803), "gpus_devices": UNREADABLE,
        },
        ["DRV006"],
    ),
    "a container without libcuda": (
        {
            **BROKEN, "host_container": "docker", "driver_libcuda": ABSENT,
            "driver_cuda_error": NOT_APPLICABLE, "torch_cuda_error": error(35),
        },
        ["DRV009"],
    ),
    "a stub in front of libcuda": (
        {
            **BROKEN, "driver_libcuda": "/usr/local/cuda/lib64/stubs/libcuda.so",
            "driver_cuda_error": error(34), "torch_cuda_error": error(35),
        },
        ["DRV009"],
    ),
    "compatibility libraries on a GeForce": (
        {
            **OLD_DRIVER, "gpus_devices": (gpu("NVIDIA GeForce RTX 3090", "8.6"),),
            "driver_compat_library": "/usr/local/cuda-12.4/compat/libcuda.so",
            "torch_cuda_error": error(804), "driver_cuda_error": error(804),
        },
        ["DRV005"],
    ),
    "a GPU that one process has for itself": (
        {
            **BROKEN, "gpus_devices": (gpu(compute_mode="exclusive_process"),),
            "torch_cuda_error": error(46),
        },
        ["GPU009", "DRV008 < GPU009"],
    ),
    "the fabric manager is not running": (
        {**BROKEN, "torch_cuda_error": error(802), "driver_cuda_error": error(802)}, ["DRV007"],
    ),
    "a hidden GPU": (
        {
            **BROKEN, "environment_variables": {"CUDA_VISIBLE_DEVICES": "7"},
            "torch_cuda_error": error(100),
        },
        ["GPU007"],
    ),
    "a CPU build and an old driver": ({**CPU_BUILD, "driver_version": "418.87.00"}, ["TOR003"]),
}  # fmt: skip


@pytest.mark.parametrize("name", MACHINES)
def test_the_cause_comes_first_and_the_rest_follows_from_it(name: str) -> None:
    changes, expected = MACHINES[name]
    found = judged(**changes).findings
    said = [f"{one.code} < {one.caused_by}" if one.caused_by else one.code for one in found]
    assert said == expected

from __future__ import annotations

from typing import Any

import pytest
from judged import (
    CPU_BUILD,
    FAIL,
    NO_GPU,
    NO_TORCH,
    NOT_APPLICABLE,
    NOT_KNOWN,
    PASS,
    ROCM,
    SKIP,
    UNKNOWN,
    UNREADABLE,
    failed,
    finding,
    gpu,
    library,
    packages,
    raised,
    verdict,
)

from envkit.model.facts import CondaPackage, PipDistribution
from envkit.model.finding import Status

VOLTA = {"gpus_devices": (gpu("Tesla V100-SXM2-32GB", "7.0"),), "torch_devices": ()}
CLUSTER = {"environment_variables": {"LD_LIBRARY_PATH": "/apps/cudnn/v8.0.3/lib64"}}
NVJITLINK = "ImportError: libcusparse.so.12: undefined symbol: __nvJitLinkAddData_12_1"
NCCL = "ImportError: libtorch_cuda.so: undefined symbol: ncclCommRegister"
MKL = "ImportError: libtorch_cpu.so: undefined symbol: iJIT_NotifyEvent"
NO_GLIBC = "ImportError: /lib64/libc.so.6: version `GLIBC_2.28' not found"
NEW_MKL = CondaPackage(name="mkl", version="2024.1.0", build="0", channel="defaults")
OLD_MKL = CondaPackage(name="mkl", version="2023.2.0", build="0", channel="defaults")
OLD_TORCH = CondaPackage(name="pytorch", version="2.0.1", build="cuda", channel="pytorch")
NEW_TORCH = CondaPackage(name="pytorch", version="2.5.1", build="cuda", channel="pytorch")
INSIDE = "lib/python3.12/site-packages/nvidia/cudnn/lib/libcudnn.so.9"
UNTRIED = raised("") | {"torch_import_failure": UNREADABLE}
#: CUDA was seen to work, and nothing is recorded of the import itself.
RECORDED = {"torch_import_failure": NOT_KNOWN}
NOT_TRIED = raised("") | {"torch_import_failure": NOT_APPLICABLE}


def pip(**versions: str) -> dict[str, Any]:
    return {"pip_distributions": packages(**versions)}


CASES: list[tuple[str, Status, dict[str, Any]]] = [
    ("LIB001", PASS, {}),
    ("LIB001", PASS, {"torch_cudnn": 90500}),
    ("LIB001", FAIL, {"torch_cudnn": 90000}),
    ("LIB001", FAIL, {"torch_cudnn": 8902}),
    ("LIB001", FAIL, {"torch_cudnn": 90000, "torch_cudnn_compiled": NOT_KNOWN}),
    ("LIB001", FAIL, {"torch_self_tests": failed("cuDNN version incompatibility: ...")}),
    ("LIB001", FAIL, raised("RuntimeError: cuDNN version incompatibility: compiled ...")),
    ("LIB001", SKIP, CPU_BUILD),
    ("LIB001", UNKNOWN, {"torch_cudnn": UNREADABLE}),
    (
        "LIB001",
        UNKNOWN,
        {"torch_cudnn_compiled": UNREADABLE, "torch_channel": "conda-forge"},
    ),
    ("LIB002", PASS, {}),
    ("LIB002", FAIL, pip(nvidia_cudnn_cu12="9.5.1.17")),
    ("LIB002", FAIL, pip(nvidia_cudnn_cu12="9.1.0.70", nvidia_nccl_cu11="2.14.3")),
    ("LIB002", PASS, pip(nvidia_cudnn_cu12="9.1.0.70", nvidia_nvtx_cu12="12.4.127")),
    (
        "LIB002",
        FAIL,
        {
            "pip_distributions": (
                PipDistribution(
                    name="torch",
                    version="2.99.0",
                    installer="pip",
                    requires=("nvidia-nccl-cu12==9.9.9; extra != 'x'", "nvidia-cublas-cu12==1.2.3"),
                ),
                *packages(nvidia_cublas_cu12="1.2.4"),
            )
        },
    ),
    ("LIB002", SKIP, CPU_BUILD),
    ("LIB002", SKIP, {"torch_installer": "conda"}),
    ("LIB002", UNKNOWN, {"pip_distributions": UNREADABLE}),
    ("LIB002", UNKNOWN, {**pip(nvidia_cudnn_cu12="9.1.0.70"), "torch_version": "2.99.0"}),
    ("LIB003", PASS, {}),
    ("LIB003", PASS, CLUSTER),
    ("LIB003", FAIL, {"torch_libraries": (library("/usr/local/cuda/lib64/libcudnn.so.9"),)}),
    ("LIB003", PASS, {"torch_libraries": (library("/usr/lib64/libcuda.so.1"), library(INSIDE))}),
    ("LIB003", FAIL, {**raised(NVJITLINK), **CLUSTER}),
    ("LIB003", FAIL, {**CLUSTER, "torch_cudnn": 90000, "torch_libraries": NOT_KNOWN}),
    ("LIB003", SKIP, CPU_BUILD),
    ("LIB003", UNKNOWN, {"torch_libraries": UNREADABLE}),
    ("LIB004", PASS, {}),
    (
        "LIB004",
        FAIL,
        {"torch_libraries": (library("lib/libiomp5.so"), library("lib/libgomp.so.1"))},
    ),
    (
        "LIB004",
        FAIL,
        {
            "torch_libraries": (
                library("Library/bin/libiomp5md.dll"),
                library("Lib/site-packages/torch/lib/libiomp5md.dll"),
            )
        },
    ),
    (
        "LIB004",
        PASS,
        {"torch_libraries": (library("a/libgomp.so.1"), library("b/libgomp-1.so.1"))},
    ),
    ("LIB004", SKIP, NO_TORCH),
    ("LIB004", UNKNOWN, {"torch_libraries": UNREADABLE}),
    ("LIB005", PASS, {}),
    ("LIB005", FAIL, raised(MKL)),
    ("LIB005", FAIL, {**UNTRIED, "conda_packages": (OLD_TORCH, NEW_MKL)}),
    ("LIB005", PASS, {**UNTRIED, "conda_packages": (OLD_TORCH, OLD_MKL)}),
    ("LIB005", PASS, {**UNTRIED, "conda_packages": (NEW_TORCH, NEW_MKL)}),
    ("LIB005", PASS, {"conda_packages": (OLD_TORCH, NEW_MKL)}),
    ("LIB005", SKIP, {**UNTRIED, "conda_packages": (NEW_MKL,)}),
    ("LIB005", UNKNOWN, {**UNTRIED, "conda_packages": UNREADABLE}),
    ("LIB006", PASS, {}),
    ("LIB006", PASS, raised(NCCL)),
    ("LIB006", FAIL, raised(NVJITLINK)),
    ("LIB006", SKIP, ROCM),
    ("LIB006", SKIP, NOT_TRIED),
    ("LIB006", UNKNOWN, UNTRIED),
    ("LIB007", PASS, {}),
    ("LIB007", FAIL, raised(NCCL)),
    ("LIB007", SKIP, CPU_BUILD),
    ("LIB007", UNKNOWN, UNTRIED),
    ("LIB008", PASS, {}),
    ("LIB008", FAIL, raised(NO_GLIBC)),
    ("LIB008", FAIL, raised("libstdc++.so.6: version `GLIBCXX_3.4.32' not found")),
    (
        "LIB008",
        FAIL,
        {
            **UNTRIED,
            "host_glibc": "2.17",
            "torch_version": "2.7.1+cu126",
            "torch_cuda": "12.6",
        },
    ),
    ("LIB008", PASS, {"host_glibc": "2.17", "torch_version": "2.7.1+cu126"}),
    ("LIB008", PASS, {**UNTRIED}),
    ("LIB008", SKIP, {**UNTRIED, "host_os": "windows"}),
    ("LIB008", UNKNOWN, {**UNTRIED, "host_glibc": UNREADABLE}),
    ("LIB008", UNKNOWN, {"torch_import_failure": NOT_KNOWN, "host_glibc": NOT_KNOWN}),
    ("LIB008", UNKNOWN, {**RECORDED, "host_glibc": "2.17", "torch_version": "2.7.1+cu126"}),
    ("LIB008", PASS, {**RECORDED, "host_glibc": "2.36"}),
    ("LIB009", PASS, {}),
    ("LIB009", FAIL, {**VOLTA, "torch_cudnn": 91300}),
    ("LIB009", PASS, {**VOLTA, "torch_cudnn": 91002}),
    ("LIB009", FAIL, {**VOLTA, "torch_cudnn": 99900}),
    ("LIB009", SKIP, NO_GPU),
    ("LIB009", UNKNOWN, {"torch_cudnn": UNREADABLE}),
    (
        "LIB009",
        UNKNOWN,
        {"gpus_devices": (gpu("Some new GPU", UNREADABLE),), "torch_devices": ()},
    ),
]


@pytest.mark.parametrize(("code", "status", "changes"), CASES)
def test_rule(code: str, status: Status, changes: dict[str, Any]) -> None:
    assert verdict(code, **changes) is status


def test_a_shadowed_cudnn_is_a_consequence_of_what_shadows_it() -> None:
    outside = (library("/apps/cudnn/v8.0.3/lib64/libcudnn.so.9"),)
    found = finding("LIB001", torch_cudnn=90000, torch_libraries=outside, **CLUSTER)
    assert found.caused_by == "LIB003"
    assert found.fix.command == "unset LD_LIBRARY_PATH"
    assert "/apps/cudnn/v8.0.3/lib64/libcudnn.so.9" in [one.seen for one in found.evidence]


def test_wheels_of_two_cuda_majors_are_taken_out_and_the_right_ones_written_again() -> None:
    found = finding("LIB002", **pip(nvidia_cudnn_cu12="9.1.0.70", nvidia_nccl_cu11="2.14.3"))
    assert found.fix.command is not None
    first, second = found.fix.command.split(" && ")
    assert first.endswith("pip uninstall -y nvidia-nccl-cu11")
    assert second.endswith("--no-deps nvidia-cudnn-cu12==9.1.0.70")


def test_mkl_is_mended_in_the_prefix() -> None:
    found = finding("LIB005", **raised(MKL), conda_prefix="/opt/envs/vit")
    assert found.fix.command == "conda install -p /opt/envs/vit 'mkl<2024.1'"

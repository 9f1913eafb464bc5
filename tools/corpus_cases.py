"""Facts of the described cases of the private corpus, as a machine or a specification shows them.

Only what a case says or what follows from it (versions, GPU, error, variables), in our own terms;
what it leaves open stays not recorded. `machines()` are judged as `verify` does, `SPECS` as `lint`
does; `MEMORY` belongs to `envkit oom`, and `NOT_HERE` says why nothing can be encoded.
"""

from __future__ import annotations

from typing import Any

import msgspec

from envkit.model.facts import (
    CondaPackage,
    CudaError,
    Facts,
    Gpu,
    GpuProcess,
    ImportFailure,
    MappedLibrary,
    PipDistribution,
    SelfTest,
)
from envkit.model.observed import Absent, Known, NotApplicable, Unreadable

_STATES = (Known, Absent, Unreadable, NotApplicable)
_NONE = Absent(source="case")
_UNKNOWN = Unreadable(reason="Not Supported", source="NVML")


def _known(value: Any) -> Any:
    return value if isinstance(value, _STATES) else Known(value=value, source="case")


def _facts(**changes: Any) -> Facts:
    families: dict[str, dict[str, Any]] = {}
    for name, value in changes.items():
        family, _, fact = name.partition("_")
        families.setdefault(family, {})[fact] = _known(value)
    empty = Facts()
    return msgspec.structs.replace(
        empty,
        **{
            family: msgspec.structs.replace(getattr(empty, family), **values)
            for family, values in families.items()
        },
    )


def _gpu(name: str, capability: str | None = None, **more: Any) -> tuple[Gpu, ...]:
    if capability is not None:
        more["compute_capability"] = capability
    count = more.pop("count", 1)
    told = {key: _known(value) for key, value in more.items()}
    return tuple(Gpu(index=at, name=_known(name), **told) for at in range(count))


def _pip(**versions: str) -> tuple[PipDistribution, ...]:
    return tuple(
        PipDistribution(name=name.replace("_", "-"), version=version, installer="pip")
        for name, version in versions.items()
    )


def _conda(*rows: tuple[str, str, str, str]) -> tuple[CondaPackage, ...]:
    return tuple(CondaPackage(name=n, version=v, build=b, channel=c) for n, v, b, c in rows)


def _wheel(version: str, cuda: str | None, **more: Any) -> dict[str, Any]:
    told = {"version": version, "cuda": cuda or _NONE, "hip": _NONE, "channel": "pytorch"}
    return {f"torch_{name}": value for name, value in (told | more).items()}


def _raised(message: str) -> dict[str, Any]:
    return {"torch_import_failure": ImportFailure(how="raised", message=message)}


def _failed(reason: str, name: str = "matmul_fp32") -> dict[str, Any]:
    return {"torch_self_tests": (SelfTest(name=name, status="fail", reason=reason),)}


def _broken(code: int | None = None) -> dict[str, Any]:
    told: dict[str, Any] = {"torch_cuda_available": False}
    return told if code is None else {**told, "torch_cuda_error": CudaError(code=code)}


WORKS: dict[str, Any] = {"torch_cuda_available": True}
LINUX: dict[str, Any] = {"host_os": "linux"}
_OLD_ARCHS = ("sm_37", "sm_50", "sm_60", "sm_70")
_CU124_ARCHS = ("sm_50", "sm_60", "sm_70", "sm_75", "sm_80", "sm_86", "sm_90")
_A100 = _gpu("NVIDIA A100-SXM4-80GB", "8.0")
_NCCL = "ImportError: libtorch_cuda.so: undefined symbol: ncclCommRegister"
_IJIT = "ImportError: libtorch_cpu.so: undefined symbol: iJIT_NotifyEvent"
_NVJITLINK = (
    "ImportError: libcusparse.so.12: undefined symbol: __nvJitLink{}, version libnvJitLink.so.12"
)


def _paths(*folders: str) -> dict[str, Any]:
    return {"environment_variables": {"LD_LIBRARY_PATH": ":".join(folders)}}


def machines() -> dict[str, Facts]:
    """Return the facts of every case that a machine shows."""
    found = _drivers() | _gpus() | _libraries() | _packages() | _allocator()
    return {case: _facts(**changes) for case, changes in found.items()}


def _drivers() -> dict[str, dict[str, Any]]:
    wsl = {"host_os": "wsl"}
    docker = {"host_os": "linux", "host_container": "docker"}
    three = _gpu("NVIDIA GPU", count=3)
    return {
        "drv-03": {**docker, **_wheel("2.1.0", "12.1", channel="source"), **_broken(35),
                   "driver_cuda_version": "11.0", "gpus_devices": _A100},
        "drv-04": {"host_os": "windows", **_broken(), "driver_version": "461.72",
                   "torch_version": "1.11.0.dev20211101", "torch_channel": "pytorch-nightly",
                   "gpus_devices": _gpu("NVIDIA GeForce GTX 1050 Ti")},
        "drv-06": {**LINUX, **_wheel("2.3.1+cu121", "12.1"), **_broken(), "host_glibc": "2.31",
                   "driver_version": "510.47.03", "gpus_devices": _gpu("NVIDIA A10G")},
        "drv-07": {**LINUX, **_wheel("2.6.0+cu124", "12.4"), **WORKS,
                   "driver_version": "470.103.01", "gpus_devices": _A100},
        "init-01": {**docker, **_wheel("2.0.1", "11.7", channel="pypi"), **_broken(804),
                    "driver_version": "470.141.03",
                    "gpus_devices": _gpu("NVIDIA GeForce RTX 3090")},
        "init-02": {**docker, **_wheel("2.5.1+cu124", "12.4"), **_broken(804),
                    "driver_version": "535.129.03",
                    "gpus_devices": _gpu("NVIDIA GeForce RTX 4090")},
        "init-04": {**LINUX, **_wheel("2.1.0+cu121", "12.1"), **_broken(802),
                    "driver_version": "545.23.08",
                    "gpus_devices": _gpu("NVIDIA H100 80GB HBM3", count=8)},
        "init-07": {**LINUX, **_wheel("1.13.0+cu117", "11.7"), **_broken(999),
                    "driver_version": "515.65.01",
                    "gpus_devices": _gpu("NVIDIA GeForce RTX 3060")},
        "ctr-02": {**docker, **_wheel("1.0.0", "9.0", channel="pypi"), **_broken(),
                   "driver_version": "387.12", "driver_libcuda": _NONE,
                   "gpus_devices": _gpu("Tesla P100-PCIE-16GB"),
                   "environment_variables": {"NVIDIA_VISIBLE_DEVICES": "all"}},
        "wsl-01": {**wsl, **_wheel("2.0.1+cu118", "11.8"), **_broken(100),
                   "driver_version": "522.25", "gpus_devices": _gpu("NVIDIA GeForce RTX 3060"),
                   "driver_libcuda": "/usr/lib/x86_64-linux-gnu/libcuda.so.525.60.13"},
        "wsl-02": {**wsl, **_wheel("1.13.1", "11.7"), **_broken(2), "gpus_devices": three},
        "wsl-03": {**wsl, **_wheel("1.10.0+cu111", "11.1"), **_broken(), "driver_libcuda": _NONE,
                   "driver_version": "470.76", "gpus_devices": _gpu("NVIDIA GeForce RTX 3080")},
        "busy-01": {**LINUX, **_wheel("1.10.0", "10.2"), **_broken(46),
                    "driver_version": "450.80.02",
                    "gpus_devices": _gpu("Tesla V100-SXM2-16GB", compute_mode="exclusive_process")},
        "busy-02": {**LINUX, **_broken(46), "driver_version": "440.118.02",
                    "gpus_devices": _gpu("GRID T4-8Q", compute_mode="default")},
        "ray-01": {**LINUX, **_wheel("2.5.1+cu124", "12.4"), **_broken(100),
                   "gpus_devices": _NONE, "driver_version": _NONE},
        "cudnn-08": {"host_os": "windows",
                     **_failed("RuntimeError: cuDNN error: CUDNN_STATUS_NOT_INITIALIZED")},
    }  # fmt: skip


def _gpus() -> dict[str, dict[str, Any]]:
    mixed = (*_gpu("NVIDIA GeForce GTX 1080 Ti"), *_gpu("NVIDIA GeForce RTX 3090"))
    v100 = _gpu("Tesla V100-PCIE-32GB", "7.0")
    slices = {"driver_version": "570.124.06", "gpus_devices": _gpu("NVIDIA H200", mig=True)}
    gb10 = _gpu("NVIDIA GB10", "12.1", memory_bytes=_UNKNOWN, processes=_UNKNOWN)
    return {
        "arch-01": {**LINUX, **_wheel("2.7.0.dev20250310+cu124", "12.4"), **WORKS,
                    "torch_arch_list": _CU124_ARCHS, "driver_version": "570.124.06",
                    "gpus_devices": _gpu("NVIDIA GeForce RTX 5090", count=2)},
        "arch-03": {**LINUX, **_wheel("2.11.0+cu128", "12.8"), "gpus_devices": v100},
        "arch-04": {**LINUX, **_wheel("2.9.1+cu128", "12.8"), **WORKS,
                    "gpus_devices": _gpu("NVIDIA GeForce GTX 1080")},
        "arch-05": {**LINUX, **_wheel("1.8.0", "10.2", channel="pypi"),
                    "torch_arch_list": _OLD_ARCHS,
                    "gpus_devices": _gpu("NVIDIA GeForce RTX 3090")},
        "arch-06": {**LINUX, **_wheel("1.12.0+cu102", "10.2"), "driver_cuda_version": "11.4",
                    "driver_version": "470.82.01",
                    "gpus_devices": _gpu("NVIDIA GeForce RTX 3080")},
        "jet-02": {**LINUX, "host_arch": "aarch64", "host_jetson": True, **WORKS,
                   **_wheel("2.5.1", "12.6", channel="conda-forge"),
                   "torch_arch_list": (*_CU124_ARCHS, "compute_90"), "torch_installer": "conda",
                   **_failed("CUDA error: no kernel image is available"),
                   "gpus_devices": _gpu("Orin", "8.7")},
        "rocm-01": {**LINUX, "torch_version": "2.10.0.dev20250929+rocm7.0", "torch_cuda": _NONE,
                    "torch_hip": "7.0.51831", **WORKS,
                    **_failed("HIP error: invalid device function"), "driver_version": _NONE,
                    "pip_distributions": _pip(nvidia_cuda_runtime_cu13="13.0.48")},
        "ext-01": {**LINUX, **_wheel("2.1.2+cu121", "12.1"), **WORKS,
                   "driver_version": "535.171.04",
                   "gpus_devices": _gpu("NVIDIA GeForce GTX 1080 Ti")},
        "mig-02": {**LINUX, **_wheel("2.4.0", "12.4"), **WORKS, "environment_variables": {},
                   "gpus_devices": _gpu("NVIDIA A100-SXM4-40GB", mig=True)},
        "mig-03": {**LINUX, **_wheel("2.6.0+cu124", "12.4"), **slices, **WORKS,
                   "environment_variables": {"CUDA_VISIBLE_DEVICES": "MIG-0a1b2c3d-1111"}},
        "cvd-01": {**LINUX, "driver_version": "375.39", **_broken(38),
                   "gpus_devices": _gpu("NVIDIA TITAN X (Pascal)", count=2),
                   "environment_variables": {"CUDA_VISIBLE_DEVICES": "2"}},
        "cvd-02": {**LINUX, **_wheel("1.4.0", "10.1"), "driver_version": "440.82",
                   "gpus_devices": _gpu("NVIDIA GeForce RTX 2080 Ti", count=4), **_broken(),
                   "environment_variables": {"CUDA_VISIBLE_DEVICES": ""}},
        "ord-01": {**LINUX, **WORKS, **_wheel("1.10.1+cu113", "11.3"), "gpus_devices": mixed},
        "uma-01": {**LINUX, "host_arch": "aarch64", "driver_version": "580.126.09", **WORKS,
                   "gpus_devices": gb10},
        "uma-02": {**LINUX, "host_arch": "aarch64", "driver_version": "580.173.02", **WORKS,
                   "gpus_devices": gb10},
        "num-01": {**LINUX, **_wheel("1.8.1+cu111", "11.1"), **WORKS,
                   "torch_flags": {"matmul.allow_tf32": True},
                   "gpus_devices": _gpu("NVIDIA GeForce RTX 3090")},
        "num-02": {**LINUX, **WORKS, "gpus_devices": v100},
        "num-03": {**LINUX, **_wheel("1.8.1+cu111", "11.1"), **WORKS, "driver_version": "460.84",
                   **_failed("wrong result: 0.0 instead of 12.0", "matmul_fp64"),
                   "gpus_devices": mixed},
    }  # fmt: skip


def _libraries() -> dict[str, dict[str, Any]]:
    mkl = ("mkl", "2024.1.0", "ha957f24_693", "defaults")
    conda_torch = ("pytorch", "2.0.1", "py3.10_cuda11.8_cudnn8.7.0_0", "pytorch")
    old_mkl: dict[str, Any] = {**LINUX, "torch_version": "2.0.1", "torch_cuda": "11.8",
                               "torch_installer": "conda", **_raised(_IJIT),
                               "conda_packages": _conda(mkl, conda_torch)}  # fmt: skip
    return {
        "cudnn-01": {**LINUX, **_wheel("1.12.0+cu113", "11.3"), **_paths("/apps/cudnn/v8.0.3"),
                     "torch_cudnn": 8003, "torch_cudnn_compiled": 8302, **WORKS},
        "cudnn-02": {**LINUX, **_wheel("2.0.1+cu118", "11.8"), **WORKS,
                     "torch_cudnn": 8600, "torch_cudnn_compiled": 8700},
        "cudnn-03": {**LINUX, **_wheel("2.0.1+cu118", "11.8"),
                     **_paths("/usr/local/cuda/11.8.0/lib64"), **WORKS,
                     **_failed("Could not load library libcudnn_cnn_train.so.8: symbol not defined "
                               "in file libcudnn_cnn_infer.so.8", "conv2d_fp32")},
        "cudnn-04": {**LINUX, **_paths("/apps/cuda/8.0/lib64"), **WORKS,
                     **_wheel("2.0.1+cu118", "11.8"),
                     **_failed("Could not load library libcudnn_cnn_infer.so.8: libnvrtc.so: "
                               "undefined symbol: nvrtcGetCUBIN", "conv2d_fp32")},
        "cudnn-05": {**LINUX, **_wheel("2.0.1+cu118", "11.8"), **WORKS,
                     **_failed("Could not load library libcudnn_cnn_infer.so.8: libnvrtc.so: "
                               "cannot open shared object file", "conv2d_fp32")},
        "sym-01": old_mkl,
        "sym-02": {**LINUX, "torch_version": "2.1.0", "torch_cuda": "12.1",
                   "torch_installer": "conda", "host_container": "docker", **_raised(_IJIT)},
        "sym-03": {**LINUX, **_wheel("2.4.0+cu124", "12.4"), **_paths("/opt/conda/lib"),
                   **_raised(_NVJITLINK.format("Complete_12_4"))},
        "sym-04": {**LINUX, **_wheel("2.1.0+cu121", "12.1"), **_paths("/usr/local/cuda-12.1/lib64"),
                   **_raised(_NVJITLINK.format("AddData_12_1"))},
        "sym-05": {**LINUX, **_wheel("2.5.0.dev20240720+cu124", "12.4"),
                   "driver_version": "550.90.07", **_raised(_NVJITLINK.format("Complete_12_4"))},
        "sym-06": {**LINUX, **_wheel("2.2.0+cu121", "12.1"), **_raised(_NCCL)},
        "sym-07": {**LINUX, **_wheel("2.2.0", "12.1", channel="pypi"), **_raised(_NCCL),
                   "pip_distributions": _pip(torch="2.2.0", nvidia_nccl_cu11="2.14.3",
                                             nvidia_nccl_cu12="2.19.3")},
        "omp-01": {"host_os": "windows", "torch_version": "1.8.1", "python_version": "3.8.12",
                   "torch_libraries": tuple(
                       MappedLibrary(name="libiomp5md.dll", path=f"{folder}/libiomp5md.dll")
                       for folder in ("Library/bin", "Lib/site-packages/torch/lib"))},
    }  # fmt: skip


def _packages() -> dict[str, dict[str, Any]]:
    here = {**LINUX, "driver_version": "550.54.15", "gpus_devices": _A100}
    cpu = {"torch_cuda": _NONE, "torch_hip": _NONE, "torch_installer": "conda", **_broken()}
    nms = "RuntimeError: operator torchvision::nms does not exist"
    return {
        "cpu-02": {**here, **cpu, "torch_version": "2.5.1", "torch_channel": "conda-forge",
                   "python_version": "3.13.1", "conda_packages": _conda(
                       ("pytorch", "2.5.1", "cpu_generic_py313", "conda-forge"))},
        "cpu-03": {**here, **cpu, "torch_version": "1.4.0", "torch_channel": "pytorch",
                   "conda_packages": _conda(("pytorch", "1.4.0", "py3.7_cpu_0", "pytorch"),
                                            ("cpuonly", "1.0", "0", "pytorch"))},
        "chan-02": {**here, **cpu, "torch_version": "1.8.0", "torch_channel": "defaults",
                    "conda_packages": _conda(("pytorch", "1.8.0", "cpu_py38", "defaults"))},
        "np-01": {"host_os": "linux", "torch_version": "2.2.2", "torch_numpy": "2.0.0"},
        "np-02": {**LINUX, "torch_version": "2.4.1", "torch_numpy": "2.1.2", "torch_cuda": "12.4",
                  "torch_import_failure": _NONE},
        "mix-01": {**LINUX, **_wheel("2.6.0", "12.6", channel="pypi"), **WORKS,
                   "driver_version": "570.153.02", **_failed(nms, "torchvision_nms"),
                   "pip_distributions": _pip(torch="2.8.0", torchvision="0.23.0")},
        "mix-02": {**LINUX, **_wheel("1.9.0+cu102", "10.2"), **_failed(nms, "torchvision_nms"),
                   "pip_distributions": _pip(torch="1.9.0", torchvision="0.7.0"),
                   "conda_packages": _conda(
                       ("pytorch", "1.6.0", "py3.7_cuda10.1.243_cudnn7.6.3_0", "pytorch"),
                       ("cudatoolkit", "10.1.243", "h6bb024c_0", "defaults"))},
        "ce-02": {**LINUX, "torch_version": _NONE, "driver_version": "550.90.12",
                  "gpus_devices": _gpu("NVIDIA A10G")},
        "reg-01": {**LINUX, **_wheel("2.9.1+cu128", "12.8"), **WORKS, "torch_cudnn": 91002,
                   "gpus_devices": _gpu("NVIDIA GeForce RTX 4090")},
        "reg-02": {**LINUX, **_wheel("2.0.1+cu118", "11.8"), **WORKS, "gpus_devices": _A100},
    }  # fmt: skip


def _allocator() -> dict[str, dict[str, Any]]:
    on = {"environment_variables": {"PYTORCH_ALLOC_CONF": "expandable_segments:True"}}
    neighbour = GpuProcess(memory_bytes=_known(15 << 30), own=False)
    return {
        "alloc-01": {**LINUX, **_wheel("2.9.1+cu128", "12.8"), **WORKS, **on,
                     "torch_allocator_settings": {"expandable_segments": False}},
        "alloc-03": {**LINUX, "host_arch": "aarch64", "host_jetson": True, **on, **WORKS,
                     **_wheel("2.11.0", "13.0", channel="source"),
                     **_failed("CUDA driver error: out of memory"),
                     "gpus_devices": _gpu("Orin", "8.7")},
        "alloc-04": {**LINUX, "host_kernel": "5.4.0-204-generic", **on, **WORKS,
                     **_wheel("2.10.0+cu128", "12.8"), "gpus_devices": _A100},
        "oom-04": {**LINUX, **WORKS, "gpus_devices": _gpu(
            "NVIDIA GeForce RTX 4090", processes=(neighbour,))},
    }  # fmt: skip


#: Environment files that show what a case is about.
SPECS = {
    "chan-03": "name: a\nchannels: [pytorch, nvidia, defaults]\n"
    "dependencies: [python=3.13, 'pytorch=2.6.*']\n",
    "chan-04": "name: a\nchannels: [pyg, conda-forge]\n"
    "dependencies: [python=3.11, pytorch=2.1, pytorch-cuda=12.1, pyg]\n",
    "exp-01": "name: a\nchannels: [conda-forge]\ndependencies:\n"
    "- python=3.11.9=hb806964_0_cpython\n- numpy=1.26.4=py311h64a7726_0\n"
    "- pytorch=2.5.1=cuda126_py311\nprefix: /home/a/env\n",
    "lic-01": "name: a\nchannels: [defaults]\ndependencies: [python=3.11, numpy=1.26]\n",
    "lock-02": "name: a\nchannels: [conda-forge]\ndependencies: [python=3.11, pytorch]\n",
    "lock-05": "name: a\nchannels: [conda-forge]\ndependencies:\n- python=3.10\n- pip\n- pip:\n"
    "  - --extra-index-url https://download.pytorch.org/whl/cu113\n  - torch==1.11.0+cu113\n",
}

#: Out-of-memory messages: what `envkit oom` explains.
MEMORY = frozenset({"oom-01", "oom-02", "oom-05", "fb-02", "cudnn-07"})

#: What neither facts of a machine nor an environment file can show.
NOT_HERE = {
    "cpu-05": "a lock that has another variant than its spec: needs `lock --check`, no machine",
    "lock-03": "a solver on a machine without a GPU: no file and no fact of an environment",
}

"""Facts for tests: a machine on which all is well, changed fact by fact, and what rules say of it.

A change is named `FAMILY_FACT` and is either a plain value or a state: `driver_version="470.57"`,
`torch_cudnn=UNREADABLE`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from envkit.model.facts import (
    ContractFacts,
    CudaError,
    DriverFacts,
    EnvironmentFacts,
    Facts,
    FilesFacts,
    Gpu,
    GpuFacts,
    HostFacts,
    ImportFailure,
    MappedLibrary,
    PipDistribution,
    PipFacts,
    PythonFacts,
    RequestFacts,
    SelfTest,
    TorchDevice,
    TorchFacts,
)
from envkit.model.finding import Finding, Status
from envkit.model.observed import NOT_RECORDED, Absent, Known, NotApplicable, Unreadable
from envkit.rules.engine import Judgement, judge

ABSENT = Absent(source="test")
UNREADABLE = Unreadable(reason="no permission", source="test")
NOT_APPLICABLE = NotApplicable(reason="not asked", source="test")
_STATES = (Known, Absent, Unreadable, NotApplicable)

PASS, FAIL, SKIP, UNKNOWN = Status.PASS, Status.FAIL, Status.SKIP, Status.UNKNOWN


def known(value: Any) -> Any:
    return value if isinstance(value, _STATES) else Known(value=value, source="test")


def gpu(name: str = "NVIDIA A100-SXM4-80GB", capability: Any = "8.0", **more: Any) -> Gpu:
    index = more.pop("index", 0)
    good = {"mig": False, "ecc_uncorrected": 0, "row_remap_pending": False}
    good |= {"compute_mode": "default", "processes": ()} | more
    return Gpu(
        index=index,
        name=known(name),
        compute_capability=known(capability),
        **{key: known(value) for key, value in good.items()},
    )


def packages(**versions: str) -> tuple[PipDistribution, ...]:
    return tuple(
        PipDistribution(name=name.replace("_", "-"), version=version, installer="pip")
        for name, version in versions.items()
    )


def error(code: int) -> CudaError:
    return CudaError(code=code)


def library(path: str, owner: str = "") -> MappedLibrary:
    return MappedLibrary(name=path.rpartition("/")[2], path=path, owner=owner)


def failed(reason: str, name: str = "matmul_fp32") -> tuple[SelfTest, ...]:
    return (SelfTest(name=name, status="fail", reason=reason),)


def raised(message: str) -> dict[str, Any]:
    """Facts of a torch whose import failed: nothing that only an import tells is known."""
    told: tuple[str, ...] = (
        "cuda_available",
        "flags",
        "threads",
        "allocator_settings",
        "self_tests",
        "devices",
    )
    told += ("cudnn", "cudnn_compiled", "libraries", "numpy", "arch_list", "cuda_error")
    changes: dict[str, Any] = {f"torch_{name}": UNREADABLE for name in told}
    failure = ImportFailure(how="raised", message=message)
    return {**changes, "torch_import_failure": failure}


YES: Any = Known(value=True, source="test")
NO: Any = Known(value=False, source="test")
_DEVICE = TorchDevice(
    index=0, name="NVIDIA A100-SXM4-80GB", capability="8.0", memory_bytes=85 << 30, sm_count=108
)

GOOD = Facts(
    request=RequestFacts(device=known("auto"), needs_gpu=NO),
    driver=DriverFacts(
        version=known("550.54.15"),
        kernel_module=known("550.54.15"),
        user_library=known("550.54.15"),
        cuda_version=known("12.4"),
        libcuda=known("/usr/lib/x86_64-linux-gnu/libcuda.so.550.54.15"),
        compat_library=ABSENT,
        nvml_error=ABSENT,
        cuda_error=ABSENT,
    ),
    gpus=GpuFacts(pci_devices=ABSENT, devices=known((gpu(),))),
    host=HostFacts(
        os=known("linux"),
        kernel=known("6.1.0-18-amd64"),
        arch=known("x86_64"),
        glibc=known("2.36"),
        container=ABSENT,
        jetson=NO,
    ),
    environment=EnvironmentFacts(variables=known({})),
    python=PythonFacts(version=known("3.12.7"), executable=known("~/vit/bin/python")),
    pip=PipFacts(
        distributions=known(
            packages(
                torch="2.5.1",
                torchvision="0.20.1",
                numpy="2.1.3",
                triton="3.1.0",
                nvidia_cudnn_cu12="9.1.0.70",
            )
        )
    ),
    contract=ContractFacts(**dict.fromkeys(ContractFacts.__struct_fields__, NOT_APPLICABLE)),
    files=FilesFacts(**dict.fromkeys(FilesFacts.__struct_fields__, NOT_APPLICABLE)),
    torch=TorchFacts(
        version=known("2.5.1+cu124"),
        cuda=known("12.4"),
        hip=ABSENT,
        channel=known("pypi"),
        installer=known("pip"),
        import_failure=ABSENT,
        arch_list=known(("sm_50", "sm_60", "sm_70", "sm_75", "sm_80", "sm_86", "sm_90")),
        cuda_available=YES,
        cuda_error=ABSENT,
        devices=known((_DEVICE,)),
        cudnn_compiled=known(90100),
        cudnn=known(90100),
        allocator_settings=known({"expandable_segments": False}),
        allocator_conforms=YES,
        flags=known({}),
        threads=known(8),
        numpy=known("2.1.3"),
        libraries=known(
            (
                library("lib/python3.12/site-packages/nvidia/cudnn/lib/libcudnn.so.9", "pip"),
                library("lib/python3.12/site-packages/torch/lib/libgomp-a34b3233.so.1", "torch"),
            )
        ),
        self_tests=known((SelfTest(name="matmul_fp32", status="pass"),)),
    ),
)


def facts(base: Facts = GOOD, **changes: Any) -> Facts:
    """Return facts with some of them changed."""
    families: dict[str, dict[str, Any]] = {}
    for name, value in changes.items():
        family, _, fact = name.partition("_")
        families.setdefault(family, {})[fact] = known(value)
    replaced = {
        family: msgspec.structs.replace(getattr(base, family), **values)
        for family, values in families.items()
    }
    return msgspec.structs.replace(base, **replaced)


def judged(base: Facts = GOOD, **changes: Any) -> Judgement:
    return judge(facts(base, **changes))


def verdict(code: str, **changes: Any) -> Status:
    """Return how one rule ends on the good machine with some facts changed."""
    return next(one.status for one in judged(**changes).checks if one.code == code)


def finding(code: str, **changes: Any) -> Finding:
    """Return the finding of a rule that fires."""
    return next(one for one in judged(**changes).findings if one.code == code)


def codes(base: Facts = GOOD, **changes: Any) -> list[str]:
    """Return the codes that fire, in the order of the report."""
    return [one.code for one in judged(base, **changes).findings]


NOTHING = Facts()
NOT_KNOWN = NOT_RECORDED

#: CUDA does not work; with the facts below it, a driver that is too old for CUDA 12.
BROKEN: dict[str, Any] = {
    "torch_cuda_available": False,
    "torch_devices": (),
    "torch_self_tests": NOT_APPLICABLE,
}
OLD_DRIVER: dict[str, Any] = {**BROKEN, "driver_version": "470.129.06"}
NO_GPU: dict[str, Any] = {
    **BROKEN,
    "gpus_devices": ABSENT,
    "driver_version": ABSENT,
    "driver_libcuda": ABSENT,
}
CPU_BUILD: dict[str, Any] = {
    **BROKEN,
    "torch_version": "2.5.1+cpu",
    "torch_cuda": ABSENT,
    "torch_cudnn": NOT_APPLICABLE,
    "torch_arch_list": NOT_APPLICABLE,
}
NO_TORCH: dict[str, Any] = {
    f"torch_{name}": ABSENT if name == "version" else NOT_APPLICABLE
    for name in TorchFacts.__struct_fields__
} | {"pip_distributions": ()}
ROCM: dict[str, Any] = {
    "torch_version": "2.5.1+rocm6.2",
    "torch_cuda": ABSENT,
    "torch_hip": "6.2.41133",
}
NOTHING_OF_TORCH: dict[str, Any] = {
    f"torch_{name}": NOT_RECORDED for name in TorchFacts.__struct_fields__
} | {"pip_distributions": NOT_RECORDED}

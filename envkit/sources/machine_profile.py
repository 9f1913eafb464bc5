"""A machine that somebody describes (`envkit.machine/1`): what it leaves out stays not recorded."""

from __future__ import annotations

import re
from typing import Final, TypeVar

import msgspec

from envkit.model.documents import Machine, MachineGpu, MachineTorch
from envkit.model.facts import (
    DriverFacts,
    EnvironmentFacts,
    Facts,
    Gpu,
    GpuFacts,
    HostFacts,
    PipDistribution,
    PipFacts,
    PythonFacts,
    TorchFacts,
)
from envkit.model.observed import NOT_RECORDED, Absent, Known, Observed

T = TypeVar("T")

SOURCE: Final = "machine profile"
#: Channels of a profile whose packages conda installs.
_CONDA_CHANNELS: Final = frozenset({"pytorch", "conda-forge", "defaults", "nvidia"})
#: The local part of the version of a build without CUDA.
_CPU_TAG: Final = re.compile(r"\+cpu\b")


def read_machine(machine: Machine) -> Facts:
    """Return the facts of a profile."""
    return Facts(
        driver=_driver(machine),
        gpus=GpuFacts(devices=_gpus(machine.gpus)),
        host=HostFacts(
            os=_fact(machine.os),
            arch=_fact(machine.arch),
            container=_container(machine.container),
            glibc=_fact(machine.glibc),
        ),
        environment=EnvironmentFacts(variables=_fact(machine.env)),
        python=PythonFacts(version=_fact(machine.python)),
        pip=PipFacts(distributions=_distributions(machine.packages)),
        torch=_torch(machine),
    )


def _fact(value: T | None) -> Observed[T]:
    return NOT_RECORDED if value is None else Known(value=value, source=SOURCE)


def _driver(machine: Machine) -> DriverFacts:
    if machine.driver is msgspec.UNSET:
        return DriverFacts()
    if machine.driver is not None:
        return DriverFacts(version=_fact(machine.driver))
    # Null says "unknown" as well as "none". With GPUs that CUDA cannot use it is the latter.
    cuda_fails = machine.torch is not None and machine.torch.cuda_available is False
    if machine.gpus and cuda_fails:
        return DriverFacts(version=Absent(source=SOURCE, reason="no driver was found"))
    return DriverFacts()


def _gpus(gpus: tuple[MachineGpu, ...] | None) -> Observed[tuple[Gpu, ...]]:
    if gpus is None:
        return NOT_RECORDED
    return _fact(
        tuple(
            Gpu(
                index=index,
                name=_fact(gpu.name),
                compute_capability=_fact(gpu.compute_capability),
                memory_bytes=_fact(gpu.memory_bytes),
            )
            for index, gpu in enumerate(gpus)
        )
    )


def _container(inside: bool | None) -> Observed[str]:  # noqa: FBT001 (the profile's own field)
    if inside is None:
        return NOT_RECORDED
    return _fact("unknown kind") if inside else Absent(source=SOURCE)


def _distributions(packages: dict[str, str] | None) -> Observed[tuple[PipDistribution, ...]]:
    if packages is None:
        return NOT_RECORDED
    return _fact(
        tuple(
            PipDistribution(name=re.sub(r"[-_.]+", "-", name).lower(), version=packages[name])
            for name in sorted(packages)
        )
    )


def _torch(machine: Machine) -> TorchFacts:
    torch = machine.torch
    if torch is None:
        # A list of packages that does not have it says that it is not there; no list says nothing.
        if machine.packages and "torch" not in machine.packages:
            reason = "it is not among the packages"
            return TorchFacts(version=Absent(source=SOURCE, reason=reason))
        return TorchFacts()
    return TorchFacts(
        version=_fact(torch.version),
        cuda=_cuda(torch),
        hip=_fact(torch.hip),
        channel=_fact(torch.channel),
        installer=_installer(torch.channel),
        arch_list=_fact(torch.arch_list),
        cuda_available=_fact(torch.cuda_available),
        cudnn=_fact(torch.cudnn),
    )


def _cuda(torch: MachineTorch) -> Observed[str]:
    if torch.cuda is None and torch.version is not None:
        if _CPU_TAG.search(torch.version):
            return Absent(source=SOURCE, reason="the version says that it is a CPU build")
        if torch.arch_list == ():
            return Absent(source=SOURCE, reason="the build has no GPU architectures")
    return _fact(torch.cuda)


def _installer(channel: str | None) -> Observed[str]:
    if channel is None:
        return NOT_RECORDED
    return _fact("conda" if channel in _CONDA_CHANNELS else "pip")

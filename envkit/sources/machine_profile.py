"""Reads an `envkit.machine/1` profile: a machine that somebody describes, or imagines."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from envkit.model.codec import decode
from envkit.model.distribution_name import canonical_name
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
from envkit.model.observed import NOT_RECORDED, Absent, Known, NotApplicable, Observed

SOURCE = "machine profile"

T = TypeVar("T")


def read_machine_profile(content: bytes, *, origin: str) -> Facts:
    """Read a profile from JSON.

    Args:
        content: the bytes of the file.
        origin: what to call the file in messages.

    Raises:
        InputError: not a valid `envkit.machine/1`; the message has the path to the bad value.

    """
    return facts_of(decode(content, Machine, origin=origin))


def facts_of(machine: Machine) -> Facts:
    """Return the facts of a profile; what is absent or null in it stays unknown."""
    return Facts(
        driver=DriverFacts(version=_driver(machine)),
        gpus=GpuFacts(devices=_gpus(machine.gpus)),
        host=HostFacts(
            os=_known(machine.os),
            arch=_known(machine.arch),
            glibc=_known(machine.glibc),
            container=_container(machine.container),
        ),
        environment=EnvironmentFacts(variables=_known(machine.env)),
        python=PythonFacts(version=_known(machine.python)),
        pip=PipFacts(distributions=_distributions(machine.packages)),
        torch=_torch(machine),
    )


def _known(value: T | None) -> Observed[T]:
    return NOT_RECORDED if value is None else Known(value=value, source=SOURCE)


def _driver(machine: Machine) -> Observed[str]:
    """Null is "none found" where GPUs are listed and CUDA was seen not to work, or none is there.

    Otherwise it is as unknown as a driver that the profile does not mention.
    """
    if isinstance(machine.driver, str):
        return Known(value=machine.driver, source=SOURCE)
    if isinstance(machine.driver, msgspec.UnsetType) or machine.gpus is None:
        return NOT_RECORDED
    works = machine.torch.cuda_available if machine.torch is not None else None
    if works is False:
        return Absent(source=SOURCE, reason="none found")
    return NOT_RECORDED


def _gpus(gpus: tuple[MachineGpu, ...] | None) -> Observed[tuple[Gpu, ...]]:
    if gpus is None:
        return NOT_RECORDED
    return Known(value=tuple(_gpu(at, gpu) for at, gpu in enumerate(gpus)), source=SOURCE)


def _gpu(index: int, gpu: MachineGpu) -> Gpu:
    return Gpu(
        index=index,
        name=_known(gpu.name),
        compute_capability=_known(gpu.compute_capability),
        memory_bytes=_known(gpu.memory_bytes),
    )


def _container(container: bool | None) -> Observed[str]:  # noqa: FBT001  (a field of the document)
    if container is None:
        return NOT_RECORDED
    if not container:
        return Absent(source=SOURCE)
    return Known(value="unknown kind", source=SOURCE)


def _distributions(packages: dict[str, str] | None) -> Observed[tuple[PipDistribution, ...]]:
    if packages is None:
        return NOT_RECORDED
    found = (
        PipDistribution(name=canonical_name(name), version=version)
        for name, version in sorted(packages.items())
    )
    return Known(value=tuple(found), source=SOURCE)


def _torch(machine: Machine) -> TorchFacts:
    if machine.torch is None:
        return _no_torch(machine.packages)
    torch = machine.torch
    cuda = _toolkit(torch.cuda, other=torch.hip, torch=torch)
    numpy = (machine.packages or {}).get("numpy")
    return TorchFacts(
        version=_known(torch.version),
        cuda=cuda,
        hip=_toolkit(torch.hip, other=torch.cuda, torch=torch),
        channel=_known(torch.channel),
        arch_list=_arch_list(torch, cuda),
        cuda_available=_known(torch.cuda_available),
        cudnn=_known(torch.cudnn),
        numpy=_known(numpy),
    )


def _no_torch(packages: dict[str, str] | None) -> TorchFacts:
    """No torch at all, where the packages are listed and it is not among them."""
    if packages is None:
        return TorchFacts()
    if "torch" in packages:
        return TorchFacts(version=Known(value=packages["torch"], source=SOURCE))
    return TorchFacts(version=Absent(source=SOURCE, reason="not among the packages"))


def _toolkit(value: str | None, *, other: str | None, torch: MachineTorch) -> Observed[str]:
    """CUDA or HIP of the build; null is "without" where the rest of the profile says so."""
    if value is not None:
        return Known(value=value, source=SOURCE)
    # An empty list of architectures, another toolkit or the version's own tag: built without it.
    without = torch.arch_list == () or other is not None or _says_cpu(torch.version)
    return Absent(source=SOURCE) if without else NOT_RECORDED


def _says_cpu(version: str | None) -> bool:
    return (version or "").partition("+")[2] in {"cpu", "xpu"}


def _arch_list(torch: MachineTorch, cuda: Observed[str]) -> Observed[tuple[str, ...]]:
    if isinstance(cuda, Absent) and not torch.arch_list:
        return NotApplicable(reason="built without CUDA", source=SOURCE)
    # torch gives an empty list where CUDA cannot be used, so an empty one says nothing.
    return _known(torch.arch_list or None)

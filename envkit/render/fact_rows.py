"""Facts as rows of a name and a short text; what could not be read says why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

import msgspec

from envkit.compat.cudnn import cudnn_decode
from envkit.model.facts import DriverFacts, Facts, Gpu, GpuLink, HostFacts, TorchFacts
from envkit.model.observed import (
    NOT_RECORDED,
    Absent,
    Known,
    NotApplicable,
    Observed,
    Unreadable,
    reason_of,
    value_of,
)
from envkit.render.contract_rows import contract_rows, number_of

T = TypeVar("T")
Row = tuple[str, str]

MOST_GPUS: Final = 8
_GIB: Final = 1 << 30


def rows(facts: Facts, *, everything: bool = False) -> list[Row]:
    """Return the short table, or with `everything` each fact that was recorded."""
    return list(_all_rows(facts)) if everything else list(_short_rows(facts))


def gib(size_bytes: int) -> str:
    """Say a number of bytes in GiB with one digit."""
    return f"{size_bytes / _GIB:.1f} GiB"


def cudnn_version(number: int) -> str:
    """Write cuDNN's integer as people do: 91501 is `9.15.1`; one that is none stays as it is."""
    try:
        return ".".join(map(str, cudnn_decode(number)))
    except ValueError:
        return str(number)


def _short_rows(facts: Facts) -> Iterator[Row]:
    if isinstance(facts.driver.version, Absent) and not value_of(facts.gpus.devices):
        yield "GPU", f"none ({facts.driver.version.reason or 'no NVIDIA driver'})"
    else:
        yield from _driver(facts.driver)
        yield from _gpus(facts)
    yield from _torch(facts.torch)
    yield from _said("python", facts.python.version, str)
    yield from _host(facts.host)
    yield from _packages(facts)
    yield from contract_rows(facts)
    variables = value_of(facts.environment.variables)
    if variables:
        yield "variables", " ".join(f"{name}={variables[name]}" for name in sorted(variables))


def _driver(driver: DriverFacts) -> Iterator[Row]:
    cuda = value_of(driver.cuda_version)
    yield from _said(
        "driver", driver.version, lambda version: f"{version}" + (f", CUDA {cuda}" if cuda else "")
    )


def _gpus(facts: Facts) -> Iterator[Row]:
    devices = facts.gpus.devices
    if not isinstance(devices, Known):
        yield from _said("GPU", devices, str)
        return
    if not devices.value:
        yield "GPU", f"none [{devices.source}]"
    for gpu in devices.value[:MOST_GPUS]:
        yield f"GPU {gpu.index}", _gpu(gpu)
    if len(devices.value) > MOST_GPUS:
        yield "", f"and {len(devices.value) - MOST_GPUS} more"
    links = value_of(facts.gpus.links)
    if links:
        yield "links", _links(links)


def _links(links: tuple[GpuLink, ...]) -> str:
    """Count the pairs of GPUs that are connected alike."""
    kinds = Counter(_link(one) for one in links)
    return "; ".join(f"{number_of(number, 'pair')} {kind}" for kind, number in kinds.most_common())


def _link(link: GpuLink) -> str:
    path = (value_of(link.path) or "path unknown").replace("_", " ")
    way = "NVLink" if value_of(link.p2p_nvlink) == "ok" else f"PCIe, nearest in common: {path}"
    reads = value_of(link.p2p_read)
    peer = "P2P" if reads == "ok" else f"no P2P ({(reads or 'unknown').replace('_', ' ')})"
    return f"by {way}, {peer}"


def _gpu(gpu: Gpu) -> str:
    said = [value_of(gpu.name) or "name unknown"]
    capability, memory_bytes = value_of(gpu.compute_capability), value_of(gpu.memory_bytes)
    if capability is not None:
        said.append(f"capability {capability}")
    if memory_bytes is not None:
        said.append(gib(memory_bytes))
    return ", ".join(said)


def _torch(torch: TorchFacts) -> Iterator[Row]:
    def build(version: str) -> str:
        said = [version]
        for name, fact in (("CUDA", torch.cuda), ("ROCm", torch.hip), ("NCCL", torch.nccl)):
            value = value_of(fact)
            if value is not None:
                said.append(f"{name} {value}")
        cudnn = value_of(torch.cudnn)
        if cudnn is not None:
            said.append(f"cuDNN {cudnn_version(cudnn)}")
        whence = " ".join(filter(None, (value_of(torch.channel), value_of(torch.installer))))
        return ", ".join(said) + (f" ({whence})" if whence else "")

    yield from _said("torch", torch.version, build)
    failure = value_of(torch.import_failure)
    if failure is not None:
        yield "", f"import {failure.how.replace('_', ' ')}: {failure.message}"


def _host(host: HostFacts) -> Iterator[Row]:
    system = [value_of(host.os_release) or value_of(host.os), value_of(host.arch)]
    glibc, container = value_of(host.glibc), value_of(host.container)
    system.append(f"glibc {glibc}" if glibc else None)
    system.append(f"in a container ({container})" if container else None)
    said = ", ".join(part for part in system if part)
    if said:
        yield "host", said
    count, memory_bytes = value_of(host.cpu_count), value_of(host.memory_bytes)
    cpu = [value_of(host.cpu_model), f"{count} usable" if count else None]
    cpu.append(gib(memory_bytes) if memory_bytes else None)
    said = ", ".join(part for part in cpu if part)
    if said:
        yield "processor", said


def _packages(facts: Facts) -> Iterator[Row]:
    conda, distributions = value_of(facts.conda.packages), value_of(facts.pip.distributions)
    said = []
    if conda is not None:
        said.append(number_of(len(conda), "conda package"))
    if distributions is not None:
        said.append(number_of(len(distributions), "Python distribution"))
    if said:
        yield "packages", ", ".join(said)


def _said(name: str, fact: Observed[T], say: Callable[[T], str]) -> Iterator[Row]:
    if isinstance(fact, Known):
        yield name, say(fact.value)
    elif fact != NOT_RECORDED:
        yield name, f"({_state(fact)}: {reason_of(fact)})"


def _state(fact: Absent | Unreadable | NotApplicable) -> str:
    match fact:
        case Absent():
            return "none"
        case Unreadable():
            return "unreadable"
        case NotApplicable():
            return "not asked"


def _all_rows(facts: Facts) -> Iterator[Row]:
    for family in facts.__struct_fields__:
        group = getattr(facts, family)
        for name in group.__struct_fields__:
            fact = getattr(group, name)
            yield from _said(f"{family}.{name}", fact, _plain)


def _plain(value: Any) -> str:
    built = msgspec.to_builtins(value)
    return built if isinstance(built, str) else msgspec.json.encode(built).decode()

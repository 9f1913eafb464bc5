"""What rules ask of a machine: the facts read as versions, GPUs and packages, once each."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cached_property
from pathlib import PurePosixPath
from typing import Any

import msgspec

from envkit.compat import tables
from envkit.compat.tables import Model, Platform, System, Unknown
from envkit.model.facts import Facts, Gpu, SelfTest
from envkit.model.observed import Absent, Known, Observed, value_of
from envkit.model.versions import (
    Cuda,
    TorchVersion,
    cuda_tag,
    parse_capability,
    parse_cuda,
    parse_driver,
    parse_torch,
)
from envkit.rules.agreement import Agreement
from envkit.rules.cite import cite

_CONDA_CHANNELS = ("pytorch", "conda-forge", "defaults", "nvidia", "anaconda", "main")

_ACCELERATORS = {
    "rocm": "ROCm",
    "xpu": "Intel XPU",
    "mps": "Apple MPS",
    "npu": "an NPU",
    "tpu": "TPU",
}
_FORKS = (
    "torch-npu",
    "torch-musa",
    "torch-mlu",
    "torch-gcu",
    "torch-hpu",
    "habana-torch-plugin",
    "torch-xla",
)


class Device(msgspec.Struct, frozen=True, kw_only=True):
    """A GPU as far as rules care: its name and what it can run."""

    index: int
    name: str
    capability: str | None
    source: str
    """Where the capability, or else the name, was read."""


class Subject:
    """Facts, with the questions that several rules ask answered once."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts

    # -- host ---------------------------------------------------------------------------------

    @cached_property
    def os(self) -> str | None:
        """`linux`, `windows`, `wsl`, `macos`; None where it is not known."""
        return value_of(self.facts.host.os)

    @cached_property
    def system(self) -> System:
        """Whose driver numbers count: on WSL the driver is the Windows one."""
        return "windows" if self.os in {"windows", "wsl"} else "linux"

    @cached_property
    def platform(self) -> Platform:
        """What builds for this machine are made for."""
        if self.os == "windows":
            return "windows"
        return "linux_aarch64" if value_of(self.facts.host.arch) == "aarch64" else "linux_x86_64"

    @cached_property
    def in_container(self) -> bool:
        """Whether the facts were read inside a container."""
        return isinstance(self.facts.host.container, Known)

    @cached_property
    def variables(self) -> dict[str, str]:
        """Environment variables that were recorded."""
        return value_of(self.facts.environment.variables) or {}

    # -- driver -------------------------------------------------------------------------------

    @cached_property
    def driver(self) -> str | None:
        """Driver version, if it reads like one."""
        text = value_of(self.facts.driver.version)
        return text if text is not None and _reads(parse_driver, text) else None

    @cached_property
    def cuda_works(self) -> bool | None:
        """Whether torch could use CUDA, as measured. Outranks every table."""
        return value_of(self.facts.torch.cuda_available)

    @cached_property
    def cuda_error(self) -> int | None:
        """Code of the error with which CUDA could not be initialised."""
        for fact in (self.facts.torch.cuda_error, self.facts.driver.cuda_error):
            if isinstance(fact, Known):
                return fact.value.code
        return None

    @cached_property
    def cuda_error_text(self) -> str:
        """That error in words, with its source's name for it."""
        for fact in (self.facts.torch.cuda_error, self.facts.driver.cuda_error):
            if isinstance(fact, Known):
                words = " ".join(filter(None, (fact.value.name, fact.value.message)))
                return f"error {fact.value.code} {words}".strip()
        return ""

    # -- GPUs ---------------------------------------------------------------------------------

    @cached_property
    def gpus(self) -> tuple[Gpu, ...]:
        """GPUs that the driver, or a record, lists."""
        return value_of(self.facts.gpus.devices) or ()

    @cached_property
    def nvidia_gpu(self) -> bool:
        """Whether an NVIDIA GPU was seen in any way."""
        on_bus = value_of(self.facts.gpus.pci_devices)
        in_torch = value_of(self.facts.torch.devices)
        return bool(self.gpus or on_bus or in_torch or self._jetson)

    @cached_property
    def _jetson(self) -> bool:
        jetson = self.facts.host.jetson
        return isinstance(jetson, Known) and jetson.value

    @cached_property
    def visible(self) -> tuple[Device, ...]:
        """GPUs that a program of the target would use: torch's own list, else the driver's."""
        in_torch = value_of(self.facts.torch.devices)
        if in_torch:
            return tuple(
                Device(
                    index=one.index,
                    name=one.name,
                    capability=one.capability,
                    source=source_of(self.facts.torch.devices),
                )
                for one in in_torch
            )
        return self.listed

    @cached_property
    def listed(self) -> tuple[Device, ...]:
        """GPUs of the machine, with a capability from the tables where none was read."""
        return tuple(self._device(gpu) for gpu in self.gpus)

    def _device(self, gpu: Gpu) -> Device:
        name = value_of(gpu.name) or "GPU"
        read = value_of(gpu.compute_capability)
        if read is not None and _reads(parse_capability, read):
            source = source_of(gpu.compute_capability)
            return Device(index=gpu.index, name=name, capability=read, source=source)
        model = tables.find_gpu(name)
        if not isinstance(model, Model):
            return Device(index=gpu.index, name=name, capability=None, source=source_of(gpu.name))
        source = cite("gpus", f"models {model.name}", model)
        return Device(index=gpu.index, name=name, capability=model.capability, source=source)

    # -- torch --------------------------------------------------------------------------------

    @cached_property
    def torch(self) -> TorchVersion | None:
        """Torch's version taken apart, if it reads like one."""
        text = value_of(self.facts.torch.version)
        return parse_torch(text) if text is not None and _reads(parse_torch, text) else None

    @cached_property
    def torch_text(self) -> str:
        """`torch 2.6.0+cu124`, or `torch` where the version is not known."""
        return f"torch {text_of(self.facts.torch.version)}".strip()

    @cached_property
    def cuda(self) -> str | None:
        """CUDA version of the build, `12.4`."""
        text = value_of(self.facts.torch.cuda)
        return text if text is not None and _reads(parse_cuda, text) else None

    @cached_property
    def cuda_numbers(self) -> Cuda | None:
        """CUDA version of the build as numbers."""
        return parse_cuda(self.cuda) if self.cuda is not None else None

    @cached_property
    def tag(self) -> str | None:
        """The build's wheel tag, `cu124`."""
        if self.cuda_numbers is None:
            return None
        try:
            return cuda_tag(self.cuda_numbers)
        except ValueError:
            return None

    @cached_property
    def cpu_build(self) -> bool:
        """Whether torch is built without CUDA or any other accelerator, as far as its facts say."""
        if self.torch is not None and self.torch.kind == "cpu":
            return True
        no_cuda = isinstance(self.facts.torch.cuda, Absent)
        return no_cuda and not isinstance(self.facts.torch.hip, Known)

    @cached_property
    def imported(self) -> bool:
        """Whether torch was imported: then whatever the loader complains of is not in its way."""
        torch = self.facts.torch
        known = (torch.cuda_available, torch.flags, torch.allocator_settings, torch.threads)
        return isinstance(torch.import_failure, Absent) or any(
            isinstance(fact, Known) for fact in known
        )

    @cached_property
    def import_words(self) -> str:
        """What torch said when it could not be imported, standard error included."""
        failure = value_of(self.facts.torch.import_failure)
        if failure is None:
            return ""
        return f"{failure.message}\n{text_of(self.facts.torch.stderr_tail)}".strip()

    @cached_property
    def self_tests(self) -> tuple[SelfTest, ...]:
        """Operations with a known answer that were run."""
        return value_of(self.facts.torch.self_tests) or ()

    @cached_property
    def conda(self) -> bool:
        """Whether torch is a conda package here, so that conda has to mend it."""
        installer = value_of(self.facts.torch.installer)
        if installer is not None:
            return installer == "conda"
        if self.torch is not None and self.torch.local is not None:
            return False  # only wheels carry a tag such as +cu124 in their version
        return self.channel in _CONDA_CHANNELS and bool(self.conda_packages)

    @cached_property
    def channel(self) -> str | None:
        """Where torch came from: `pypi`, `pytorch`, `conda-forge` ..."""
        return value_of(self.facts.torch.channel)

    @cached_property
    def upstream(self) -> bool:
        """Whether torch may be a build as PyTorch publishes it: what the tables speak about."""
        if self.torch is None or not self.torch.is_release or self.torch.kind == "other":
            return False
        elsewhere = value_of(self.facts.torch.installer) == "source"
        return (
            not elsewhere and self.channel in {None, "pypi", "pytorch"} and self.torch.post is None
        )

    @cached_property
    def foreign_accelerator(self) -> str:
        """The accelerator other than CUDA that this torch is for; empty for none."""
        torch = self.facts.torch
        local = (self.torch.local or "") if self.torch is not None else ""
        if isinstance(torch.hip, Known) or local.startswith("rocm"):
            return "ROCm"
        if self.torch is not None and self.torch.kind == "xpu":
            return "Intel XPU"
        if self.os == "macos":
            return "Apple MPS"
        named = value_of(torch.accelerator)
        if named in _ACCELERATORS:
            return _ACCELERATORS[named]
        fork = next((name for name in _FORKS if name in self.packages), None)
        if fork and not isinstance(torch.cuda, Known):
            return fork
        return "a vendor's fork of torch" if self._vendor_fork else ""

    @cached_property
    def _vendor_fork(self) -> bool:
        """CUDA "works" without any NVIDIA driver or GPU, or the tag is of no build we know."""
        local = (self.torch.local or "") if self.torch is not None else ""
        if re.match(r"(corex|das|musa|mlu|npu|metax|maca)", local):
            return True
        if not self.cuda_works or self.nvidia_gpu or self.driver is not None:
            return False
        looked_for = isinstance(self.facts.driver.version, Absent) and isinstance(
            self.facts.gpus.devices, (Known, Absent)
        )
        return looked_for or self.never_published

    @cached_property
    def never_published(self) -> bool:
        """Whether the build is for a CUDA older than any that this release was published for."""
        builds = tables.builds_for(self.torch.text) if self.torch is not None else ()
        if isinstance(builds, Unknown) or not builds or self.cuda_numbers is None:
            return False
        return self.cuda_numbers < min(parse_cuda(build.cuda) for build in builds)

    # -- spec and lock ------------------------------------------------------------------------

    @cached_property
    def agreement(self) -> Agreement:
        """The environment compared with its lock and its spec."""
        return Agreement(self.facts)

    # -- packages -----------------------------------------------------------------------------

    @cached_property
    def packages(self) -> dict[str, str]:
        """Python distributions by normalised name."""
        distributions = value_of(self.facts.pip.distributions) or ()
        return {one.name: one.version for one in distributions}

    @cached_property
    def conda_packages(self) -> dict[str, str]:
        """Conda packages by name, those that conda lists for pip left out."""
        records = value_of(self.facts.conda.packages) or ()
        return {one.name: one.version for one in records if one.channel != "pypi"}

    @cached_property
    def needs_gpu(self) -> bool:
        """Whether the device asked for, or the spec, needs a GPU."""
        needed = self.facts.request.needs_gpu
        return isinstance(needed, Known) and needed.value

    @cached_property
    def library_path(self) -> tuple[str, ...]:
        """Folders of LD_LIBRARY_PATH."""
        return tuple(filter(None, self.variables.get("LD_LIBRARY_PATH", "").split(":")))

    @cached_property
    def compat_folder(self) -> str | None:
        """Where a forward-compatibility libcuda is, or would be, taken from."""
        used = value_of(self.facts.driver.compat_library)
        if used is not None:
            return used
        named = (one for one in self.library_path if re.search(r"/cuda[^/]*/compat(/|$)", one))
        return next(named, None)


def text_of(fact: Observed[str]) -> str:
    """Return the text of a known fact, else nothing."""
    return fact.value if isinstance(fact, Known) else ""


def source_of(fact: Observed[Any]) -> str:
    """Say where a fact was read."""
    return fact.source or "recorded"


def file_name(path: str) -> str:
    """Last part of a path, of Linux or Windows."""
    return PurePosixPath(path.replace("\\", "/")).name


def _reads(parse: Callable[[str], object], text: str) -> bool:
    try:
        parse(text)
    except ValueError:
        return False
    return True

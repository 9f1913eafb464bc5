"""What the checks look at: a spec, the torch and CUDA it asks for, and what stands around it."""

from __future__ import annotations

import datetime as dt
import re
from functools import cached_property
from typing import Final, Literal

import msgspec

from envkit.model.conda_channel import channel_name
from envkit.model.conda_version import Bounds, parse_constraint
from envkit.model.environment_spec import CondaDependency, EnvironmentSpec

#: Where a torch comes from; None where the order of the channels does not settle it.
Origin = Literal["pytorch", "conda-forge", "defaults", "pypi"]

OPEN: Final = Bounds(low=None, high=None)
#: conda packages that are, or bring, torch.
TORCH_NAMES: Final = ("pytorch", "pytorch-gpu", "pytorch-cpu")
#: Names under which the channels of Anaconda, Inc. go.
DEFAULTS: Final = frozenset(
    {"defaults", "anaconda", "main", "free", "pkgs/main", "pkgs/free", "pkgs/r", "pkgs/msys2"}
)
#: Channels that have a torch of their own, by the name of its origin.
_TORCH_CHANNELS: Final[dict[str, Origin]] = {
    "pytorch": "pytorch",
    "conda-forge": "conda-forge",
    **dict.fromkeys(DEFAULTS, "defaults"),
}
_CUDA_BUILD: Final = re.compile(r"cuda\*?_?(\d{1,2})\.?(\d)|cu(\d{2})(\d)|gpu")
_CPU_BUILD: Final = re.compile(r"(?<![a-z])cpu")


class Registered(msgspec.Struct, frozen=True, kw_only=True):
    """What the registry says of the spec."""

    name: str
    version: str
    content_hash: str
    published_hash: str | None
    """Of this version in the archive; None: it has not been published."""
    source: str


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """What a spec is judged with, besides its text."""

    today: dt.date
    lock_channels: frozenset[str] | None = None
    """Names of the channels that its lock takes packages from; None: it has no lock."""
    registered: Registered | None = None


class Torch(msgspec.Struct, frozen=True, kw_only=True):
    """The torch that a spec asks for."""

    half: Literal["conda", "pip"]
    text: str
    line: int
    bounds: Bounds
    origin: Origin | None
    build: str | None = None
    """Build pin of the conda half, local version (`+cu121`) of the pip half."""


class NamedCuda(msgspec.Struct, frozen=True, kw_only=True):
    """A CUDA version that a spec names."""

    version: tuple[int, int]
    text: str
    line: int


class Subject:
    """A spec and its surroundings; everything derived is computed once."""

    def __init__(self, spec: EnvironmentSpec, surroundings: Surroundings) -> None:
        self.spec = spec
        self.surroundings = surroundings

    @cached_property
    def channel_names(self) -> tuple[str, ...]:
        """Names of the channels, the most preferred first."""
        return tuple(channel_name(channel.text) for channel in self.spec.channels)

    @cached_property
    def conda_torch(self) -> Torch | None:
        """The torch of the conda half; `pytorch` itself before its companions."""
        found = sorted(
            self.spec.conda_named(*TORCH_NAMES), key=lambda one: TORCH_NAMES.index(one.match.name)
        )
        if not found:
            return None
        one = found[0]
        return Torch(
            half="conda",
            text=one.text,
            line=one.line,
            bounds=bounds_of(one),
            origin=self.origin_of(one),
            build=one.match.build,
        )

    @cached_property
    def pip_torch(self) -> Torch | None:
        """The first torch of the pip half."""
        found = self.spec.pip_named("torch")
        if not found:
            return None
        one = found[0]
        local = re.search(r"\+([\w.]+)", one.specifier)
        return Torch(
            half="pip",
            text=one.text,
            line=one.line,
            bounds=_pip_bounds(one.specifier),
            origin="pypi",
            build=local[1] if local else None,
        )

    @property
    def torch(self) -> Torch | None:
        """The torch that counts: pip's, which is installed last, over conda's."""
        return self.pip_torch or self.conda_torch

    def origin_of(self, dependency: CondaDependency) -> Origin | None:
        """Say which channel a torch package comes from, by its own word or the channels' order."""
        if dependency.match.channel is not None:
            return _TORCH_CHANNELS.get(channel_name(dependency.match.channel))
        if dependency.match.name in {"pytorch-gpu", "pytorch-cpu"}:
            return "conda-forge"
        named = (_TORCH_CHANNELS.get(name) for name in self.channel_names)
        # Nothing else named has a torch: what conda adds itself.
        return next((origin for origin in named if origin is not None), "defaults")

    @cached_property
    def cuda_named(self) -> tuple[NamedCuda, ...]:
        """Every CUDA version that the spec names, in the order of the file."""
        found = [one for one in self._cuda_packages() if one is not None]
        found += [
            NamedCuda(version=version, text=torch.text, line=torch.line)
            for torch in (self.conda_torch, self.pip_torch)
            if torch is not None and (version := cuda_of_build(torch.build)) is not None
        ]
        return tuple(sorted(found, key=lambda one: one.line))

    def _cuda_packages(self) -> list[NamedCuda | None]:
        names = ("pytorch-cuda", "cudatoolkit", "cuda-version")
        return [_named_cuda(one) for one in self.spec.conda_named(*names)]

    @property
    def cpu_chosen(self) -> bool:
        """Whether the spec asks for a CPU build in words."""
        if self.spec.conda_named("cpuonly", "pytorch-cpu"):
            return True
        torch = self.torch
        return torch is not None and torch.build is not None and is_cpu_build(torch.build)


def bounds_of(dependency: CondaDependency) -> Bounds:
    """Return the range of versions that a dependency admits."""
    return dependency.match.version.bounds if dependency.match.version else OPEN


def is_cpu_build(build: str) -> bool:
    """Say whether a build pin is one of a CPU build."""
    return bool(_CPU_BUILD.search(build)) and not is_cuda_build(build)


def is_cuda_build(build: str) -> bool:
    """Say whether a build pin selects a CUDA build."""
    return bool(_CUDA_BUILD.search(build)) or "cuda" in build


def cuda_of_build(build: str | None) -> tuple[int, int] | None:
    """Return the CUDA version in a build pin: `*cuda126*`, `py3.8_cuda11.3_cudnn8_0`, `cu121`."""
    found = _CUDA_BUILD.search(build or "")
    if found is None or not (found[1] or found[3]):
        return None
    return int(found[1] or found[3]), int(found[2] or found[4])


def _pip_bounds(specifier: str) -> Bounds:
    return parse_constraint(specifier).bounds if specifier else OPEN


def _named_cuda(dependency: CondaDependency) -> NamedCuda | None:
    series = bounds_of(dependency).one_series
    if series is None:
        return None
    return NamedCuda(version=series, text=dependency.text, line=dependency.line)

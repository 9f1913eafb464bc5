"""What an environment has, compared with what its lock and its spec say: once for all CON rules."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import msgspec

from envkit.model.conda_channel import channel_name
from envkit.model.conda_version import parse_constraint
from envkit.model.facts import CondaPackage, Facts, SpecDependency
from envkit.model.match_spec import MatchSpec
from envkit.model.observed import Known, value_of

#: Packages that decide what a GPU computes and how much memory it needs, most telling first.
GPU_STACK = (
    "pytorch",
    "torch",
    "pytorch-gpu",
    "pytorch-cpu",
    "libtorch",
    "pytorch-cuda",
    "cuda-version",
    "cudatoolkit",
    "cudnn",
    "libcudnn",
    "nccl",
    "libcublas",
    "libcusparse",
    "libcusolver",
    "libcufft",
    "libcurand",
    "triton",
    "torchvision",
    "torchaudio",
    "torchtriton",
    "flash-attn",
    "xformers",
    "bitsandbytes",
    "magma",
    "libmagma",
    "libmagma_sparse",
    "cusparselt",
    "mkl",
    "libblas",
    "openblas",
    "libopenblas",
    "llvm-openmp",
)
_GPU_BEGINNINGS = ("cuda-", "libcud", "libcu", "libnv", "nvidia-")


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """A package as it is locked and as it is installed."""

    locked: CondaPackage
    installed: CondaPackage

    @property
    def name(self) -> str:
        """Name of both."""
        return self.locked.name


class Unmet(msgspec.Struct, frozen=True, kw_only=True):
    """A dependency of the spec that the environment does not meet."""

    dependency: SpecDependency
    installed: CondaPackage | None

    @property
    def by_channel_alone(self) -> bool:
        """Whether it would be met if the package came from the channel asked for."""
        if self.installed is None or not self.dependency.channel:
            return False
        anywhere = msgspec.structs.replace(self.dependency, channel="")
        return meets(anywhere, self.installed)


class Agreement:
    """The comparison of one environment with its contract."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts

    @cached_property
    def strict(self) -> bool:
        """Whether the environment has to be its lock, not only to satisfy its spec."""
        return value_of(self._facts.request.strict) is True

    @cached_property
    def locked(self) -> dict[str, CondaPackage] | None:
        """Locked packages by name; None: there is no lock to compare with."""
        packages = value_of(self._facts.contract.packages)
        return None if packages is None else {one.name: one for one in packages}

    @cached_property
    def installed(self) -> dict[str, CondaPackage]:
        """Installed conda packages by name; of two records for one name the first."""
        found: dict[str, CondaPackage] = {}
        for one in self._records:
            found.setdefault(one.name, one)
        return found

    @cached_property
    def _records(self) -> tuple[CondaPackage, ...]:
        packages = value_of(self._facts.conda.packages) or ()
        return tuple(one for one in packages if one.channel != "pypi")

    @cached_property
    def twice(self) -> tuple[CondaPackage, ...]:
        """Records of a name that has another one."""
        return tuple(one for one in self._records if self.installed[one.name] is not one)

    @cached_property
    def missing(self) -> tuple[CondaPackage, ...]:
        """Locked and not installed."""
        locked = self.locked or {}
        return _sorted(one for name, one in locked.items() if name not in self.installed)

    @cached_property
    def extra(self) -> tuple[CondaPackage, ...]:
        """Installed and not locked."""
        locked = self.locked or {}
        return _sorted(one for name, one in self.installed.items() if name not in locked)

    @cached_property
    def pairs(self) -> tuple[Pair, ...]:
        """Packages that are both locked and installed, those of the GPU stack first."""
        locked = self.locked or {}
        found = [
            Pair(locked=one, installed=self.installed[name])
            for name, one in locked.items()
            if name in self.installed
        ]
        return tuple(sorted(found, key=lambda pair: weight(pair.name)))

    @cached_property
    def changed(self) -> tuple[Pair, ...]:
        """Another version or build."""
        return tuple(one for one in self.pairs if _is_changed(one))

    @cached_property
    def rechanneled(self) -> tuple[Pair, ...]:
        """The same name from another channel."""
        return tuple(
            one
            for one in self.pairs
            if channel_name(one.locked.channel) != channel_name(one.installed.channel)
        )

    @cached_property
    def rehashed(self) -> tuple[Pair, ...]:
        """The same version and build with another hash: another package file."""
        return tuple(
            one
            for one in self.pairs
            if not _is_changed(one) and _same_hash(one.locked, one.installed) is False
        )

    @cached_property
    def without_hash(self) -> tuple[Pair, ...]:
        """The same version and build, and no hash that both have."""
        return tuple(
            one
            for one in self.pairs
            if not _is_changed(one) and _same_hash(one.locked, one.installed) is None
        )

    @cached_property
    def unmet(self) -> tuple[Unmet, ...]:
        """Dependencies of the spec that the environment does not meet."""
        return tuple(
            Unmet(dependency=one, installed=self.installed.get(one.name))
            for one in value_of(self._facts.contract.dependencies) or ()
            if one.name not in self.installed or not meets(one, self.installed[one.name])
        )

    @property
    def has_spec(self) -> bool:
        """Whether a spec is known."""
        return isinstance(self._facts.contract.dependencies, Known)


def meets(dependency: SpecDependency, package: CondaPackage) -> bool:
    """Say whether a package is what a dependency asks for; what cannot be read meets nothing."""
    try:
        match = MatchSpec(
            name=dependency.name,
            channel=dependency.channel or None,
            version=parse_constraint(dependency.version) if dependency.version else None,
            build=dependency.build or None,
        )
        return match.admits(
            name=package.name,
            version=package.version,
            build=package.build,
            channel=package.channel,
        )
    except ValueError:
        return False


def weight(name: str) -> tuple[int, str]:
    """Return the place of a package in a list: the GPU stack first, the rest by name."""
    if name in GPU_STACK:
        return GPU_STACK.index(name), name
    if name.startswith(_GPU_BEGINNINGS):
        return len(GPU_STACK), name
    return len(GPU_STACK) + 1, name


def said(package: CondaPackage) -> str:
    """Write a package in one line: `2.7.1 cuda126_py312_h0 (conda-forge)`."""
    channel = f" ({package.channel})" if package.channel else ""
    return f"{package.version} {package.build}".strip() + channel


def asked(dependency: SpecDependency) -> str:
    """Write a dependency as a spec does: `conda-forge::pytorch 2.7.1 *cuda126*`."""
    front = f"{dependency.channel}::" if dependency.channel else ""
    version = dependency.version or ("*" if dependency.build else "")
    return f"{front}{dependency.name} {version} {dependency.build}".strip()


def _sorted(packages: Iterator[CondaPackage]) -> tuple[CondaPackage, ...]:
    return tuple(sorted(packages, key=lambda one: weight(one.name)))


def _is_changed(pair: Pair) -> bool:
    locked, installed = pair.locked, pair.installed
    return (locked.version, locked.build) != (installed.version, installed.build)


def _same_hash(one: CondaPackage, other: CondaPackage) -> bool | None:
    if one.sha256 and other.sha256:
        return one.sha256.lower() == other.sha256.lower()
    if one.md5 and other.md5:
        return one.md5.lower() == other.md5.lower()
    return None

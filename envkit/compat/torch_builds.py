"""The published builds of PyTorch: CUDA, libraries, Python, and what goes with them."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Literal

from packaging.version import Version

from envkit.compat.answers import Unknown
from envkit.compat.rows import Row, Rule, Table
from envkit.compat.store import load
from envkit.model.versions import TorchVersion, parse_cuda_tag, parse_torch

Availability = Literal["published", "absent", "unknown"]
#: Where a package came from: wheels and the `pytorch` channel are released together.
Origin = Literal["pytorch", "conda-forge"]

#: Addresses that users of PyTorch's own wheel index need.
_WHEEL_INDEX = "https://download.pytorch.org/whl/"


class Build(Row, frozen=True, kw_only=True):
    """A CUDA build of a release. An absent version means that no source gives it."""

    tag: str
    cuda: str
    cudnn: str | None = None
    nccl: str | None = None
    #: What `pip install torch` gives on Linux x86_64.
    pypi_default: bool = False
    #: Fields that are not verified; `published` stands for the build being there at all.
    unsure: tuple[Literal["published", "cudnn", "nccl"], ...] = ()
    #: Where it is higher than the release's.
    glibc_min: str | None = None
    #: nvidia-* and triton requirements of the wheel, package (with extras) to specifier.
    pins: Mapping[str, str] = {}


class Wheel(Row, frozen=True, kw_only=True):
    """The Linux x86_64 wheel of a release."""

    glibc_min: str
    cxx11_abi: bool
    tag: str | None = None
    glibc_measured: str | None = None


class CondaPytorch(Row, frozen=True, kw_only=True):
    """A release in the `pytorch` channel."""

    state: Availability
    #: Package that selects the CUDA build there.
    selector: Literal["cudatoolkit", "pytorch-cuda"] | None = None
    cuda: tuple[str, ...] = ()


class CondaForge(Row, frozen=True, kw_only=True):
    """A release in conda-forge."""

    state: Availability
    first_date: str | None = None
    #: conda platform to CUDA variants.
    variants: Mapping[str, tuple[str, ...]] = {}
    triton: str | None = None


class Release(Row, frozen=True, kw_only=True):
    """A release of PyTorch."""

    version: str
    date: str
    #: Python versions with wheels, ascending.
    python: tuple[str, ...]
    requires_python: str
    #: platform (also `macos`) to the tag that plain pip installs.
    pypi_default: Mapping[str, str]
    builds: tuple[Build, ...]
    wheel: Wheel
    conda_pytorch: CondaPytorch
    conda_forge: CondaForge
    #: Commits: torch (what `torch.version.git_version` says), builder, matrix.
    commits: Mapping[str, str]
    triton: str | None = None


class Companion(Row, frozen=True, kw_only=True):
    """The torch that a version of torchvision or torchaudio was built for."""

    package: Literal["torchvision", "torchaudio"]
    version: str
    channel: Origin
    #: Specifiers; each is one build that was seen.
    torch: tuple[str, ...]


class NumpyGeneration(Row, frozen=True, kw_only=True):
    """The NumPy that builds of PyTorch were compiled for."""

    platform: Literal["linux", "windows", "conda-forge"]
    numpy: Literal[1, 2]
    torch_from: str | None = None
    torch_before: str | None = None


class TorchTable(Table, frozen=True, kw_only=True):
    """`data/torch.yaml`."""

    newest: str
    defaults_note: str
    releases: tuple[Release, ...]
    companions: tuple[Companion, ...]
    numpy: tuple[NumpyGeneration, ...]
    rules: tuple[Rule, ...]


@functools.cache
def table() -> TorchTable:
    """Return the table of builds, read once a process."""
    return load("torch", TorchTable)


@functools.cache
def _by_version() -> dict[str, Release]:
    return {release.version: release for release in table().releases}


def outside_tables(version: TorchVersion) -> Unknown | None:
    """Say why no table can speak about a version; None for a release of the years covered."""
    if not version.is_release:
        return Unknown(why=f"{version.text} is not a release of PyTorch")
    releases = table().releases
    if version.release > parse_torch(releases[-1].version).release:
        return Unknown(why=f"PyTorch {version.base} is newer than the tables", newer=True)
    if version.release < parse_torch(releases[0].version).release:
        return Unknown(why=f"PyTorch {version.base} is older than the tables")
    return None


def release_of(torch_version: str) -> Release | Unknown:
    """Return what is known of a release, `2.5.1+cu124` meaning 2.5.1.

    Raises:
        ValueError: the text is not a version.

    """
    version = parse_torch(torch_version)
    if (outside := outside_tables(version)) is not None:
        return outside
    unknown = Unknown(why=f"PyTorch {version.base} is not in the tables")
    return _by_version().get(version.base, unknown)


def builds_for(torch_version: str) -> tuple[Build, ...] | Unknown:
    """Return the CUDA builds of a release.

    Raises:
        ValueError: the text is not a version.

    """
    release = release_of(torch_version)
    return release if isinstance(release, Unknown) else release.builds


def build_of(torch_version: str, tag: str) -> Build | Unknown:
    """Return one CUDA build of a release.

    Raises:
        ValueError: the text is not a version.

    """
    builds = builds_for(torch_version)
    if isinstance(builds, Unknown):
        return builds
    unknown = Unknown(why=f"PyTorch {torch_version} has no build {tag} in the tables")
    return next((build for build in builds if build.tag == tag), unknown)


def newest_release() -> str:
    """Return the newest release that the tables know."""
    return table().newest


def wheel_index(tag: str) -> str:
    """Return the address of PyTorch's wheel index for a tag, `cu126` or `cpu`.

    Raises:
        ValueError: the text is no tag of a CUDA build, nor `cpu`.

    """
    if tag != "cpu":
        parse_cuda_tag(tag)
    return _WHEEL_INDEX + tag


def python_fits(torch_version: str, python: str) -> bool | Unknown:
    """Say whether a release has wheels for a Python, `3.11` or `3.11.9`.

    Raises:
        ValueError: `torch_version` is not a version.

    """
    release = release_of(torch_version)
    if isinstance(release, Unknown):
        return release
    return ".".join(python.split(".")[:2]) in release.python


def companions(
    package: Literal["torchvision", "torchaudio"], torch_version: str, *, origin: Origin = "pytorch"
) -> tuple[str, ...] | Unknown:
    """Return the versions of a companion package that were built for a torch release.

    Raises:
        ValueError: `torch_version` is not a version.

    """
    version = parse_torch(torch_version)
    if not version.is_release:
        return Unknown(why=f"{version.text} is not a release of PyTorch")
    found = tuple(
        row.version
        for row in table().companions
        if (row.package, row.channel) == (package, origin) and _built_for(row, version)
    )
    why = f"no source read names the {package} of PyTorch {version.base} ({origin})"
    return found or Unknown(why=why)


def compatible_vision(
    torch_version: str, *, origin: Origin = "pytorch"
) -> tuple[str, ...] | Unknown:
    """Return the torchvision versions that were built for a torch release.

    Raises:
        ValueError: `torch_version` is not a version.

    """
    return companions("torchvision", torch_version, origin=origin)


def companion_fits(
    package: Literal["torchvision", "torchaudio"],
    version: str,
    torch_version: str,
    *,
    origin: Origin = "pytorch",
) -> bool | Unknown:
    """Say whether an installed companion belongs to the installed torch.

    A no is possible for wheels and the `pytorch` channel only: each version there is built for
    one torch. conda-forge builds one version for several, and not all its records were seen.

    Raises:
        ValueError: `version` or `torch_version` is not a version.

    """
    torch, base = parse_torch(torch_version), parse_torch(version).base
    if not torch.is_release:
        return Unknown(why=f"{torch.text} is not a release of PyTorch")
    rows = [
        row
        for row in table().companions
        if (row.package, row.version, row.channel) == (package, base, origin)
    ]
    if any(_built_for(row, torch) for row in rows):
        return True
    if rows and origin == "pytorch":
        return False
    return Unknown(why=f"no source read names the torch of {package} {base} ({origin})")


def _built_for(row: Companion, version: TorchVersion) -> bool:
    from packaging.specifiers import SpecifierSet  # noqa: PLC0415 (slow, and rarely asked for)

    return any(SpecifierSet(spec).contains(version.base) for spec in row.torch)


def numpy_generation(
    torch_version: str, platform: Literal["linux", "windows", "conda-forge"]
) -> NumpyGeneration | Unknown:
    """Return the NumPy generation that a release was compiled for.

    Raises:
        ValueError: `torch_version` is not a version.

    """
    version = parse_torch(torch_version)
    if (outside := outside_tables(version)) is not None:
        return outside
    base = Version(version.base)
    for row in table().numpy:
        after = row.torch_from is None or base >= Version(row.torch_from)
        before = row.torch_before is None or base < Version(row.torch_before)
        if row.platform == platform and after and before:
            return row
    return Unknown(why=f"no source read says which NumPy PyTorch {version.base} was built for")

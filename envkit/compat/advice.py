"""The newest PyTorch build that a machine can run, found in the tables."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from envkit.compat.answers import Fit, Platform, Unknown, system_of
from envkit.compat.arch import arch_list, runs_on
from envkit.compat.driver import driver_fit
from envkit.compat.torch_builds import Build, Release, table, wheel_index
from envkit.model.versions import parse_capability, parse_cuda, parse_driver


class MachineLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What a machine offers to a build of PyTorch; None where it is not to be considered."""

    driver: str
    platform: Platform = "linux_x86_64"
    #: Compute capabilities of all GPUs that are to be used.
    capabilities: tuple[str, ...] = ()
    #: `3.11` or `3.11.9`
    python: str | None = None
    #: `2.31`
    glibc: str | None = None


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """A build to install."""

    #: Release without a local part, `2.7.1`.
    torch: str
    build: Build
    #: Address for `pip install torch==... --index-url`.
    index_url: str
    #: Plain `pip install` gives this build.
    is_pypi_default: bool
    #: The driver is older than the build's toolkit: minor-version compatibility, no PTX JIT.
    needs_minor_compatibility: bool


class NoBuild(msgspec.Struct, frozen=True, kw_only=True):
    """No build in the tables runs on the machine."""

    why: str


def newest_torch_for_driver(
    driver: str,
    platform: Platform = "linux_x86_64",
    *,
    capability: str | None = None,
    python: str | None = None,
    glibc: str | None = None,
) -> Choice | NoBuild:
    """Return the best build for one GPU; see `newest_torch`.

    Raises:
        ValueError: the driver, the capability or glibc cannot be read.

    """
    capabilities = () if capability is None else (capability,)
    limits = MachineLimits(
        driver=driver, platform=platform, capabilities=capabilities, python=python, glibc=glibc
    )
    return newest_torch(limits)


def newest_torch(limits: MachineLimits) -> Choice | NoBuild:
    """Return the newest release with a build that runs on a machine, and its best build.

    Only builds that a source proves to be published, for this platform and with code for every
    GPU named, are considered. Of one release the build is preferred whose CUDA the driver has
    itself, then the default of PyPI, then the newest CUDA the driver has, or the oldest it has not.

    Raises:
        ValueError: the driver, a capability or glibc cannot be read.

    """
    parse_driver(limits.driver)
    for capability in limits.capabilities:
        parse_capability(capability)
    for release in reversed(table().releases):
        choices = list(_choices(release, limits))
        if choices:
            return max(choices, key=_preference)
    return NoBuild(why=f"no build in the tables (up to {table().newest}) runs on this machine")


def _choices(release: Release, limits: MachineLimits) -> Iterator[Choice]:
    if limits.python is not None and _series(limits.python) not in release.python:
        return
    for build in release.builds:
        level = driver_fit(build.cuda, limits.driver, system_of(limits.platform)).level
        if level in {"full", "minor"} and _is_there(release, build, limits):
            yield Choice(
                torch=release.version,
                build=build,
                index_url=wheel_index(build.tag),
                is_pypi_default=release.pypi_default.get(limits.platform) == build.tag,
                needs_minor_compatibility=level == "minor",
            )


def _is_there(release: Release, build: Build, limits: MachineLimits) -> bool:
    if "published" in build.unsure or not _has_glibc(release, build, limits):
        return False
    if isinstance(arch_list(release.version, build.tag, limits.platform), Unknown):
        return False
    fits = (
        runs_on(release.version, build.tag, limits.platform, capability).fit
        for capability in limits.capabilities
    )
    # A driver older than the build's CUDA would refuse its PTX, so only machine code counts.
    return all(fit is Fit.NATIVE for fit in fits)


def _has_glibc(release: Release, build: Build, limits: MachineLimits) -> bool:
    if limits.glibc is None or limits.platform == "windows":
        return True
    needed = build.glibc_min or release.wheel.glibc_min
    return parse_cuda(limits.glibc) >= parse_cuda(needed)


def _preference(choice: Choice) -> tuple[bool, bool, int]:
    major, minor = parse_cuda(choice.build.cuda)
    newness = major * 100 + minor
    is_full = not choice.needs_minor_compatibility
    return is_full, choice.is_pypi_default, newness if is_full else -newness


def _series(python: str) -> str:
    return ".".join(python.split(".")[:2])

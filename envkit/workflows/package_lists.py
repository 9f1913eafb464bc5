"""Every kind of package list as the one that is compared."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from envkit.compare.sides import Package, Packages
from envkit.model.facts import CondaPackage, Facts, PipDistribution
from envkit.model.observed import value_of
from envkit.sources.conda_channel import channel_of

if TYPE_CHECKING:  # each input needs one of these, and none of the others
    from envkit.model.conda_lock import CondaLock, LockedPackage
    from envkit.model.environment_spec import EnvironmentSpec
    from envkit.sources.conda_list import CondaList

#: Our own distribution is never counted against a target.
_OWN: Final = "envkit-torch"
#: What `pip freeze` leaves out unless it is asked for all.
_NOT_FROZEN: Final = frozenset({"pip", "setuptools", "wheel", "distribute"})
_SHA256: Final = re.compile(r"(?:#|&)sha256=([0-9a-f]{64})")
_PLATFORMS: Final = {
    ("linux", "x86_64"): "linux-64",
    ("wsl", "x86_64"): "linux-64",
    ("linux", "aarch64"): "linux-aarch64",
    ("windows", "x86_64"): "win-64",
    ("windows", "AMD64"): "win-64",
    ("macos", "arm64"): "osx-arm64",
    ("macos", "x86_64"): "osx-64",
}


def from_facts(facts: Facts, *, complete: bool) -> Packages | None:
    """Return the packages of a machine; None where none are recorded.

    Args:
        facts: what was read.
        complete: whether what is not listed is not there (a paste lists only some).

    """
    conda, pip = value_of(facts.conda.packages), value_of(facts.pip.distributions)
    if conda is None and pip is None:
        return None
    distributions = [one for one in pip or () if one.name != _OWN]
    owned = [one for one in distributions if one.installer == "conda"]
    others = [one for one in distributions if one.installer != "conda" or conda is None]
    listed = [*map(_conda, conda or ()), *_once(map(_pip, others))]
    os_name, arch = value_of(facts.host.os), value_of(facts.host.arch)
    return Packages(
        listed=tuple(listed),
        conda=conda is not None,
        pip=pip is not None,
        complete=complete,
        platform=_PLATFORMS.get((os_name or "", arch or ""), ""),
        conda_owned=tuple(_once(map(_pip, owned))) if isinstance(conda, tuple) else (),
    )


def from_conda_lock(lock: CondaLock) -> Packages:
    """Return the packages of a lock, those of all its platforms."""
    return Packages(
        listed=tuple(_locked(one) for one in lock.package),
        conda=True,
        pip=True,
        platforms=tuple(sorted(lock.metadata.platforms)),
    )


def from_explicit(packages: Iterable[LockedPackage]) -> Packages:
    """Return the packages of an explicit lock."""
    listed = tuple(_locked(one) for one in packages)
    named = sorted({one.platform for one in listed} - {"noarch"})
    return Packages(
        listed=listed, conda=True, pip=False, platform=named[0] if len(named) == 1 else ""
    )


def from_spec(spec: EnvironmentSpec) -> Packages:
    """Return what a spec asks for; it names only what its author cared for."""
    conda = {
        one.match.name: Package(name=one.match.name, manager="conda", match=one.match)
        for one in spec.dependencies
    }
    pip = {
        one.name: Package(name=one.name, manager="pip", specifier=one.specifier)
        for one in spec.pip
        if one.name is not None and one.kind == "named"
    }
    return Packages(
        listed=(*conda.values(), *pip.values()), conda=True, pip=bool(pip), complete=False
    )


def from_conda_list(found: CondaList) -> Packages:
    """Return the packages of a `conda list`, or of a list of pip's in the same form."""
    listed = (*map(_conda, found.conda), *map(_pip, found.pip))
    return Packages(listed=tuple(listed), conda=bool(found.conda), pip=True)


def from_freeze(found: Iterable[PipDistribution]) -> Packages:
    """Return the distributions of a `pip freeze`."""
    listed = tuple(_pip(one) for one in found if one.name != _OWN)
    return Packages(listed=listed, conda=False, pip=True, never_listed=_NOT_FROZEN)


def _conda(one: CondaPackage) -> Package:
    return Package(
        name=one.name,
        manager="conda",
        version=one.version,
        build=one.build,
        channel=channel_of("", one.channel) if one.channel else "",
        md5=one.md5,
        sha256=one.sha256,
    )


def _pip(one: PipDistribution) -> Package:
    return Package(name=one.name, manager="pip", version=one.version)


def _once(packages: Iterable[Package]) -> list[Package]:
    """Keep the first of two of a name: the one that Python imports."""
    found: dict[str, Package] = {}
    for package in packages:
        found.setdefault(package.name, package)
    return list(found.values())


def _locked(one: LockedPackage) -> Package:
    by_conda = one.manager == "conda"
    in_url = _SHA256.search(one.url)
    return Package(
        name=one.name if by_conda else re.sub(r"[-_.]+", "-", one.name).lower(),
        manager=one.manager,
        version=one.version,
        build=one.build_string,
        channel=channel_of(one.url) if by_conda else "",
        md5=one.hash.md5 or "",
        sha256=one.hash.sha256 or (in_url[1] if in_url else ""),
        platform=one.platform,
    )

"""What pip installed in an environment, compared with the pip half of its lock and its spec."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from envkit.model.facts import Facts, PipDistribution, SpecRequirement
from envkit.model.observed import Unreadable, value_of

_DRIVE = re.compile(r"[A-Za-z]:")


def missing(facts: Facts) -> tuple[PipDistribution, ...]:
    """Return the locked distributions that are not installed."""
    if isinstance(facts.pip.distributions, Unreadable):
        return ()
    installed = _installed(facts)
    return tuple(one for one in _locked(facts) if one.name not in installed)


def changed(facts: Facts) -> tuple[tuple[PipDistribution, PipDistribution], ...]:
    """Return the distributions in another version: as locked, as installed."""
    installed = _installed(facts)
    pairs = ((one, installed[one.name]) for one in _locked(facts) if one.name in installed)
    return tuple((one, other) for one, other in pairs if one.version != other.version)


def unlocked(facts: Facts) -> tuple[PipDistribution, ...]:
    """Return what pip installed into the environment and the lock does not have.

    What lies over a package of conda is left out: CON007 is about it.
    """
    locked = {one.name for one in _locked(facts)}
    over = {one.name for one in value_of(facts.files.overlaps) or ()}
    conda = {(one.name, one.version) for one in value_of(facts.conda.packages) or ()}
    return tuple(
        one
        for one in value_of(facts.pip.distributions) or ()
        if one.installer not in {"", "conda"}
        and one.name not in locked
        and one.name not in over
        and (one.name, one.version) not in conda
        and not _is_elsewhere(one.location)
    )


def unmet(facts: Facts) -> tuple[tuple[SpecRequirement, str | None], ...]:
    """Return the pip requirements of the spec that are not met, with the version installed."""
    installed = _installed(facts)
    found: list[tuple[SpecRequirement, str | None]] = []
    for one in value_of(facts.contract.requirements) or ():
        has = installed.get(one.name)
        if has is None or not _admits(one.version, has.version):
            found.append((one, None if has is None else has.version))
    return tuple(found)


def _installed(facts: Facts) -> dict[str, PipDistribution]:
    found: dict[str, PipDistribution] = {}
    for one in value_of(facts.pip.distributions) or ():
        found.setdefault(one.name, one)  # the first on the search path is the one imported
    return found


def _locked(facts: Facts) -> tuple[PipDistribution, ...]:
    return value_of(facts.contract.distributions) or ()


def _is_elsewhere(location: str) -> bool:
    """Whether it lies outside of the environment: on PYTHONPATH or in the user's own folder."""
    outside = location.startswith("~") or _DRIVE.match(location) is not None
    return outside or PurePosixPath(location).is_absolute()


def _admits(specifier: str, version: str) -> bool:
    from packaging.specifiers import InvalidSpecifier, SpecifierSet  # noqa: PLC0415 (rarely)
    from packaging.version import InvalidVersion, Version  # noqa: PLC0415

    try:
        return SpecifierSet(specifier).contains(Version(version), prereleases=True)
    except (InvalidSpecifier, InvalidVersion):
        return False

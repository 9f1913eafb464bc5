"""Whether a lock is still the lock of its spec, from the two files alone: nothing is solved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from envkit.model.conda_lock import CondaLock, LockedPackage
from envkit.model.conda_version import parse_constraint
from envkit.model.environment_spec import CondaDependency, EnvironmentSpec
from envkit.specs.content_hash import content_hash
from envkit.specs.lock_metadata import notes_of
from envkit.specs.lock_provenance import from_elsewhere, not_needed
from envkit.specs.resolve import ResolvedSpec
from envkit.specs.virtual_packages import virtual_packages

_SHOWN_CHARS: Final = 120


def why_stale(
    lock: CondaLock, spec: EnvironmentSpec, resolved: ResolvedSpec, platforms: Sequence[str]
) -> tuple[str, ...]:
    """Return a sentence for each reason why the lock is not, or no longer, that of the spec.

    Empty: the spec is the one that was locked, each of its dependencies is met by a package of
    the lock, and so is each dependency of each package; all packages are of channels of the spec,
    and none is there that nothing needs.

    Args:
        lock: the lock.
        spec: the spec as it is now.
        resolved: where it was found; a spec of the registry brings version and machine.
        platforms: those that the lock must have.

    """
    reasons = list(_identity(lock, spec, resolved))
    for platform in platforms:
        if platform not in lock.metadata.platforms:
            reasons.append(f"{platform} is not locked")
            continue
        locked = lock.packages(platform)
        packages = {one.name: one for one in locked if one.manager == "conda"}
        reasons += _machine(lock, spec, resolved, platform)
        reasons += unmet_by_lock(spec, packages, platform)
        reasons += _incomplete(packages, platform)
        reasons += from_elsewhere(spec, locked, platform)
        reasons += not_needed(spec, packages, platform)
    return tuple(reasons)


def unmet_by_lock(
    spec: EnvironmentSpec, packages: Mapping[str, LockedPackage], platform: str
) -> Iterator[str]:
    """Yield a sentence for each dependency of a spec that no locked package of a platform meets."""
    for dependency in spec.dependencies:
        package = packages.get(dependency.match.name)
        if package is None:
            if dependency.selector is None and dependency.match.name != "*":
                yield f"{platform}: {dependency.text} (line {dependency.line}) is not locked"
        elif not _admits(dependency, package):
            locked = f"{package.name} {package.version} {package.build_string}"
            yield (
                f"{platform}: {dependency.text} (line {dependency.line}) is not met by {locked} "
                f"of {package.channel}"
            )


def _admits(dependency: CondaDependency, package: LockedPackage) -> bool:
    try:
        return dependency.match.admits(
            name=package.name,
            version=package.version,
            build=package.build_string,
            channel=package.channel_url,
        )
    except ValueError:
        return False  # a version that is none meets nothing


def _identity(lock: CondaLock, spec: EnvironmentSpec, resolved: ResolvedSpec) -> Iterator[str]:
    notes = notes_of(lock)
    if not notes.content_hash:
        yield "the lock does not say which content of the spec it was made from"
    elif notes.content_hash != content_hash(spec):
        yield "the spec has changed since it was locked"
    version = resolved.entry.version if resolved.entry else ""
    if version and notes.version != version:
        yield f"it was made for version {notes.version or 'unknown'}; the registry has {version}"


def _machine(
    lock: CondaLock, spec: EnvironmentSpec, resolved: ResolvedSpec, platform: str
) -> Iterator[str]:
    solved_for = notes_of(lock).virtual_packages.get(platform)
    if solved_for is None or resolved.entry is None:
        return
    wanted = virtual_packages(platform, spec, resolved.entry.virtual_packages)
    for name in sorted({*solved_for, *wanted}):
        if solved_for.get(name) != wanted.get(name):
            had, has = solved_for.get(name, "none"), wanted.get(name, "none")
            yield f"{platform}: it was solved for {name} {had}; the registry has {has}"


def _incomplete(packages: Mapping[str, LockedPackage], platform: str) -> Iterator[str]:
    for package in packages.values():
        for name, constraint in package.dependencies.items():
            if name.startswith("__"):
                continue
            found = packages.get(name)
            if found is None:
                yield f"{platform}: {package.name} needs {name}, which is not locked"
            elif not _holds(constraint, found.version):
                yield (
                    f"{platform}: {package.name} needs {name} {constraint[:_SHOWN_CHARS]}, "
                    f"and {found.version} is locked"
                )


def _holds(constraint: str, version: str) -> bool:
    """Say whether a version fulfils a constraint; one that cannot be read holds for none."""
    if constraint in {"", "*"}:
        return True
    try:
        return parse_constraint(constraint).admits(version)
    except ValueError:
        return False

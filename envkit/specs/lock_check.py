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
from envkit.specs.stale import Stale
from envkit.specs.virtual_packages import virtual_packages

_SHOWN_CHARS: Final = 120


def why_stale(
    lock: CondaLock, spec: EnvironmentSpec, resolved: ResolvedSpec, platforms: Sequence[str]
) -> tuple[str, ...]:
    """Return the sentences of `find_stale`."""
    return tuple(one.text for one in find_stale(lock, spec, resolved, platforms))


def find_stale(
    lock: CondaLock, spec: EnvironmentSpec, resolved: ResolvedSpec, platforms: Sequence[str]
) -> tuple[Stale, ...]:
    """Return each reason why the lock is not, or no longer, that of the spec.

    None: the spec is the one that was locked, each of its dependencies is met by a package of
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
            reasons.append(Stale(text=f"{platform} is not locked"))
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
) -> Iterator[Stale]:
    """Yield a reason for each dependency of a spec that no locked package of a platform meets."""
    for dependency in spec.dependencies:
        package = packages.get(dependency.match.name)
        asked = f"{platform}: {dependency.text} (line {dependency.line})"
        if package is None:
            if dependency.selector is None and dependency.match.name != "*":
                yield Stale(text=f"{asked} is not locked", spec_line=dependency.line)
        elif not _admits(dependency, package):
            locked = f"{package.name} {package.version} {package.build_string}"
            yield Stale(
                text=f"{asked} is not met by {locked} of {package.channel}",
                spec_line=dependency.line,
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


def _identity(lock: CondaLock, spec: EnvironmentSpec, resolved: ResolvedSpec) -> Iterator[Stale]:
    notes = notes_of(lock)
    if not notes.content_hash:
        yield Stale(text="the lock does not say which content of the spec it was made from")
    elif notes.content_hash != content_hash(spec):
        yield Stale(text="the spec has changed since it was locked", spec_line=1)
    version = resolved.entry.version if resolved.entry else ""
    if version and notes.version != version:
        made_for = notes.version or "unknown"
        yield Stale(text=f"it was made for version {made_for}; the registry has {version}")


def _machine(
    lock: CondaLock, spec: EnvironmentSpec, resolved: ResolvedSpec, platform: str
) -> Iterator[Stale]:
    solved_for = notes_of(lock).virtual_packages.get(platform)
    if solved_for is None or resolved.entry is None:
        return
    wanted = virtual_packages(platform, spec, resolved.entry.virtual_packages)
    for name in sorted({*solved_for, *wanted}):
        if solved_for.get(name) != wanted.get(name):
            had, has = solved_for.get(name, "none"), wanted.get(name, "none")
            said = f"{platform}: it was solved for {name} {had}; the registry has {has}"
            yield Stale(text=said)


def _incomplete(packages: Mapping[str, LockedPackage], platform: str) -> Iterator[Stale]:
    for package in packages.values():
        for name, constraint in package.dependencies.items():
            if name.startswith("__"):
                continue
            found = packages.get(name)
            said = ""
            if found is None:
                said = f"{package.name} needs {name}, which is not locked"
            elif not _holds(constraint, found.version):
                needed = f"{package.name} needs {name} {constraint[:_SHOWN_CHARS]}"
                said = f"{needed}, and {found.version} is locked"
            if said:
                named = package.name
                yield Stale(text=f"{platform}: {said}", package=named, platform=platform)


def _holds(constraint: str, version: str) -> bool:
    """Say whether a version fulfils a constraint; one that cannot be read holds for none."""
    if constraint in {"", "*"}:
        return True
    try:
        return parse_constraint(constraint).admits(version)
    except ValueError:
        return False

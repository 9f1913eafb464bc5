"""The spec and the lock of an environment as facts, for the platform that the environment is on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, TypeVar

import msgspec

from envkit.errors import UsageError
from envkit.model.conda_lock import LockedPackage
from envkit.model.distribution_name import canonical_name
from envkit.model.environment_spec import EnvironmentSpec
from envkit.model.facts import (
    CondaFacts,
    CondaPackage,
    ContractFacts,
    PipDistribution,
    RequestFacts,
    SpecDependency,
    SpecRequirement,
    SpecVariable,
)
from envkit.model.observed import Absent, Known, NotApplicable, Observed, Unreadable, value_of
from envkit.sources.conda_channel import channel_of
from envkit.sources.redacted import clipped, escape_control
from envkit.workflows.conda_platform import host_platform, platform_of
from envkit.workflows.contract import Named, NamedLock, NamedSpec

T = TypeVar("T")

NONE_NAMED: Final = NotApplicable(reason="neither a spec nor a lock was named")
NO_SPEC: Final = NotApplicable(reason="no spec was named")
MAX_CHARS: Final = 300
#: conda's own limit is none; a spec with more has been made by a program, to do harm.
MAX_VARIABLES: Final = 200


def asked_facts(request: RequestFacts, named: Named) -> RequestFacts:
    """Add to a request which spec and lock the environment is judged by, and how strictly."""
    spec, lock = named.spec, named.lock
    failed = _failed(named)
    needed = request.needs_gpu
    if spec is not None and spec.needs_gpu and not value_of(needed):
        needed = Known(value=True, source=f"spec {spec.reference}")
    return msgspec.structs.replace(
        request,
        spec=Known(value=_shown(spec.reference), source=spec.source) if spec else failed or NO_SPEC,
        lock=Known(value=_shown(lock.path), source=lock.source) if lock else failed or NONE_NAMED,
        strict=_strict(named),
        needs_gpu=needed,
    )


def contract_facts(named: Named, conda: CondaFacts, environ: Mapping[str, str]) -> ContractFacts:
    """Return what the environment is to be.

    Args:
        named: spec and lock that were found.
        conda: the packages of the environment: they say which platform it is for.
        environ: variables of this process.

    Raises:
        UsageError: the lock that the user named has nothing for the platform.

    """
    if not named.anything:
        return ContractFacts(**dict.fromkeys(ContractFacts.__struct_fields__, NONE_NAMED))
    installed = conda.packages.value if isinstance(conda.packages, Known) else ()
    platform = platform_of(installed) or host_platform()
    spec, lock = named.spec, named.lock
    on_platform = spec.spec.on(platform) if spec is not None else None
    return ContractFacts(
        platform=Known(value=platform, source="packages of the environment, else the machine"),
        packages=_packages(named, platform),
        distributions=_distributions(named, platform),
        lock_sha256=Known(value=lock.sha256, source=lock.source) if lock else _no_lock(named),
        created_from=named.origin,
        dependencies=_of_spec(named, on_platform, _dependencies),
        requirements=_of_spec(named, on_platform, _requirements),
        channels=_of_spec(named, on_platform, _channels),
        variables=_variables(named, environ),
        stale=_stale(spec, lock, platform),
    )


def _strict(named: Named) -> Observed[bool]:
    if named.lock is None:
        return _failed(named) or NONE_NAMED
    return Known(value=bool(named.strict), source=named.strict or "neither --lock nor --strict")


def _failed(named: Named) -> Unreadable | None:
    if not named.failures:
        return None
    return Unreadable(reason=_shown(named.failures[0]), source="what the environment names")


def _no_lock(named: Named) -> Absent | Unreadable:
    if named.failures:
        return Unreadable(reason=_shown(named.failures[0]), source="what the environment names")
    reference = named.spec.reference if named.spec else "the spec"
    return Absent(source="files beside the spec", reason=f"{_shown(reference)} has no lock")


def _of_spec(
    named: Named, spec: EnvironmentSpec | None, read: Callable[[EnvironmentSpec], Iterator[T]]
) -> Observed[tuple[T, ...]]:
    if named.spec is None or spec is None:
        return _failed(named) or NO_SPEC
    return Known(value=tuple(read(spec)), source=_shown(named.spec.reference))


# -- the lock -----------------------------------------------------------------------------------


def _packages(named: Named, platform: str) -> Observed[tuple[CondaPackage, ...]]:
    if named.lock is None:
        return _no_lock(named)
    locked = [one for one in _locked(named.lock, platform) if one.manager == "conda"]
    if not locked:
        if named.strict in {"--lock", "--strict"}:
            message = f"{named.lock.path} has no packages for {platform}."
            step = f"Lock it for this platform too: envkit lock SPEC --platform {platform}"
            raise UsageError(message, next_step=step)
        reason = f"the lock has no packages for {platform}"
        return Absent(source=_shown(named.lock.path), reason=reason)
    found = tuple(_package(one) for one in sorted(locked, key=lambda one: one.name))
    return Known(value=found, source=_shown(named.lock.path))


def _distributions(named: Named, platform: str) -> Observed[tuple[PipDistribution, ...]]:
    if named.lock is None:
        return _no_lock(named)
    locked = [one for one in _locked(named.lock, platform) if one.manager == "pip"]
    found = tuple(
        PipDistribution(name=_shown(canonical_name(one.name)), version=_shown(one.version))
        for one in sorted(locked, key=lambda one: one.name)
    )
    return Known(value=found, source=_shown(named.lock.path))


def _locked(lock: NamedLock, platform: str) -> tuple[LockedPackage, ...]:
    if lock.lock is not None:
        return lock.lock.packages(platform)
    return tuple(one for one in lock.explicit if one.platform in {platform, "noarch"})


def _package(one: LockedPackage) -> CondaPackage:
    return CondaPackage(
        name=clipped(one.name, MAX_CHARS),
        version=clipped(one.version, MAX_CHARS),
        build=clipped(one.build_string, MAX_CHARS),
        channel=channel_of(one.url),
        subdir=one.subdir,
        md5=one.hash.md5 or "",
        sha256=one.hash.sha256 or "",
    )


# -- the spec -----------------------------------------------------------------------------------


def _dependencies(spec: EnvironmentSpec) -> Iterator[SpecDependency]:
    for one in spec.dependencies:
        match = one.match
        if match.name == "*" or match.name.startswith("__"):
            continue  # of nothing in particular, or of the machine
        yield SpecDependency(
            name=_shown(match.name),
            version=_shown(match.version.text) if match.version else "",
            build=_shown(match.build or ""),
            channel=_shown(match.channel or ""),
        )


def _channels(spec: EnvironmentSpec) -> Iterator[str]:
    yield from (_shown(one.text) for one in spec.channels)


def _requirements(spec: EnvironmentSpec) -> Iterator[SpecRequirement]:
    for one in spec.pip:
        if one.name is not None and one.kind in {"named", "url"}:
            yield SpecRequirement(
                name=_shown(one.name),
                version=_shown(one.specifier) if one.kind == "named" else "",
            )


def _variables(named: Named, environ: Mapping[str, str]) -> Observed[tuple[SpecVariable, ...]]:
    wanted: Iterable[tuple[str, str]]
    if named.spec is not None:
        wanted = [(one.name, one.text) for one in named.spec.spec.variables]
        source = named.spec.reference
    elif named.lock is not None and named.lock.lock is not None:
        from envkit.specs.lock_metadata import notes_of  # noqa: PLC0415 (only for a lock)

        wanted = notes_of(named.lock.lock).variables.items()
        source = named.lock.path
    else:
        return _failed(named) or NO_SPEC
    found = tuple(_variable(name, text, named, environ) for name, text in wanted)
    return Known(value=found[:MAX_VARIABLES], source=_shown(source))


def _variable(name: str, wanted: str, named: Named, environ: Mapping[str, str]) -> SpecVariable:
    current = environ.get(name)
    if current == wanted:
        return SpecVariable(name=_shown(name), wanted=_shown(wanted), state="in_effect")
    if not named.is_active and named.activation.get(name) == wanted:
        return SpecVariable(name=_shown(name), wanted=_shown(wanted), state="on_activation")
    state = SpecVariable(name=_shown(name), wanted=_shown(wanted), state="missing")
    return state if current is None else msgspec.structs.replace(state, state="different")


def _stale(
    spec: NamedSpec | None, lock: NamedLock | None, platform: str
) -> Observed[tuple[str, ...]]:
    if spec is None:
        return NO_SPEC
    if lock is None or lock.lock is None:
        return NotApplicable(reason="there is no conda-lock.yml to compare with the spec")
    from envkit.specs.lock_check import unmet_by_lock, why_stale  # noqa: PLC0415 (only here)
    from envkit.specs.lock_metadata import notes_of  # noqa: PLC0415
    from envkit.specs.resolve import ResolvedSpec  # noqa: PLC0415

    if notes_of(lock.lock).content_hash:
        resolved = ResolvedSpec(
            asked=spec.reference, path=spec.lock_path, lock_path=spec.lock_path, entry=spec.entry
        )
        reasons = why_stale(lock.lock, spec.spec, resolved, (platform,))
    else:  # conda-lock's own: it does not say which content it was made from
        packages = {one.name: one for one in lock.lock.packages(platform)}
        unmet = unmet_by_lock(spec.spec.on(platform), packages, platform)
        reasons = tuple(one.text for one in unmet)
    return Known(
        value=tuple(_shown(one) for one in reasons[:50]), source=f"{_shown(lock.path)} and its spec"
    )


def _shown(text: str) -> str:
    return clipped(escape_control(text), MAX_CHARS)

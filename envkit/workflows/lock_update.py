"""`envkit lock --update NAME`: lock a spec of the registry again, as its next version."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from envkit.errors import InputError, UsageError
from envkit.model.conda_lock import CondaLock
from envkit.model.documents import Lock, LockedSpec, PackageChange
from envkit.specs.content_hash import content_hash
from envkit.specs.environment_yml import read_spec, read_spec_file
from envkit.specs.lock_changes import changes_between
from envkit.specs.locking import Order, lock_bytes, lock_spec, with_notes
from envkit.specs.next_version import (
    level_of,
    raised,
    raised_registry,
    raised_spec,
    registry_of_one,
)
from envkit.specs.registry import REGISTRY_FILE, Entry, Registry, read_registry
from envkit.specs.resolve import ResolvedSpec, resolve_spec
from envkit.specs.solver.outcome import Outcome
from envkit.specs.solvers import choose_solver
from envkit.workflows.lock import LockRequest, OnProgress, read_lock, refuse_published
from envkit.workflows.save import write_atomically


class _Update(msgspec.Struct, frozen=True, kw_only=True):
    """What is known before the version is raised."""

    resolved: ResolvedSpec
    registry: Registry
    name: str
    entry: Entry
    order: Order
    old: CondaLock


def update(request: LockRequest, variables: Mapping[str, str], tell: OnProgress) -> Lock:
    """Solve a spec of the registry again and publish the result as its next version.

    The number raised follows from what changed; without a change nothing is written. The archive
    comes first, so that a version that is named anywhere is there.

    Raises:
        UsageError: not a spec of a registry that can be written.
        InputError: a file cannot be read, or there is no lock to compare with.
        CannotCheckError: no network, or no solver.

    """
    planned = _plan(request, variables)
    tell(0, 1, f"{planned.name} ({planned.order.solver.name})")
    made = lock_spec(planned.order, variables)
    tell(1, 1, "done")
    file = str(planned.resolved.lock_path)
    if isinstance(made, Outcome):
        reasons = tuple(made.message.splitlines())
        one = LockedSpec(
            spec=planned.name, file=file, packages=0, status="unsolvable", reasons=reasons
        )
        return Lock(locks=(one,))
    changes = changes_between(planned.old, made)
    now = content_hash(read_spec(planned.order.content, origin=planned.name))
    if not changes and now == planned.entry.content_hash:
        count = len(made.package)
        one = LockedSpec(spec=planned.name, file=file, packages=count, status="fresh")
        return Lock(locks=(one,))
    return Lock(locks=(_publish(planned, made, changes),))


def _plan(request: LockRequest, variables: Mapping[str, str]) -> _Update:
    (asked,) = request.specs
    resolved = resolve_spec(asked)
    refuse_published(resolved)
    registry, name, entry = resolved.registry, resolved.name, resolved.entry
    if registry is None or name is None or entry is None:
        message = f"{asked} is in no registry: it has no version to raise."
        raise UsageError(message, next_step=f"envkit lock {asked} locks it again.")
    old = read_lock(resolved.lock_path)
    if old is None:
        message = f"There is no lock of {name} to compare with."
        raise InputError(message, next_step=f"Make it first: envkit lock {asked}")
    order = Order(
        resolved=resolved,
        content=_text(resolved.path).encode(),
        platforms=request.platforms or entry.platforms,
        solver=choose_solver(request.solver, mirror=request.mirror, variables=variables),
        mirror=request.mirror,
    )
    return _Update(
        resolved=resolved, registry=registry, name=name, entry=entry, order=order, old=old
    )


def _publish(planned: _Update, made: CondaLock, changes: tuple[PackageChange, ...]) -> LockedSpec:
    name, old, registry = planned.name, planned.entry.version, planned.registry
    published = read_spec_file(registry.archived(name, old) / f"{name}.yml")
    level, why = level_of(changes, published, read_spec(planned.order.content, origin=name))
    new = raised(old, level)
    spec = raised_spec(planned.order.content.decode("utf-8-sig"), name, old, new)
    digest = content_hash(read_spec(spec.encode(), origin=name))
    table = raised_registry(_text(registry.folder / REGISTRY_FILE), name, new, digest)
    entry = msgspec.structs.replace(planned.entry, version=new, content_hash=digest)
    order = msgspec.structs.replace(
        planned.order,
        content=spec.encode(),
        resolved=msgspec.structs.replace(planned.resolved, entry=entry),
    )
    path = planned.resolved.lock_path
    lock = lock_bytes(with_notes(made, order), spec=name, lock_name=path.name)
    archive = registry.archived(name, new)
    archive.mkdir(parents=True, exist_ok=True)
    files = {path.name: lock, f"{name}.yml": spec.encode()}
    _write(archive, {**files, REGISTRY_FILE: registry_of_one(table, name).encode()})
    read_registry(archive)  # what was written there can be read
    _write(registry.folder, {**files, REGISTRY_FILE: table.encode()})
    return LockedSpec(
        spec=f"{name}@{new}",
        file=str(path),
        packages=len(made.package),
        status="locked",
        reasons=(f"{old} -> {new} ({level}): {why}",),
        changes=changes,
    )


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    for name, content in files.items():
        write_atomically(folder / name, content)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        message = f"{path} cannot be read: {error}."
        raise InputError(message, next_step="Check the path and its permissions.") from error

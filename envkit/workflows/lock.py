"""`envkit lock`: make the lock of each spec, or say whether the lock that is there still fits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from envkit.errors import InputError, UsageError
from envkit.model.conda_lock import CondaLock
from envkit.model.documents import Lock, LockedSpec, ReasonPlace
from envkit.model.lock_reading import MAX_LOCK_BYTES, read_conda_lock
from envkit.specs.environment_yml import read_spec, refuse_other_file
from envkit.specs.lock_changes import changes_between
from envkit.specs.lock_check import find_stale
from envkit.specs.locking import Order, lock_bytes, lock_spec
from envkit.specs.resolve import ResolvedSpec, is_lock_name, resolve_spec, spec_beside
from envkit.specs.solver.outcome import Outcome
from envkit.specs.solvers import Solver, choose_solver
from envkit.specs.spec_tree import MAX_BYTES
from envkit.specs.stale import Stale
from envkit.specs.virtual_packages import PLATFORMS
from envkit.workflows.places import line_of_package
from envkit.workflows.save import write_atomically

#: (done, total, name)
OnProgress = Callable[[int, int, str], None]
DEFAULT_PLATFORMS: Final = ("linux-64",)


class LockRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What the user asked for."""

    specs: tuple[str, ...]
    check: bool = False
    solver: str = "auto"
    mirror: Path | None = None
    platforms: tuple[str, ...] = ()
    """Empty: what the registry or the spec says, else linux-64."""


def lock(request: LockRequest, variables: Mapping[str, str], tell: OnProgress) -> Lock:
    """Lock each spec, or check each lock; a lock is written whole or not at all.

    Raises:
        UsageError: no such spec or platform, or a published version is to be locked again.
        InputError: a spec or a lock cannot be read.
        CannotCheckError: no network, or no solver.

    """
    _refuse_unknown(request.platforms)
    specs = _specs_of_locks(request.specs) if request.check else _without_locks(request.specs)
    found = [resolve_spec(asked) for asked in specs]
    if request.check:
        return Lock(locks=tuple(_check(resolved, request) for resolved in found))
    for resolved in found:
        refuse_published(resolved)
    if request.mirror is not None and not request.mirror.is_dir():
        message = f"--mirror {request.mirror} is no folder."
        raise UsageError(message, next_step="Give the folder that holds conda-forge/, nvidia/ ...")
    solver = choose_solver(request.solver, mirror=request.mirror, variables=variables)
    locks = []
    for number, resolved in enumerate(found):
        tell(number, len(found), f"{resolved.asked} ({solver.name})")
        locks.append(_lock(resolved, request, solver, variables))
    tell(len(found), len(found), "done")
    return Lock(locks=tuple(locks))


def exit_code(document: Lock) -> int:
    """Return 1 where a lock is stale or could not be solved, else 0."""
    return int(any(one.status in {"stale", "unsolvable"} for one in document.locks))


def read_lock(path: Path) -> CondaLock | None:
    """Return the lock in a file; None where there is no file.

    Raises:
        InputError: it cannot be read.

    """
    content = _bytes(path, MAX_LOCK_BYTES)
    return None if content is None else read_conda_lock(content, origin=str(path))


def _lock(
    resolved: ResolvedSpec, request: LockRequest, solver: Solver, variables: Mapping[str, str]
) -> LockedSpec:
    content = _spec_bytes(resolved)
    refuse_other_file(read_spec(content, origin=resolved.asked))
    order = Order(
        resolved=resolved,
        content=content,
        platforms=_platforms(resolved, content, request),
        solver=solver,
        mirror=request.mirror,
    )
    made = lock_spec(order, variables)
    path = resolved.lock_path
    if isinstance(made, Outcome):
        reasons = tuple(made.message.splitlines())
        return LockedSpec(
            spec=resolved.asked,
            file=str(path),
            packages=0,
            status="unsolvable",
            reasons=reasons,
            spec_file=_other_name(resolved),
        )
    changes = changes_between(_old(path), made)
    text = lock_bytes(made, spec=resolved.name or resolved.path.name, lock_name=path.name)
    write_atomically(path, text)
    return LockedSpec(
        spec=resolved.asked,
        file=str(path),
        packages=len(made.package),
        status="locked",
        changes=changes,
    )


def _old(path: Path) -> CondaLock | None:
    try:
        return read_lock(path)
    except InputError:
        return None  # it is about to be replaced


def _check(resolved: ResolvedSpec, request: LockRequest) -> LockedSpec:
    content = _spec_bytes(resolved)
    spec = read_spec(content, origin=resolved.asked)
    refuse_other_file(spec)
    found = read_lock(resolved.lock_path)
    if found is None:
        reasons: tuple[Stale, ...] = (Stale(text="there is no lock", spec_line=1),)
    else:
        reasons = find_stale(found, spec, resolved, _platforms(resolved, content, request))
    return LockedSpec(
        spec=resolved.asked,
        file=str(resolved.lock_path),
        packages=0 if found is None else len(found.package),
        status="stale" if reasons else "fresh",
        reasons=tuple(one.text for one in reasons),
        places=tuple(_place(one, resolved) for one in reasons),
        spec_file=_other_name(resolved),
    )


def _place(reason: Stale, resolved: ResolvedSpec) -> ReasonPlace:
    if reason.spec_line is not None:
        return ReasonPlace(file=str(resolved.path), line=reason.spec_line)
    line = line_of_package(resolved.lock_path, reason.package, reason.platform)
    return ReasonPlace(file=str(resolved.lock_path), line=line)


def _other_name(resolved: ResolvedSpec) -> str:
    path = str(resolved.path)
    return "" if path == resolved.asked else path


def _platforms(resolved: ResolvedSpec, content: bytes, request: LockRequest) -> tuple[str, ...]:
    if request.platforms:
        return tuple(dict.fromkeys(request.platforms))
    if resolved.entry is not None:
        return resolved.entry.platforms
    spec = read_spec(content, origin=resolved.asked)
    named = tuple(one.text for one in spec.platforms) or DEFAULT_PLATFORMS
    _refuse_unknown(named)
    return named


def _spec_bytes(resolved: ResolvedSpec) -> bytes:
    content = _bytes(resolved.path, MAX_BYTES)
    if content is None:
        message = f"{resolved.path} is not there."
        raise InputError(message, next_step="Install envkit again, or restore the folder.")
    return content


def _bytes(path: Path, limit_bytes: int) -> bytes | None:
    try:
        with path.open("rb") as file:
            return file.read(limit_bytes + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        message = f"{path} cannot be read: {error.strerror or error}."
        raise InputError(message, next_step="Check the path and its permissions.") from error


def _without_locks(specs: tuple[str, ...]) -> tuple[str, ...]:
    """Leave out locks: they match the `*.yml` of a folder of specs too."""
    kept = tuple(one for one in specs if not is_lock_name(one))
    if not kept:
        message = f"{specs[0]} is a lock."
        raise UsageError(message, next_step="Give the spec it was made from.")
    return kept


def _specs_of_locks(specs: tuple[str, ...]) -> tuple[str, ...]:
    """Put the spec beside it in place of each lock: a commit may hold the lock alone."""
    beside = [spec_beside(Path(one)) if is_lock_name(one) else Path(one) for one in specs]
    named = [
        one if path == Path(one) else str(path)
        for one, path in zip(specs, beside, strict=True)
        if path is not None
    ]
    return _without_locks(tuple(dict.fromkeys(named)) or specs)


def _refuse_unknown(platforms: tuple[str, ...]) -> None:
    for platform in platforms:
        if platform not in PLATFORMS:
            message = f"There is no platform {platform!r}."
            raise UsageError(message, next_step=f"Platforms are {', '.join(PLATFORMS)}.")


def refuse_published(resolved: ResolvedSpec) -> None:
    """Keep published versions, and what was installed with envkit, as they are."""
    folder = resolved.path.resolve().parent
    if resolved.registry is not None and ("archive" in folder.parts[-3:] or folder.name[0] == "_"):
        message = f"{resolved.reference} is published: its lock never changes."
        step = f"Copy {resolved.path.name} to a folder of yours and lock that, or lock in a clone."
        raise UsageError(message, next_step=step)

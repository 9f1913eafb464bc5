"""Making the lock of a spec: solved by conda-lock, checked, and written in one canonical form."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from envkit.errors import InputError, InternalError
from envkit.model.conda_lock import CondaLock
from envkit.model.environment_spec import EnvironmentSpec
from envkit.model.lock_reading import read_conda_lock
from envkit.model.lock_writing import write_conda_lock
from envkit.specs.conda_lock_run import Job, run_conda_lock
from envkit.specs.content_hash import content_hash
from envkit.specs.environment_yml import read_spec
from envkit.specs.lock_metadata import Notes
from envkit.specs.resolve import ResolvedSpec
from envkit.specs.solver.outcome import Outcome
from envkit.specs.solvers import Solver
from envkit.specs.virtual_packages import virtual_packages

_HEADER: Final = """\
Every package of an environment with its hash, in conda-lock's format. Written by envkit from
{spec}; a change by hand would not be one of the environment that was solved.
  install with envkit:      envkit create {spec} -p PREFIX
  install with conda-lock:  conda-lock install -n NAME {lock}
  solve again:              envkit lock {spec}"""


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be locked, and how."""

    resolved: ResolvedSpec
    content: bytes
    """Of the spec."""
    platforms: tuple[str, ...]
    solver: Solver
    mirror: Path | None


def lock_spec(order: Order, variables: Mapping[str, str]) -> CondaLock | Outcome:
    """Return the lock of a spec, or the solver's explanation why there is none.

    Raises:
        InputError: the spec cannot be read, has a pip half, or a channel is not there.
        CannotCheckError: no network.
        InternalError: conda-lock could not be started, or gave what must not be shared.

    """
    spec = read_spec(order.content, origin=order.resolved.asked)
    _refuse_pip(spec)
    job = Job(
        spec_name=order.resolved.path.name,
        spec_content=order.content,
        virtual_packages=_machine(spec, order),
        solver=order.solver,
        mirror=order.mirror,
    )
    with tempfile.TemporaryDirectory(prefix="envkit-lock-") as folder:
        made = run_conda_lock(job, Path(folder), variables)
    if isinstance(made, Outcome):
        return made
    solved = read_conda_lock(made, origin="what conda-lock wrote")
    _refuse_local(solved, spec)
    return with_notes(solved, order)


def lock_bytes(lock: CondaLock, *, spec: str, lock_name: str) -> bytes:
    """Return the file of a lock, with what to do with it written above."""
    return write_conda_lock(lock, header=_HEADER.format(spec=spec, lock=lock_name))


def with_notes(lock: CondaLock, order: Order) -> CondaLock:
    """Return a lock that says what it was made from, and nothing of when and where."""
    resolved = order.resolved
    spec = read_spec(order.content, origin=resolved.asked)
    notes = Notes(
        spec=resolved.name or (spec.name.text if spec.name else resolved.path.stem),
        version=resolved.entry.version if resolved.entry else "",
        content_hash=content_hash(spec),
        variables={one.name: one.text for one in spec.variables},
        virtual_packages=_machine(spec, order),
    )
    metadata = msgspec.structs.replace(
        lock.metadata,
        sources=(resolved.path.name,),
        time_metadata=None,
        git_metadata=None,
        inputs_metadata=None,
        custom_metadata=notes.as_metadata(),
    )
    return msgspec.structs.replace(lock, metadata=metadata)


def _machine(spec: EnvironmentSpec, order: Order) -> dict[str, dict[str, str]]:
    entry = order.resolved.entry
    given = entry.virtual_packages if entry else None
    return {platform: virtual_packages(platform, spec, given) for platform in order.platforms}


def _refuse_pip(spec: EnvironmentSpec) -> None:
    if spec.pip:
        message = f"{spec.origin}:{spec.pip[0].line}: a pip section cannot be locked by envkit."
        step = "Ask conda for these packages; else the index of this machine would be in the lock."
        raise InputError(message, next_step=step)


def _refuse_local(lock: CondaLock, spec: EnvironmentSpec) -> None:
    """Keep addresses of this machine and credentials out of a file that is shared."""
    asked: Sequence[str] = [channel.text.rstrip("/") for channel in spec.channels]
    for package in lock.package:
        host = package.url.partition("://")[2].partition("/")[0]
        is_local = package.url.startswith("file://") and package.channel_url not in asked
        if is_local or "@" in host or package.manager != "conda":
            message = f"The solver gave {package.name} an address that must not be shared."
            step = "Remove channel aliases, mirrors and credentials from the solver's settings."
            raise InternalError(message, next_step=step)

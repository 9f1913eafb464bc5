"""What a conda environment says about itself: the lock it was made from, what activation sets."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from envkit.model.facts import InstalledFrom
from envkit.model.installed_lock import INSTALLED_FILE, LOCK_FILE, InstalledLock
from envkit.model.observed import Absent, Known, Observed, Unreadable
from envkit.sources.files import NotRead, as_state, read_bytes
from envkit.sources.redacted import clipped, escape_control, redact

#: Where `conda env config vars set` and `envkit create` keep what activation sets.
STATE_FILE: Final = "state"
#: What `envkit create` takes for a lock at most; the reader of locks checks it again.
MAX_LOCK_BYTES: Final = 32 << 20
_SOURCE: Final = f"conda-meta/{INSTALLED_FILE}"
_HASH_CHARS: Final = 64


class _State(msgspec.Struct):
    env_vars: dict[str, str] = {}


def read_origin(prefix: Path) -> tuple[Observed[InstalledFrom], bytes | None]:
    """Return what an environment was made from, and the bytes of that lock where it keeps them.

    A lock that is not the one the environment says it was made from is unreadable, not another one.
    """
    folder = prefix / "conda-meta"
    content = read_bytes(folder / INSTALLED_FILE)
    if isinstance(content, NotRead):
        return as_state(_brief(content, folder), source=_SOURCE), None
    try:
        origin = msgspec.json.decode(content, type=InstalledLock)
    except (msgspec.MsgspecError, RecursionError) as error:
        said = clipped(escape_control(str(error)), 300)
        return Unreadable(reason=f"it cannot be read: {said}", source=_SOURCE), None
    lock = read_bytes(folder / LOCK_FILE, limit_bytes=MAX_LOCK_BYTES)
    if isinstance(lock, NotRead):
        reason = f"its lock {LOCK_FILE}: {_brief(lock, folder).reason}"
        return Unreadable(reason=reason, source=_SOURCE), None
    if hashlib.sha256(lock).hexdigest() != origin.lock_sha256:
        reason = f"{LOCK_FILE} beside it is not the lock that it names"
        return Unreadable(reason=reason, source=_SOURCE), None
    reference = f"{origin.spec}@{origin.spec_version}" if origin.spec_version else origin.spec
    found = InstalledFrom(
        spec=clipped(escape_control(reference), 100), sha256=origin.lock_sha256[:_HASH_CHARS]
    )
    return Known(value=found, source=_SOURCE), lock


def nothing_said() -> Observed[InstalledFrom]:
    """Return the state of an origin that was not looked for."""
    return Absent(source=_SOURCE)


def read_activation(prefix: Path, *, homes: Sequence[str] = ()) -> dict[str, str]:
    """Return the variables that conda sets when the environment is activated; empty for none."""
    content = read_bytes(prefix / "conda-meta" / STATE_FILE)
    if isinstance(content, NotRead):
        return {}
    try:
        state = msgspec.json.decode(content, type=_State)
    except (msgspec.MsgspecError, RecursionError):
        return {}
    return {redact(name, homes=homes): value for name, value in state.env_vars.items()}


def _brief(failure: NotRead, folder: Path) -> NotRead:
    reason = failure.reason.replace(f"{folder}/", "")
    return NotRead(kind=failure.kind, reason=reason)

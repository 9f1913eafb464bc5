"""Installing the packages of a lock: what the child that does it is told, and what it answers."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal

import msgspec

import envkit
from envkit import process
from envkit.errors import CannotCheckError, InternalError, RefusedError
from envkit.model.conda_lock import LockedPackage

#: 4 GiB of packages over a slow line.
TIMEOUT_S: Final = 12 * 3600.0
_START: Final = """\
import sys
sys.path[:] = [{root!r}, *(one for one in sys.path if one)]
from envkit.specs.install import main
main()
"""


class Installation(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be installed, and where."""

    packages: tuple[LockedPackage, ...]
    platform: str
    folder: str
    """Where the files are written."""
    prefix: str
    """Where they will be: what is written into scripts and libraries."""
    copies: dict[str, str]
    """Path of the file by the address of the package; those that are not in it are downloaded."""
    downloads: str
    """Where downloaded files are kept for the next time."""
    cache: str
    """Where packages are unpacked, by this run alone."""
    scratch: str
    """For what py-rattler puts aside; removed by the caller, also after an interrupt."""


class Linked(msgspec.Struct, frozen=True, kw_only=True, tag="linked"):
    """How far the child is."""

    done: int
    """Packages linked."""
    name: str
    """What it does now."""


class Ended(msgspec.Struct, frozen=True, kw_only=True, tag="ended"):
    """How it ended."""

    how: Literal["installed", "other_hash", "no_network", "unsafe", "failed"]
    message: str = ""


_ANSWER: Final = msgspec.json.Decoder(Linked | Ended)


def install_packages(wanted: Installation, tell: Callable[[int, int, str], None]) -> None:
    """Link every package; runs none of their scripts.

    Raises:
        RefusedError: the hash of a download is not the lock's, a package would write outside of the
            environment, or a file cannot be linked.
        CannotCheckError: no network.
        InternalError: the child could not be started.

    """
    ended: list[Ended] = []

    def take(line: bytes) -> bool:
        try:
            answer = _ANSWER.decode(line)
        except msgspec.MsgspecError:
            return True  # not ours: something that a library printed
        if isinstance(answer, Ended):
            ended.append(answer)
        else:
            tell(answer.done, len(wanted.packages), answer.name)
        return True

    root = str(Path(envkit.__file__).resolve().parent.parent)
    done = process.stream(
        [sys.executable, "-c", _START.format(root=root)],
        on_line=take,
        timeout_s=TIMEOUT_S,
        stdin=msgspec.json.encode(wanted),
        env={**os.environ, **dict.fromkeys(("TMPDIR", "TEMP", "TMP"), wanted.scratch)},
    )
    if isinstance(done, process.NotStarted):
        raise InternalError(done.reason, next_step="Check the Python that envkit runs in.")
    _conclude(ended[-1] if ended else _died(done))


def downloads_folder() -> str:
    """Return the folder where downloaded packages are kept, each under its SHA-256."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return str(Path(base) / "envkit" / "packages")


def _died(done: process.Completed) -> Ended:
    lines = [line for line in done.stderr.decode("utf-8", "replace").splitlines() if line.strip()]
    panic = [line for line in lines if "panicked" in line or line.startswith("Expected")]
    said = "; ".join(panic[:2]) or (lines[-1] if lines else "")
    how = done.signal or f"exit code {done.returncode}"
    return Ended(how="failed", message=f"py-rattler ended with {how}: {said}")


def _conclude(ended: Ended) -> None:
    if ended.how == "other_hash":
        message = f"A download is not the file that was locked: {ended.message}."
        step = "Try again. If it stays so, the lock is wrong: envkit lock SPEC."
        raise RefusedError(message, next_step=step)
    if ended.how == "no_network":
        message = f"The packages cannot be downloaded: {ended.message}."
        step = "Connect to the network, or give the package files with --mirror DIR."
        raise CannotCheckError(message, next_step=step)
    if ended.how == "unsafe":
        message = f"A package would write outside of what is its own: {ended.message}."
        step = "Nothing was left behind. Do not use the package; tell its channel."
        raise RefusedError(message, next_step=step)
    if ended.how == "failed":
        message = f"The packages cannot be installed: {ended.message}."
        step = "Nothing was left behind. Check space and permissions, then try again."
        raise RefusedError(message, next_step=step)

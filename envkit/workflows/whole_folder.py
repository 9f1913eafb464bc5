"""How a new folder appears: written under a hidden name beside it, and renamed when it is whole."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path

from envkit.errors import UsageError


@contextmanager
def whole_or_nothing(target: Path, *, next_step: str) -> Iterator[Path]:
    """Give a hidden folder beside the target that becomes the target, unless anything is raised.

    Args:
        target: absolute; not there, or an empty folder when the block ends.
        next_step: what the user can do where the folder cannot be made.

    Raises:
        UsageError: it cannot be made.

    """
    missing = _missing_parents(target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=f".{target.name}.envkit-", dir=target.parent))
    except OSError as error:
        _remove_empty(missing)
        raise not_made(target, error, next_step) from error
    try:
        yield folder
        mask = os.umask(0)
        os.umask(mask)
        folder.chmod(0o777 & ~mask)
        try:
            folder.replace(target)  # also over an empty folder
        except OSError as error:
            raise not_made(target, error, next_step) from error
    except BaseException:  # Ctrl-C too: nothing half is left
        remove(folder)
        _remove_empty(missing)
        raise


def remove(folder: Path) -> None:
    """Remove a folder with all that is in it, as far as that is possible."""
    # Threads of the installer may still be writing when we are interrupted.
    for _ in range(3):
        shutil.rmtree(folder, ignore_errors=True)


def not_made(target: Path, error: OSError, next_step: str) -> UsageError:
    """Return the error that says that a folder cannot be made."""
    message = f"{target} cannot be made: {error.strerror or error}."
    return UsageError(message, next_step=next_step)


def absolute(path: Path) -> Path:
    """Return the path from the root; links stay, so that it is the user's path that is written."""
    return Path(os.path.abspath(path))  # noqa: PTH100


def _missing_parents(target: Path) -> tuple[Path, ...]:
    """Return the folders above a target that are not there yet, the innermost first."""
    return tuple(takewhile(lambda folder: not os.path.lexists(folder), target.parents))


def _remove_empty(folders: tuple[Path, ...]) -> None:
    # One that somebody else has put something into meanwhile stays, and so do those above it.
    with contextlib.suppress(OSError):
        for folder in folders:
            if os.path.lexists(folder):
                folder.rmdir()

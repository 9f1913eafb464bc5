"""Writing a build folder whole, without taking anything away that envkit did not write."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import msgspec

from envkit.errors import InputError, UsageError
from envkit.model import codec
from envkit.model.image import IMAGE_FILE, Image
from envkit.workflows.whole_folder import absolute, not_made, remove, whole_or_nothing

_STEP: Final = "Choose another folder with -o."
_MOST_BYTES: Final = 128 << 20
_SHOWN: Final = 5


def write_image_folder(asked: Path, files: Mapping[str, bytes], *, force: bool) -> None:
    """Write the files to a folder, which has the old content or the new one and never a mixture.

    Args:
        asked: not there, empty, or written by envkit before.
        files: content by path in the folder.
        force: write although there are other files, or changed ones. Changed files of ours are
            written anew; files that are not ours stay.

    Raises:
        UsageError: there are files that are not envkit's, or the folder cannot be made.

    """
    # A link to a folder stays a link.
    folder = absolute(asked.resolve() if asked.is_symlink() else asked)
    theirs = _not_ours(folder)
    if theirs and not force:
        shown = ", ".join(theirs[:_SHOWN]) + (" ..." if len(theirs) > _SHOWN else "")
        message = f"{asked} holds what envkit did not write there: {shown}."
        step = "Choose another folder, or --force: files of others stay, envkit's are replaced."
        raise UsageError(message, next_step=step)
    with ExitStack() as stack, whole_or_nothing(folder, next_step=_STEP) as new:
        try:
            _write(new, files)
            stack.enter_context(_set_aside(folder, theirs))
        except OSError as error:
            raise not_made(asked, error, _STEP) from error


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    for name, content in sorted(files.items()):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


@contextmanager
def _set_aside(folder: Path, theirs: tuple[str, ...]) -> Iterator[None]:
    """Give way to a new folder; what is not ours is put back into it, or all of it if it fails."""
    if not folder.is_dir() or not any(folder.iterdir()):
        yield
        return
    aside = Path(tempfile.mkdtemp(prefix=f".{folder.name}.envkit-old-", dir=folder.parent))
    folder.replace(aside)
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):
            aside.replace(folder)
        raise
    for name in theirs:
        kept = folder / name
        if not os.path.lexists(kept):
            kept.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(aside / name, kept)
    remove(aside)


def _not_ours(folder: Path) -> tuple[str, ...]:
    """Return the files of a folder that envkit did not write, or that were changed since."""
    if not os.path.lexists(folder):
        return ()
    if not folder.is_dir():
        message = f"{folder} is there already and is no folder."
        raise UsageError(message, next_step=_STEP)
    ours = _written(folder)
    if ours is None:
        return tuple(sorted(path.name for path in folder.iterdir()))
    return tuple(sorted(name for name in _files(folder) if not _is_ours(folder, name, ours)))


def _is_ours(folder: Path, name: str, ours: Mapping[str, str]) -> bool:
    if name == IMAGE_FILE:
        return True
    path = folder / name
    if name not in ours or path.is_symlink() or path.stat().st_size > _MOST_BYTES:
        return False
    return hashlib.sha256(path.read_bytes()).hexdigest() == ours[name]


def _files(folder: Path) -> Iterator[str]:
    for place, folders, names in os.walk(folder):
        links = [name for name in folders if (Path(place) / name).is_symlink()]
        empty = not folders and not names and Path(place) != folder
        for path in [*(Path(place) / name for name in (*names, *links)), *([Path(place)] * empty)]:
            yield path.relative_to(folder).as_posix()


def _written(folder: Path) -> Mapping[str, str] | None:
    """Return the hashes of the files that envkit wrote; None: it wrote none here."""
    path = folder / IMAGE_FILE
    if path.is_symlink() or not path.is_file():
        return None
    try:
        return codec.decode(path.read_bytes(), Image, origin=IMAGE_FILE).files
    except (InputError, OSError, msgspec.MsgspecError):
        return None

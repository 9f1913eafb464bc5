"""Writing a build folder whole, without taking anything away that envkit did not write."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Final

import msgspec

from envkit.errors import InputError, UsageError
from envkit.model import codec
from envkit.model.image import IMAGE_FILE, Image
from envkit.workflows.config import current_folder
from envkit.workflows.whole_folder import absolute, not_made, remove, whole_or_nothing

_STEP: Final = "Choose another folder with -o."
_MOST_BYTES: Final = 128 << 20
_SHOWN: Final = 5
#: Compose reads them beside compose.yaml. They are the user's and stay.
_USERS: Final = frozenset({".env", "compose.override.yaml"})


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
    if not force:
        _refuse(asked, list(islice(_in_the_way(folder), _SHOWN + 1)))
    _refuse_current(asked, folder)
    theirs = tuple(_not_ours(folder))
    _refuse_kinds(asked, theirs, files)
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


def _refuse(asked: Path, names: list[str]) -> None:
    if names:
        shown = ", ".join(names[:_SHOWN]) + (" ..." if len(names) > _SHOWN else "")
        message = f"{asked} holds what envkit did not write there: {shown}."
        step = "Choose another folder, or --force: files of others stay, envkit's are replaced."
        raise UsageError(message, next_step=step)


def _refuse_current(asked: Path, folder: Path) -> None:
    """Refuse a folder that somebody stands in: it is replaced, and their shell would be nowhere."""
    here = current_folder()
    if folder.exists() and any(folder.samefile(one) for one in (here, *here.parents)):
        message = f"{asked} is the current folder or one above it, and it is replaced as a whole."
        step = "Go to the folder above first (cd ..), and name it from there."
        raise UsageError(message, next_step=step)


def _refuse_kinds(asked: Path, theirs: tuple[str, ...], files: Mapping[str, bytes]) -> None:
    """Refuse a file where envkit has a folder, and a folder where it has a file."""
    folders = {str(above) for name in files for above in PurePosixPath(name).parents}
    for name in theirs:
        above = {str(one) for one in PurePosixPath(name).parents}
        if name in folders or above & files.keys():
            message = f"{asked}: {name} is where envkit writes something of another kind."
            raise UsageError(message, next_step="Move it away, or choose another folder with -o.")


def _in_the_way(folder: Path) -> Iterator[str]:
    """Yield what is not ours, but for the files that are the user's by their name."""
    return (name for name in _not_ours(folder) if name not in _USERS)


def _not_ours(folder: Path) -> Iterator[str]:
    """Yield the files of a folder that envkit did not write, or that were changed since."""
    if not os.path.lexists(folder):
        return iter(())
    if not folder.is_dir():
        message = f"{folder} is there already and is no folder."
        raise UsageError(message, next_step=_STEP)
    ours = _written(folder)
    return (name for name in _files(folder) if not _is_ours(folder, name, ours))


def _is_ours(folder: Path, name: str, ours: Mapping[str, str]) -> bool:
    if name == IMAGE_FILE:
        return bool(ours)
    path = folder / name
    if name not in ours or path.is_symlink() or not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            return hashlib.sha256(file.read(_MOST_BYTES)).hexdigest() == ours[name]
    except OSError:
        return False  # what cannot be read cannot be told to be ours


def _files(folder: Path) -> Iterator[str]:
    for place, folders, names in os.walk(folder):
        folders.sort()
        links = [name for name in folders if (Path(place) / name).is_symlink()]
        empty = not folders and not names and Path(place) != folder
        for path in [
            *(Path(place) / name for name in sorted((*names, *links))),
            *([Path(place)] * empty),
        ]:
            yield path.relative_to(folder).as_posix()


def _written(folder: Path) -> Mapping[str, str]:
    """Return the hashes of the files that envkit wrote; empty: it wrote none here."""
    path = folder / IMAGE_FILE
    if path.is_symlink() or not path.is_file():
        return {}
    try:
        return codec.decode(path.read_bytes(), Image, origin=IMAGE_FILE).files
    except (InputError, OSError, msgspec.MsgspecError):
        return {}

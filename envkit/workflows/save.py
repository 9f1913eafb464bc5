"""Where a report is saved, and how: whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from envkit.errors import EnvkitError, UsageError
from envkit.model import codec
from envkit.model.observed import value_of
from envkit.model.report import Report

#: File name in a folder for a machine without a label. Host names are personal and never used.
DEFAULT_LABEL: Final = "machine"
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9._+-]+")
#: Names that Windows keeps for devices.
_DEVICES: Final = re.compile(r"(?i)(con|prn|aux|nul|com\d|lpt\d)(\..*)?")
_LONGEST_NAME: Final = 100
_LONGEST_SHOWN: Final = 200
#: How long a pipe may be without a reader.
READER_S: Final = 5.0


class Destination(msgspec.Struct, frozen=True, kw_only=True):
    """A file to be written, checked before the work that fills it."""

    path: Path
    guarded: bool
    """The name was not chosen by the user: another machine's file there must stay."""


def choose_destination(
    output: str, label: str | None, *, inputs: Iterable[Path | str] = ()
) -> Destination:
    """Turn `-o` into a file: itself, or `LABEL.json` in a folder (made when it ends in `/`).

    Raises:
        UsageError: it cannot be written there, or is one of the inputs.

    """
    if output in {"", "-"}:
        message = f"-o names a file or a folder, and `{output}` is neither."
        raise UsageError(message, next_step="--json writes the report to standard output.")
    path = Path(output)
    is_folder = names_folder(output)
    if is_folder:
        _make_folder(path)
        path = path / f"{file_stem(label or DEFAULT_LABEL)}.json"
    keep_inputs(str(path), inputs)
    _check_writable(path)
    return Destination(path=path, guarded=is_folder and label is None)


def keep_inputs(output: str | None, inputs: Iterable[Path | str]) -> None:
    """Refuse an `-o` that names a file which is read: it would be lost, a private key for ever.

    Args:
        output: what is to be written.
        inputs: files, there or still to be made by the same command, and folders of reports.

    Raises:
        UsageError: it does, by this name or by another.

    """
    for name in inputs if output is not None else ():
        if name != "-" and _is_read(Path(str(output)), Path(name)):
            message = f"-o {output} would be written over {name}, which is read."
            raise UsageError(message, next_step="Choose another name with -o.")


def names_folder(output: str) -> bool:
    """Whether `-o` names a folder: one that is there, or that is to be made."""
    return output.endswith(("/", os.sep)) or _is_folder(Path(output))


def file_stem(label: str) -> str:
    """Turn a label into a file name that is safe on every system: `lab 1/GPU` is `lab-1-GPU`."""
    stem = _NOT_IN_NAMES.sub("-", label).strip("-.")[:_LONGEST_NAME] or DEFAULT_LABEL
    return f"{stem}-" if _DEVICES.fullmatch(stem) else stem


def save_report(report: Report, text: str, destination: Destination) -> None:
    """Write the text of a report; the file is either the old one or the new one, never half.

    Raises:
        UsageError: it could not be written, or another machine's report has the default name.

    """
    if destination.guarded:
        _refuse_another_machine(report, destination.path)
    write_atomically(destination.path, text.encode())


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file through a temporary one beside it; a link stays, a device is written to."""
    try:
        if _is_special(path):
            _write_special(path, content)
            return
        _replace(_resolved(path), content)
    except (OSError, ValueError) as error:
        raise _not_writable(path, error) from error


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError) as error:  # a name that is too long, or has a NUL
        raise _not_writable(path, error) from error


def _is_read(output: Path, read: Path) -> bool:
    try:
        if read.is_dir():
            return output.is_file() and any(map(output.samefile, read.glob("*.json")))
        if read.is_file():
            return output.is_file() and output.samefile(read)
        return not output.exists() and os.path.realpath(output) == os.path.realpath(read)
    except (OSError, ValueError):  # went away meanwhile, or a name with a NUL
        return False


def _is_special(path: Path) -> bool:
    """Whether it is a device or a pipe; what /dev/stdout leads to has no path of its own."""
    return path.exists() and not stat.S_ISREG(path.stat().st_mode)


def _write_special(path: Path, content: bytes) -> None:
    """Write to a device or a pipe; a pipe that nobody reads is not waited for without end."""
    deadline_s = time.monotonic() + READER_S
    while True:
        try:
            descriptor = os.open(path, os.O_WRONLY | getattr(os, "O_NONBLOCK", 0))
            break
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            if time.monotonic() > deadline_s:
                raise OSError(errno.ENXIO, "it is a pipe that nobody reads") from error
        time.sleep(READER_S / 100)
    if hasattr(os, "set_blocking"):
        os.set_blocking(descriptor, True)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)


def _resolved(path: Path) -> Path:
    try:
        return path.resolve()
    except RuntimeError as error:  # a loop of links, before Python 3.13
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP)) from error


def _replace(path: Path, content: bytes) -> None:
    prefix = f".{path.name[:50]}."
    descriptor, name = tempfile.mkstemp(prefix=prefix, suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(_mode_for(path))
        Path(name).replace(path)
    except BaseException:  # Ctrl-C too: no leftover
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise


def _mode_for(path: Path) -> int:
    with contextlib.suppress(FileNotFoundError):
        return stat.S_IMODE(path.stat().st_mode)
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _not_writable(folder, error) from error


def _check_writable(path: Path) -> None:
    parent = path.parent
    if not _is_folder(parent):
        message = f"{path} cannot be written: {parent} is not a folder."
        step = f"Make it first (mkdir -p {parent}), or choose another place with -o."
        raise UsageError(message, next_step=step)
    try:
        if _is_special(path):
            return
        real = _resolved(path)
        # To try is the only way to know: permissions, read-only systems, quotas, /proc.
        with tempfile.NamedTemporaryFile(prefix=".envkit-", dir=real.parent):
            pass
    except (OSError, ValueError) as error:
        raise _not_writable(path, error) from error


def _not_writable(path: Path, error: OSError | ValueError) -> UsageError:
    said = error.strerror if isinstance(error, OSError) else None
    whole = str(path)
    shown = whole if len(whole) <= _LONGEST_SHOWN else f"{whole[:_LONGEST_SHOWN]}..."
    return UsageError(
        f"{shown} cannot be written: {said or error}.",
        next_step="Choose another place with -o.",
    )


def _refuse_another_machine(report: Report, path: Path) -> None:
    if not path.exists():
        return
    try:
        old = codec.decode(path.read_bytes(), Report, origin=path.name)
    except (EnvkitError, OSError):
        old = None
    if old is None or _machine(old) != _machine(report):
        message = f"{path} is there already and is not this machine's."
        raise UsageError(message, next_step="Give this machine a name of its own: --label NAME.")


def _machine(report: Report) -> tuple[object, ...]:
    facts = report.facts
    gpus = value_of(facts.gpus.devices) or ()
    host = facts.host
    return (
        *(value_of(gpu.uuid_hash) for gpu in gpus),
        value_of(host.cpu_model),
        value_of(host.memory_bytes),
    )

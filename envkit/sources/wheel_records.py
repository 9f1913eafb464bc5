"""Which files each distribution of pip put into a prefix, and their hashes, from its RECORD.

The format: https://packaging.python.org/en/latest/specifications/recording-installed-packages/
"""

from __future__ import annotations

import base64
import binascii
import csv
import os
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from envkit.sources.file_records import MAX_FILES, Recorded, RecordedFile
from envkit.sources.files import NotRead, is_folder, read_bytes
from envkit.sources.owners import MAX_RECORD_FILE_BYTES
from envkit.sources.pip_packages import Installed, list_installed

_SHA256: Final = "sha256="
_SHA256_BYTES: Final = 32


class _Line(NamedTuple):
    path: str
    """Relative to the prefix; whole where it leads out of it."""
    sha256: str
    size_bytes: int


def files_by_pip(prefix: Path, owned: Collection[str]) -> Recorded:
    """Return the files that distributions list which no package of conda brought.

    What lies outside of the prefix is left out: pip may put a file there, and it is not opened.

    Args:
        prefix: the environment.
        owned: files of conda's packages, relative to the prefix.

    """
    files: list[RecordedFile] = []
    failures: list[str] = []
    for one in list_installed(prefix, {}):
        inside = one.metadata.is_relative_to(prefix)
        if not inside or metadata_path(one, prefix) in owned or not is_folder(one.metadata):
            continue
        lines = _lines(one, prefix)
        if isinstance(lines, NotRead):
            if lines.kind == "failed":
                failures.append(f"RECORD of {one.distribution.name}: {lines.reason}")
        elif len(files) + len(lines) > MAX_FILES:
            failures.append(f"{one.distribution.name}: there are more than {MAX_FILES} files")
        else:
            files += _recorded(one.distribution.name, lines)
    return Recorded(files=tuple(files), failures=tuple(failures))


def recorded_by(one: Installed, prefix: Path) -> Iterator[str]:
    """Yield the files that a distribution lists, relative to the prefix."""
    lines = _lines(one, prefix)
    if not isinstance(lines, NotRead):
        yield from (line.path for line in lines)


def metadata_path(one: Installed, prefix: Path) -> str:
    """Return the file by which a record of conda names a distribution, relative to the prefix."""
    path = one.metadata.relative_to(prefix).as_posix()
    if not is_folder(one.metadata):
        return path
    return f"{path}/{'METADATA' if path.endswith('.dist-info') else 'PKG-INFO'}"


def _recorded(name: str, lines: list[_Line]) -> Iterator[RecordedFile]:
    for line in lines:
        if line.path.startswith(("/", "../")):
            continue
        yield RecordedFile(
            package=name,
            path=line.path,
            sha256=line.sha256,
            is_link=False,
            size_bytes=line.size_bytes,
            links_allowed=False,
            by_pip=True,
        )


def _lines(one: Installed, prefix: Path) -> list[_Line] | NotRead:
    record = one.metadata / "RECORD"
    content = read_bytes(record, limit_bytes=MAX_RECORD_FILE_BYTES)
    if isinstance(content, NotRead):
        return content
    folder = one.metadata.parent.relative_to(prefix).as_posix()
    rows = csv.reader(content.decode("utf-8", "surrogateescape").splitlines())
    try:
        return [_line(row, folder) for row in rows if row and row[0]]
    except csv.Error as error:  # a quoted text of more than 128 KiB, a NUL byte
        return NotRead(kind="failed", reason=f"it is not CSV: {error}")


def _line(row: list[str], folder: str) -> _Line:
    path, digest, size = (*row, "", "")[:3]
    place = os.path.normpath(os.path.join(folder, path.replace("\\", "/")))  # noqa: PTH118 (text)
    small = size.isascii() and size.isdecimal() and len(size) < 12  # noqa: PLR2004
    return _Line(place.replace("\\", "/"), _sha256(digest), int(size) if small else 0)


def _sha256(text: str) -> str:
    """Return the digest in hexadecimal digits; empty for another kind, or none."""
    if not text.startswith(_SHA256) or not text.isascii():
        return ""
    try:
        digest = base64.urlsafe_b64decode(text[len(_SHA256) :].rstrip("=") + "=")
    except (ValueError, binascii.Error):
        return ""
    return digest.hex() if len(digest) == _SHA256_BYTES else ""

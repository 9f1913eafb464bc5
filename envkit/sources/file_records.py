"""Which files each conda package put into a prefix, and their hashes, from its records."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from envkit.sources.conda_prefix import MAX_RECORD_BYTES
from envkit.sources.files import NotRead, list_folder, read_bytes
from envkit.sources.redacted import clipped, escape_control

#: The largest environments have half a million files.
MAX_FILES: Final = 5_000_000
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_SOFT_LINKED: Final = 2


class _Entry(msgspec.Struct, frozen=True, gc=False):
    path: str = msgspec.field(name="_path")
    path_type: str = "hardlink"
    sha256: str | None = None
    sha256_in_prefix: str | None = None
    prefix_placeholder: str | None = None
    size_in_bytes: int | None = None


class _PathsData(msgspec.Struct, frozen=True):
    paths: tuple[_Entry, ...] = ()


class _Link(msgspec.Struct, frozen=True):
    type: int | str | None = None


class _Record(msgspec.Struct, frozen=True):
    name: str
    files: tuple[str, ...] = ()
    paths_data: _PathsData | None = None
    link: _Link | None = None


_DECODER: Final = msgspec.json.Decoder(_Record)


class RecordedFile(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One file of one package."""

    package: str
    path: str
    """Relative to the prefix, as written: it may be hostile."""
    sha256: str
    """Of the content in the prefix; empty where no record has it."""
    is_link: bool
    """Whether the package has a link there."""
    size_bytes: int = 0
    """As the record has it, for the order of work alone; 0 where it does not."""
    links_allowed: bool
    """Whether the package was linked softly: its files are links to the package cache."""
    by_pip: bool = False
    """Whether the package is a distribution of pip, not a package of conda."""


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """The files of all packages."""

    files: tuple[RecordedFile, ...]
    failures: tuple[str, ...]
    """Records that could not be read: their files are not known."""


def recorded_files(prefix: Path) -> Recorded:
    """Return the files of every package of a prefix, in the order of the records."""
    folder = prefix / "conda-meta"
    names = list_folder(folder)
    if isinstance(names, NotRead):
        return Recorded(files=(), failures=(names.reason.replace(str(folder), "conda-meta"),))
    files: list[RecordedFile] = []
    failures: list[str] = []
    for name in names:
        if not name.endswith(".json"):
            continue
        record = _read(folder / name)
        if isinstance(record, str):
            failures.append(f"{_shown(name)}: {record}")
        elif len(files) + len(_paths(record)) + len(record.files) > MAX_FILES:
            failures.append(f"{_shown(name)}: there are more than {MAX_FILES} files")
        else:
            files += _files(record)
    return Recorded(files=tuple(files), failures=tuple(failures))


def files_of(record: Path) -> frozenset[str]:
    """Return the files that one record lists; empty where it cannot be read."""
    found = _read(record)
    if isinstance(found, str):
        return frozenset()
    return frozenset([*found.files, *(entry.path for entry in _paths(found))])


def _read(path: Path) -> _Record | str:
    content = read_bytes(path, limit_bytes=MAX_RECORD_BYTES)
    if isinstance(content, NotRead):
        return content.reason.replace(str(path), "it")
    try:
        return _DECODER.decode(content)
    except (msgspec.ValidationError, msgspec.DecodeError, RecursionError) as error:
        return clipped(escape_control(str(error)), 300)


def _files(record: _Record) -> Iterator[RecordedFile]:
    package = _shown(record.name)
    soft = record.link is not None and record.link.type in {_SOFT_LINKED, "softlink"}
    listed = _paths(record)
    for entry in listed:
        # Python writes these itself, when it likes to.
        if entry.path_type in {"pyc_file", "directory"}:
            continue
        yield RecordedFile(
            package=package,
            path=entry.path,
            sha256=_hash_of(entry),
            is_link=entry.path_type == "softlink",
            size_bytes=entry.size_in_bytes or 0,
            links_allowed=soft,
        )
    if not listed:  # conda before 4.4 wrote names only
        for path in record.files:
            yield RecordedFile(
                package=package, path=path, sha256="", is_link=False, links_allowed=True
            )


def _paths(record: _Record) -> tuple[_Entry, ...]:
    return () if record.paths_data is None else record.paths_data.paths


def _hash_of(entry: _Entry) -> str:
    """Return the hash of the file where it is: a placeholder in it was replaced by the prefix."""
    found = entry.sha256_in_prefix or ("" if entry.prefix_placeholder else entry.sha256) or ""
    return found.lower() if _SHA256.fullmatch(found.lower()) else ""


def _shown(text: str) -> str:
    return clipped(escape_control(text), 300)

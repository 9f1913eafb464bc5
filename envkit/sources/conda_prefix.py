"""The packages of a conda prefix, from the records in its `conda-meta` folder."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from envkit.model.facts import CondaFacts, CondaPackage
from envkit.model.observed import Known, NotApplicable, Unreadable
from envkit.sources.conda_channel import channel_of
from envkit.sources.files import NotRead, list_folder, read_bytes
from envkit.sources.redacted import clipped, escape_control, shorten_home, without_credentials

#: The record of a package with a hundred thousand files has about 30 MB.
MAX_RECORD_BYTES: Final = 64 << 20
MAX_CHARS: Final = 300
_NOT_CONDA: Final = "the target is not a conda environment"
#: `numpy-1.26.4-py311h64a7726_0.json`: name, version, build; only the name may hold a dash.
_RECORD_NAME = re.compile(r"(?P<name>[^/]+)-(?P<version>[^-/]+)-(?P<build>[^-/]+)\.json")


class _Record(msgspec.Struct):
    """The fields that are used; everything else in a record is skipped, not built."""

    name: str
    version: str
    build: str | None = None
    build_string: str | None = None
    channel: str | msgspec.Raw | None = None
    url: str | None = None
    subdir: str | None = None
    md5: str | None = None
    sha256: str | None = None
    requested_spec: str | None = None
    requested_specs: list[str] | None = None


_DECODER: Final = msgspec.json.Decoder(_Record)


def read_conda(prefix: Path | None, *, homes: Sequence[str] = ()) -> CondaFacts:
    """Return the packages of a prefix, sorted by name.

    A record that cannot be read is listed by what its file name says, and named in the source.
    """
    if prefix is None:
        return _not_conda("the target has no prefix")
    folder = prefix / "conda-meta"
    names = list_folder(folder)
    if isinstance(names, NotRead):
        if names.kind == "missing":
            return _not_conda(f"{_NOT_CONDA}: {shorten_home(str(folder), homes)} is not there")
        failed = Unreadable(reason=shorten_home(names.reason, homes), source="conda-meta")
        return CondaFacts(prefix=_prefix(prefix, homes), packages=failed)
    packages, broken = _packages(folder, [name for name in names if name.endswith(".json")])
    if broken and not packages:
        reason = f"none of the {len(broken)} records can be read: {broken[0]}"
        failed = Unreadable(reason=reason, source="conda-meta")
        return CondaFacts(prefix=_prefix(prefix, homes), packages=failed)
    return CondaFacts(
        prefix=_prefix(prefix, homes),
        packages=Known(value=tuple(packages), source=_source(len(packages), broken)),
    )


def _not_conda(reason: str) -> CondaFacts:
    state = NotApplicable(reason=reason, source="conda-meta")
    return CondaFacts(prefix=state, packages=state)


def _prefix(prefix: Path, homes: Sequence[str]) -> Known[str]:
    shown = clipped(escape_control(shorten_home(str(prefix), homes)))
    return Known(value=shown, source="choice of the target")


def _source(count: int, broken: Sequence[str]) -> str:
    if not broken:
        return "conda-meta"
    return f"conda-meta ({len(broken)} of {count} records known by file name only: {broken[0]})"


def _packages(folder: Path, names: Sequence[str]) -> tuple[list[CondaPackage], list[str]]:
    packages: list[CondaPackage] = []
    broken: list[str] = []
    for file_name in names:
        record = _record(folder / file_name)
        if isinstance(record, _Record):
            packages.append(_package(record))
            continue
        broken.append(f"{_shown(file_name)}: {record}")
        named = _RECORD_NAME.fullmatch(file_name)
        if named:
            name, version, build = map(_shown, named.groups())
            packages.append(CondaPackage(name=name, version=version, build=build))
    if len(broken) == len(names):
        return [], broken
    return sorted(packages, key=lambda package: (package.name, package.version)), broken


def _record(path: Path) -> _Record | str:
    content = read_bytes(path, limit_bytes=MAX_RECORD_BYTES)
    if isinstance(content, NotRead):
        return content.reason.replace(str(path), "it")
    try:
        return _DECODER.decode(content)
    except (msgspec.ValidationError, msgspec.DecodeError, RecursionError) as error:
        return clipped(escape_control(str(error)), MAX_CHARS)


def _package(record: _Record) -> CondaPackage:
    channel = record.channel if isinstance(record.channel, str) else ""
    return CondaPackage(
        name=_shown(record.name),
        version=_shown(record.version),
        build=_shown(record.build or record.build_string),
        channel=channel_of(record.url or "", channel),
        subdir=_shown(record.subdir),
        url=_shown(without_credentials(record.url or "")),
        md5=_shown(record.md5),
        sha256=_shown(record.sha256),
        requested=_is_requested(record),
    )


def _is_requested(record: _Record) -> bool:
    # Some versions of conda wrote the word None for "nobody asked for it".
    return bool(record.requested_specs) or record.requested_spec not in {None, "", "None"}


def _shown(text: str | None) -> str:
    return clipped(escape_control(text or ""), MAX_CHARS)

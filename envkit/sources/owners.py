"""Who installed a file of a prefix: the distribution or the conda package that lists it."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from envkit.sources.conda_prefix import MAX_RECORD_BYTES
from envkit.sources.files import NotRead, list_folder, read_bytes
from envkit.sources.pip_packages import Installed, list_installed

#: torch itself lists about 15,000 files in 2 MB.
MAX_RECORD_FILE_BYTES: Final = 32 << 20
_LETTERS = re.compile(r"[a-z]{3,}")


class _Files(msgspec.Struct):
    name: str
    files: list[str] = []


_DECODER: Final = msgspec.json.Decoder(_Files)


def owners_of(paths: Collection[Path], prefix: Path, environ: Mapping[str, str]) -> dict[Path, str]:
    """Return the owner of each file that somebody lists; files nobody lists are left out.

    What pip wrote over a file of conda is pip's. Lists are read until every file has an owner,
    the most likely ones first.
    """
    owners: dict[Path, str] = {}
    installed = list_installed(prefix, environ)
    by_pip = [one for one in installed if one.distribution.installer != "conda"]
    for one in sorted(by_pip, key=lambda one: _unlikely(one.distribution.name, paths)):
        waiting = [path for path in paths if path not in owners]
        if not waiting:
            return owners
        for path in _listed_by(one, waiting):
            owners[path] = one.distribution.name
    _add_conda_owners(owners, paths, prefix)
    return owners


def _unlikely(name: str, paths: Collection[Path]) -> int:
    """Rank a package lower the more its name has in common with the files: `nvidia-cudnn-cu12`."""
    words = set(_LETTERS.findall(name))
    return -sum(any(word in str(path).lower() for word in words) for path in paths)


def _listed_by(one: Installed, paths: Sequence[Path]) -> list[Path]:
    content = read_bytes(one.metadata / "RECORD", limit_bytes=MAX_RECORD_FILE_BYTES)
    if isinstance(content, NotRead):
        return []
    folder = os.path.realpath(one.metadata.parent)
    lines = b"\n" + content.replace(b"\\", b"/")
    return [path for path in paths if _line_start(path, folder) in lines]


def _line_start(path: Path, folder: str) -> bytes:
    # `nvidia/cudnn/lib/libcudnn.so.9,sha256=...`; files outside site-packages start with `../`.
    relative = os.path.relpath(os.path.realpath(path), folder).replace("\\", "/")
    return b"\n" + os.fsencode(relative) + b","


def _add_conda_owners(owners: dict[Path, str], paths: Collection[Path], prefix: Path) -> None:
    folder = prefix / "conda-meta"
    names = list_folder(folder)
    if isinstance(names, NotRead):
        return
    real_prefix = os.path.realpath(prefix)
    waiting = {
        os.path.relpath(os.path.realpath(path), real_prefix).replace("\\", "/"): path
        for path in paths
        if path not in owners
    }
    records = [name for name in names if name.endswith(".json")]
    for name in sorted(records, key=lambda name: _unlikely(name, list(waiting.values()))):
        if not waiting:
            return
        record = _files_of(folder / name)
        for file in waiting.keys() & set(record.files):
            owners[waiting.pop(file)] = record.name


def _files_of(path: Path) -> _Files:
    content = read_bytes(path, limit_bytes=MAX_RECORD_BYTES)
    if isinstance(content, NotRead):
        return _Files(name="")
    try:
        return _DECODER.decode(content)
    except (msgspec.ValidationError, msgspec.DecodeError, RecursionError):
        return _Files(name="")

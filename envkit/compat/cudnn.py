"""cuDNN: its version integer, the GPUs each version supports, and what PyTorch accepts."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping

from envkit.compat.answers import Unknown
from envkit.compat.rows import Row, Rule, Table
from envkit.compat.store import load
from envkit.model.versions import Capability, parse_capability

#: (major, minor, patch)
CudnnVersion = tuple[int, int, int]

#: From cuDNN 9 on the integer has one digit more for the minor version.
_LONG_FROM = 10_000
_SHORT_MAJOR, _LONG_MAJOR, _MINOR = 1_000, 10_000, 100
_FIRST_LONG_MAJOR = 9
_LAST_INTEGER = 999_999
_TEXT = re.compile(r"([0-9]{1,2})\.([0-9]{1,2})(?:\.([0-9]{1,2}))?(?:\.[0-9]{1,4})?")


class Versions(Row, frozen=True, kw_only=True):
    """A range of minor versions, both ends included."""

    first: str
    last: str
    cuda_majors: tuple[int, ...]
    #: Least compute capability; None where it depends on the CUDA major or no source was read.
    min_capability: str | None = None
    min_capability_by_cuda: Mapping[int, str] = {}
    #: Least driver by CUDA major.
    linux: Mapping[int, str] = {}
    windows: Mapping[int, str] = {}


class CudnnWheel(Row, frozen=True, kw_only=True):
    """First and last version of a wheel."""

    package: str
    first: str
    last: str


class CudnnTable(Table, frozen=True, kw_only=True):
    """`data/cudnn.yaml`."""

    versions: tuple[Versions, ...]
    wheels: tuple[CudnnWheel, ...]
    encoding: tuple[Rule, ...]
    rules: tuple[Rule, ...]


@functools.cache
def table() -> CudnnTable:
    """Return the cuDNN table, read once a process."""
    return load("cudnn", CudnnTable)


def cudnn_decode(integer: int) -> CudnnVersion:
    """Read cuDNN's version integer: 8902 -> (8, 9, 2), 91002 -> (9, 10, 2).

    Raises:
        ValueError: no cuDNN version is written so.

    """
    if not _SHORT_MAJOR <= integer <= _LAST_INTEGER:
        message = f"{integer} is not a cuDNN version integer (91002 stands for 9.10.2)"
        raise ValueError(message)
    step = _SHORT_MAJOR if integer < _LONG_FROM else _LONG_MAJOR
    return integer // step, integer % step // _MINOR, integer % _MINOR


def cudnn_encode(version: CudnnVersion) -> int:
    """Write a cuDNN version as its integer: (9, 10, 2) -> 91002.

    Raises:
        ValueError: a part does not fit into the integer.

    """
    major, minor, patch = version
    step = _LONG_MAJOR if major >= _FIRST_LONG_MAJOR else _SHORT_MAJOR
    if major < 1 or not 0 <= minor < step // _MINOR or not 0 <= patch < _MINOR:
        message = f"cuDNN {major}.{minor}.{patch} has no version integer"
        raise ValueError(message)
    return major * step + minor * _MINOR + patch


def parse_cudnn(text: str) -> CudnnVersion:
    """Read a cuDNN version; the fourth number of a wheel (9.10.2.21) is not part of it.

    Raises:
        ValueError: the text is not two to four numbers with dots between.

    """
    found = _TEXT.fullmatch(text.strip())
    if found is None:
        message = f"{text[:60]!r} is not a cuDNN version (expected something like 9.10.2.21)"
        raise ValueError(message)
    major, minor, patch = found.groups(default="0")
    return int(major), int(minor), int(patch)


def cudnn_row(version: CudnnVersion) -> Versions | Unknown:
    """Return the table row of a version."""
    rows, minor = table().versions, version[:2]
    for row in rows:
        if parse_cudnn(row.first)[:2] <= minor <= parse_cudnn(row.last)[:2]:
            return row
    newer = minor > parse_cudnn(rows[-1].last)[:2]
    name = ".".join(str(part) for part in version)
    return Unknown(
        why=f"cuDNN {name} is {'newer than' if newer else 'not in'} the tables", newer=newer
    )


def cudnn_supports(version: CudnnVersion, capability: str, cuda_major: int) -> bool | Unknown:
    """Say whether a cuDNN version supports GPUs of a capability (LIB009).

    Raises:
        ValueError: `capability` cannot be read.

    """
    device = parse_capability(capability)
    row = cudnn_row(version)
    if isinstance(row, Unknown):
        newest = table().versions[-1]
        # Support that was dropped has never come back.
        return False if row.newer and _below(newest, device, cuda_major) else row
    floor = _floor(row, cuda_major)
    if floor is None:
        return Unknown(why=f"no source read says which GPUs cuDNN {row.first}-{row.last} supports")
    return device >= parse_capability(floor)


def _below(row: Versions, device: Capability, cuda_major: int) -> bool:
    floor = _floor(row, cuda_major)
    return floor is not None and device < parse_capability(floor)


def _floor(row: Versions, cuda_major: int) -> str | None:
    return row.min_capability or row.min_capability_by_cuda.get(cuda_major)


def cudnn_accepted(compiled: CudnnVersion, loaded: CudnnVersion) -> bool:
    """Say whether PyTorch accepts the cuDNN it loaded (rules torch_major and torch_minor).

    The major must be the one it was compiled with, the minor that one or a newer; the patch level
    does not count.
    """
    return loaded[0] == compiled[0] and loaded[1] >= compiled[1]

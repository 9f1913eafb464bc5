"""Which driver a CUDA version needs, and which CUDA a driver can run."""

from __future__ import annotations

import functools
from typing import Literal

import msgspec

from envkit.compat.answers import System, Unknown
from envkit.compat.rows import Row, Rule, Table
from envkit.compat.store import load
from envkit.model.versions import Cuda, Driver, parse_cuda, parse_driver

#: First CUDA major with minor-version compatibility; before it the toolkit's own driver counts.
FIRST_COMPATIBLE_MAJOR = 11
#: NVIDIA numbers Windows drivers within a branch from the branch's number up to the next five.
_WINDOWS_BRANCH_WIDTH = 5


class Floor(Row, frozen=True, kw_only=True):
    """Oldest driver that runs programs built with any toolkit of a CUDA major."""

    cuda_major: int
    first_branch: int
    linux: str
    windows: str


class Toolkit(Row, frozen=True, kw_only=True):
    """The driver that shipped with a toolkit: more than its programs need from CUDA 11 on."""

    cuda: str
    release: str
    branch: int | None = None
    linux: str | None = None
    windows: str | None = None


class Branch(Row, frozen=True, kw_only=True):
    """A driver branch and the CUDA version that `nvidia-smi` prints for it."""

    branch: int
    cuda: str
    #: GPU architectures that no later branch drives.
    last_for: tuple[str, ...] = ()


class Forward(Row, frozen=True, kw_only=True):
    """What the cuda-compat packages are and are not for."""

    applies_to: tuple[str, ...]
    not_for: str
    package: str
    libraries: tuple[str, ...]
    not_supported: tuple[str, ...]
    virtual_memory: str


class CompatPackage(Row, frozen=True, kw_only=True):
    """One cuda-compat package and the driver branches it works on."""

    cuda: str
    works_on: tuple[int, ...]
    #: Branches that have this CUDA version themselves.
    needless_on: tuple[int, ...]
    fails_on: tuple[int, ...]


class CudaError(Row, frozen=True, kw_only=True):
    """A CUDA error code."""

    code: int
    name: str
    meaning: str
    driver_name: str | None = None
    hint: str | None = None
    hint_verified: bool = True


class DriverTable(Table, frozen=True, kw_only=True):
    """`data/driver.yaml`."""

    floors: tuple[Floor, ...]
    toolkits: tuple[Toolkit, ...]
    branches: tuple[Branch, ...]
    forward: Forward
    forward_matrix: tuple[CompatPackage, ...]
    errors: tuple[CudaError, ...]
    rules: tuple[Rule, ...]


class Requirement(msgspec.Struct, frozen=True, kw_only=True):
    """A driver version that something needs."""

    #: As NVIDIA writes it.
    driver: str
    number: Driver
    row: Floor | Toolkit


class DriverCuda(msgspec.Struct, frozen=True, kw_only=True):
    """The newest CUDA that a driver can run."""

    cuda: Cuda
    branch: int
    #: False: the branch is not in the table; the CUDA is the one of the next older branch, so it
    #: is the least this driver can run.
    exact: bool


class DriverFit(msgspec.Struct, frozen=True, kw_only=True):
    """How a driver stands to the CUDA of a build."""

    #: full: as new as the toolkit; minor: runs by minor-version compatibility; too_old; unknown.
    level: Literal["full", "minor", "too_old", "unknown"]
    #: Least driver that runs it at all.
    floor: Requirement | Unknown
    #: Driver that shipped with the toolkit.
    own: Requirement | Unknown
    #: The CUDA of the driver itself.
    newest: DriverCuda | Unknown


@functools.cache
def table() -> DriverTable:
    """Return the driver table, read once a process."""
    return load("driver", DriverTable)


def runtime_floor(cuda_major: int, system: System) -> Requirement | Unknown:
    """Return the oldest driver on which programs of a CUDA major run at all."""
    for floor in table().floors:
        if floor.cuda_major == cuda_major:
            text = floor.linux if system == "linux" else floor.windows
            return Requirement(driver=text, number=parse_driver(text), row=floor)
    newest = max(floor.cuda_major for floor in table().floors)
    if cuda_major > newest:
        return Unknown(why=f"CUDA {cuda_major} is newer than the tables", newer=True)
    why = f"CUDA {cuda_major} has no minor-version compatibility; see its toolkit's driver"
    return Unknown(why=why)


def toolkit_driver(cuda: str, system: System) -> Requirement | Unknown:
    """Return the driver that shipped with a toolkit.

    Args:
        cuda: `12.4` means the first release of 12.4, `12.4.1` that update.
        system: whose driver numbering counts.

    Raises:
        ValueError: `cuda` is not a CUDA version.

    """
    asked = parse_cuda(cuda)
    row = _toolkit(cuda.strip(), asked)
    if row is None:
        newer = asked > parse_cuda(table().toolkits[0].cuda)
        why = f"CUDA {cuda} is {'newer than' if newer else 'not in'} the tables"
        return Unknown(why=why, newer=newer)
    text = row.linux if system == "linux" else row.windows
    if text is None:
        return Unknown(why=f"no source gives the {system} driver of CUDA {row.cuda}")
    return Requirement(driver=text, number=parse_driver(text), row=row)


def _toolkit(text: str, asked: Cuda) -> Toolkit | None:
    exact = [row for row in table().toolkits if row.cuda == text]
    general = [
        row
        for row in table().toolkits
        if parse_cuda(row.cuda) == asked and row.release.startswith("GA")
    ]
    return next(iter(exact or general), None)


def least_driver(cuda: str, system: System) -> Requirement | Unknown:
    """Return the oldest driver on which a build with this CUDA runs: what DRV002 compares with.

    From CUDA 11 on the floor of the major, before it the toolkit's own driver.

    Raises:
        ValueError: `cuda` is not a CUDA version.

    """
    major, _ = parse_cuda(cuda)
    if major >= FIRST_COMPATIBLE_MAJOR:
        return runtime_floor(major, system)
    return toolkit_driver(cuda, system)


def newest_cuda_for(driver: str, system: System) -> DriverCuda | Unknown:
    """Return the newest CUDA version that a driver runs, as `nvidia-smi` would print it.

    Raises:
        ValueError: `driver` is not a driver version.

    """
    number = parse_driver(driver)[0]
    branches = sorted(table().branches, key=lambda row: row.branch)
    known = [row for row in branches if row.branch <= number]
    if not known:
        return Unknown(why=f"driver {driver} is older than the tables")
    row = known[-1]
    width = 1 if system == "linux" else _WINDOWS_BRANCH_WIDTH
    exact = number < row.branch + width
    if row is branches[-1] and not exact:
        why = f"driver {driver} is newer than the tables; it runs CUDA {row.cuda} at least"
        return Unknown(why=why, newer=True)
    return DriverCuda(cuda=parse_cuda(row.cuda), branch=row.branch, exact=exact)


def driver_fit(cuda: str, driver: str, system: System) -> DriverFit:
    """Judge a driver against the CUDA that a build was made with.

    A newer driver never gets a worse level.

    Raises:
        ValueError: `cuda` or `driver` is not a version.

    """
    floor, own = least_driver(cuda, system), toolkit_driver(cuda, system)
    newest = newest_cuda_for(driver, system)
    number = parse_driver(driver)
    level: Literal["full", "minor", "too_old", "unknown"]
    if _has_cuda(newest, parse_cuda(cuda)) or _reaches(number, own):
        level = "full"
    elif isinstance(floor, Unknown):
        level = "unknown"
    else:
        level = "minor" if number >= floor.number else "too_old"
    return DriverFit(level=level, floor=floor, own=own, newest=newest)


def _reaches(number: Driver, needed: Requirement | Unknown) -> bool:
    return isinstance(needed, Requirement) and number >= needed.number


def _has_cuda(newest: DriverCuda | Unknown, cuda: Cuda) -> bool:
    if isinstance(newest, Unknown):
        # A driver newer than the tables runs everything that the newest branch in them runs.
        return newest.newer and cuda <= parse_cuda(_newest_branch().cuda)
    return newest.cuda >= cuda


def _newest_branch() -> Branch:
    return max(table().branches, key=lambda row: row.branch)


def forward_compat(cuda: str, driver: str) -> Literal["works", "needless", "fails"] | Unknown:
    """Say whether the cuda-compat package of a CUDA version works on a (Linux) driver.

    Only for data-centre GPUs, Jetson boards and some RTX cards in servers: elsewhere error 804.

    Raises:
        ValueError: `cuda` or `driver` is not a version.

    """
    asked, branch = parse_cuda(cuda), parse_driver(driver)[0]
    for row in table().forward_matrix:
        if parse_cuda(row.cuda) != asked:
            continue
        if branch in row.works_on:
            return "works"
        if branch in row.needless_on:
            return "needless"
        if branch in row.fails_on:
            return "fails"
        return Unknown(why=f"driver branch R{branch} is not in NVIDIA's table of cuda-compat")
    newer = asked > parse_cuda(table().forward_matrix[0].cuda)
    return Unknown(why=f"cuda-compat {cuda} is not in NVIDIA's table", newer=newer)


def cuda_error(code: int) -> CudaError | Unknown:
    """Return what a CUDA error code means."""
    found = next((row for row in table().errors if row.code == code), None)
    return found or Unknown(why=f"CUDA error {code} is not in the tables")

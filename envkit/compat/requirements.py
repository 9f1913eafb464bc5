"""What a machine is to a solver, and what a build asks of the machine that starts its container."""

from __future__ import annotations

from collections.abc import Iterable

from envkit.compat.answers import System, Unknown
from envkit.compat.driver import FIRST_COMPATIBLE_MAJOR, newest_cuda_for
from envkit.model.versions import parse_arch, parse_cuda


def solver_cuda(driver: str, system: System) -> str | Unknown:
    """Return conda's `__cuda` on a machine: the newest CUDA that its driver runs.

    Raises:
        ValueError: `driver` is not a driver version.

    """
    found = newest_cuda_for(driver, system)
    return found if isinstance(found, Unknown) else "{}.{}".format(*found.cuda)


def least_cuda(cuda: str) -> str:
    """Return the CUDA that a driver must have for a build: from CUDA 11 on its major's first.

    Raises:
        ValueError: `cuda` is not a CUDA version.

    """
    major, minor = parse_cuda(cuda)
    return f"{major}.{0 if major >= FIRST_COMPATIBLE_MAJOR else minor}"


def least_capability(archs: Iterable[str]) -> str | None:
    """Return the lowest compute capability that a build has code for; None if none can be read.

    Raises:
        ValueError: an entry is no architecture.

    """
    found = [parse_arch(name).capability for name in archs]
    return "{}.{}".format(*min(found)) if found else None

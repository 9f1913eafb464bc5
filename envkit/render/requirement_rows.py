"""What other tools are to be told of a machine and its torch, as rows of a variable and a value."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from envkit.compat.answers import System, Unknown
from envkit.compat.requirements import least_capability, least_cuda, solver_cuda
from envkit.model.facts import Facts
from envkit.model.observed import value_of

TITLE: Final = "For solvers and containers"


def requirement_rows(facts: Facts) -> Iterator[tuple[str, str]]:
    """Yield conda's `__cuda` on this machine, and what a container of this torch asks for.

    What is not known yields nothing, or says why.
    """
    driver = value_of(facts.driver.version)
    if driver is not None:
        yield from _solver(driver, value_of(facts.driver.cuda_version), _system(facts))
    cuda = value_of(facts.torch.cuda)
    if cuda is None:
        return
    try:
        yield "NVIDIA_REQUIRE_CUDA", f"cuda>={least_cuda(cuda)}"
        archs = value_of(facts.torch.arch_list)
        capability = least_capability(archs or ())
    except ValueError:  # a recorded torch may have any text there
        return
    if capability is not None:
        yield "NVIDIA_REQUIRE_ARCH", f"arch>={capability}"


def _solver(driver: str, newest: str | None, system: System) -> Iterator[tuple[str, str]]:
    try:
        cuda = newest or solver_cuda(driver, system)
    except ValueError:
        return
    said = f"(unknown: {cuda.why})" if isinstance(cuda, Unknown) else cuda
    yield "CONDA_OVERRIDE_CUDA", said


def _system(facts: Facts) -> System:
    # Under WSL2 the driver is the Windows one, and has its numbers.
    system: str | None = value_of(facts.host.os)
    return "windows" if system in ("windows", "wsl") else "linux"

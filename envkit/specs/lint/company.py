"""Checks of what stands beside torch: a second torch, numpy, mkl."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from envkit.compat import tables
from envkit.model.conda_version import parse_constraint
from envkit.specs.lint.rule import Fault
from envkit.specs.lint.subject import Subject, Torch

#: First torch whose `pytorch`-channel builds do not need the symbol that mkl 2024.1 dropped.
_FIRST_WITHOUT_OLD_MKL: Final = (2, 4)
#: First Python that NumPy 2 supports; older ones cap NumPy by themselves.
_FIRST_PYTHON_OF_NUMPY_2: Final = (3, 9)
#: What a constraint must exclude to count as a cap.
_NUMPY_2: Final = ("2.0.0", "2.1.0", "2.3.0")
_NEW_MKL: Final = ("2024.1.0", "2024.2.0", "2025.0.0")


def two_torches(subject: Subject) -> Iterator[Fault]:
    """SPC007: a torch in each half; pip's is installed over conda's."""
    conda, pip = subject.conda_torch, subject.pip_torch
    if conda is None or pip is None:
        return
    yield Fault(
        line=pip.line,
        seen=(("torch of conda", f"{conda.text} (line {conda.line})"), ("torch of pip", pip.text)),
        fix="Keep one of the two, with what belongs to it (torchvision, torchaudio) in its half.",
    )


def numpy_not_capped(subject: Subject) -> Iterator[Fault]:
    """SPC012: a torch built for NumPy 1, and nothing that keeps NumPy 2 out."""
    torch = subject.torch
    if (
        torch is None
        or torch.origin not in {"pytorch", "pypi"}
        or _caps(subject, "numpy", _NUMPY_2)
    ):
        return
    python = subject.spec.conda_named("python")
    last = (
        python[0].match.version.bounds.last_series if python and python[0].match.version else None
    )
    if last is not None and last < _FIRST_PYTHON_OF_NUMPY_2:
        return
    built_for = _numpy_of(torch)
    if built_for is None or built_for.numpy != 1:
        return
    yield Fault(
        line=torch.line,
        seen=(("torch", torch.text), ("numpy", _entries(subject, "numpy"))),
        known=(
            (
                "torch built for NumPy 2",
                "from 2.3.0 on",
                tables.sources_for("torch", built_for)[0].what,
            ),
        ),
        fix='Add "numpy<2".',
    )


def mkl_not_capped(subject: Subject) -> Iterator[Fault]:
    """SPC013: a `pytorch`-channel torch before 2.4, and nothing that keeps mkl 2024.1 out."""
    torch = subject.conda_torch
    if torch is None or torch.origin != "pytorch" or subject.pip_torch is not None:
        return
    high = torch.bounds.last_series
    if high is None or high >= _FIRST_WITHOUT_OLD_MKL or _caps(subject, "mkl", _NEW_MKL):
        return
    yield Fault(
        line=torch.line,
        seen=(("torch", torch.text), ("mkl", _entries(subject, "mkl"))),
        fix='Add "mkl<2024.1", or importing torch can fail: undefined symbol iJIT_NotifyEvent.',
    )


def _numpy_of(torch: Torch) -> tables.NumpyGeneration | None:
    """Return what the newest torch admitted was built for; None where no table says."""
    series = torch.bounds.last_series
    if series is None:
        return None
    # What is older than the tables is older than NumPy 2 by two years.
    series = max(series, (1, 12))
    row = tables.numpy_generation(f"{series[0]}.{series[1]}.0", "linux")
    return None if isinstance(row, tables.Unknown) else row


def _caps(subject: Subject, name: str, newer: tuple[str, ...]) -> bool:
    """Whether either half has a constraint on the package that admits none of these versions."""
    constraints = [one.match.version for one in subject.spec.conda_named(name)]
    constraints += [
        parse_constraint(one.specifier) for one in subject.spec.pip_named(name) if one.specifier
    ]
    return any(
        constraint is not None and not any(constraint.admits(version) for version in newer)
        for constraint in constraints
    )


def _entries(subject: Subject, name: str) -> str:
    found = (*subject.spec.conda_named(name), *subject.spec.pip_named(name))
    return ", ".join(one.text for one in found) or "not named"

"""Checks of how the CUDA build is chosen, and of which GPUs it has code for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from envkit.compat import tables
from envkit.model.versions import parse_cuda
from envkit.specs.lint.rule import Fault
from envkit.specs.lint.subject import Subject, is_cuda_build

#: torch from which the `pytorch` channel selects its CUDA by pytorch-cuda.
_FIRST_WITH_PYTORCH_CUDA: Final = (1, 13)
#: Compute capability of the newest GPU generation that the tables have a toolkit for.
_NEWEST_GENERATION: Final = "10.0"


def no_cuda_selected(subject: Subject) -> Iterator[Fault]:
    """SPC003: a conda torch, and nothing that rules a CPU build out."""
    torch = subject.conda_torch
    if torch is None or subject.pip_torch is not None or subject.cpu_chosen:
        return
    if selects_cuda(subject):
        return
    yield Fault(
        line=torch.line,
        seen=(("torch", torch.text), ("what selects a CUDA build", "nothing")),
        fix="From conda-forge pin the build and the CUDA version (pytorch=2.7.1=*cuda126*, "
        "cuda-version=12.6); from the pytorch channel add pytorch-cuda=12.1; for a CPU build "
        "say so: pytorch=*=*cpu* or cpuonly.",
    )


def selects_cuda(subject: Subject) -> bool:
    """Whether the conda half rules a CPU build of torch out."""
    torch = subject.conda_torch
    if torch is None:
        return False
    if subject.spec.conda_named("pytorch-cuda", "pytorch-gpu"):
        return True
    if torch.build is not None and is_cuda_build(torch.build):
        return True
    high = torch.bounds.last_series
    by_toolkit = torch.origin != "pytorch" or (high or (99, 0)) < _FIRST_WITH_PYTORCH_CUDA
    return by_toolkit and bool(subject.spec.conda_named("cudatoolkit"))


def toolkit_ignored(subject: Subject) -> Iterator[Fault]:
    """SPC006: cudatoolkit beside a torch of the `pytorch` channel or of pip from 1.13 on."""
    torch = subject.torch
    if torch is None or torch.origin not in {"pytorch", "pypi"}:
        return
    low = torch.bounds.first_series
    if low is None or low < _FIRST_WITH_PYTORCH_CUDA:
        return
    in_conda = "Replace it by pytorch-cuda, on which these builds depend."
    in_pip = "Delete it: the wheel brings its own CUDA."
    for one in subject.spec.conda_named("cudatoolkit"):
        yield Fault(
            line=one.line,
            seen=(("cudatoolkit", one.text), ("torch", torch.text)),
            fix=in_conda if torch.half == "conda" else in_pip,
        )


def old_cuda(subject: Subject) -> Iterator[Fault]:
    """SPC014: every CUDA version named is older than the newest GPU generation."""
    row = tables.capability_row(_NEWEST_GENERATION)
    named = subject.cuda_named
    if isinstance(row, tables.Unknown) or row.min_toolkit is None or not named:
        return
    if max(one.version for one in named) >= parse_cuda(row.min_toolkit):
        return
    one, source = named[0], f"compatibility table gpus, read {tables.tables_date('gpus')}"
    generation = row.architecture.capitalize()
    yield Fault(
        line=one.line,
        seen=((f"CUDA {one.version[0]}.{one.version[1]}", one.text),),
        known=((f"first CUDA with code for {generation}", row.min_toolkit, source),),
        fix=f"Nothing on older GPUs; on a {generation} GPU choose CUDA {row.min_toolkit} or newer.",
    )

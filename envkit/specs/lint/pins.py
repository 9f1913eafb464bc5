"""Checks of what is pinned: python, torch, and exported files that pin everything."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from envkit.compat import tables
from envkit.compat.python_series import SOURCE, end_of_life
from envkit.specs.lint.rule import Fault
from envkit.specs.lint.subject import Subject, Torch, bounds_of

#: Fewer exact build strings are a choice, more are an export.
_EXPORTED_BUILDS: Final = 5
_FIRST_CUDA_13_ON_PYPI: Final = (2, 11)


def python_not_pinned(subject: Subject) -> Iterator[Fault]:
    """SPC001: no python, or a version without an upper or a lower end."""
    found = subject.spec.conda_named("python")
    if not found:
        line = subject.spec.line_of("dependencies")
        yield Fault(line=line, seen=(("python", "not named"),), fix=_PIN_PYTHON)
        return
    for one in found:
        bounds = bounds_of(one)
        if bounds.low is None or bounds.high is None:
            yield Fault(line=one.line, seen=(("python", one.text),), fix=_PIN_PYTHON)


_PIN_PYTHON: Final = "Name the series, for example python=3.12: another one is another environment."


def python_past_its_end(subject: Subject) -> Iterator[Fault]:
    """SPC011: every version admitted is past its end of life."""
    for one in subject.spec.conda_named("python"):
        last = bounds_of(one).last_series
        end = end_of_life(last) if last is not None else None
        if end is not None and last is not None and end < subject.surroundings.today:
            series = ".".join(map(str, last))
            yield Fault(
                line=one.line,
                seen=(("python", one.text),),
                known=((f"end of life of python {series}", end.isoformat(), SOURCE),),
                fix="Move to a newer python that this torch has builds for.",
            )


def torch_not_pinned(subject: Subject) -> Iterator[Fault]:
    """SPC002: more than one minor version of torch is admitted."""
    torch = subject.torch
    if torch is None or torch.bounds.one_series is not None:
        return
    known = _newest_from_pypi(torch)
    yield Fault(
        line=torch.line,
        seen=(("torch", torch.text),),
        known=known,
        fix="Name the minor version: its allocator, kernels and CUDA change with each.",
    )


def _newest_from_pypi(torch: Torch) -> tuple[tuple[str, str, str], ...]:
    high = torch.bounds.last_series
    if torch.half != "pip" or (high is not None and high < _FIRST_CUDA_13_ON_PYPI):
        return ()
    newest = tables.release_of(tables.newest_release())
    if isinstance(newest, tables.Unknown):
        return ()
    built = newest.pypi_default["linux_x86_64"]
    source = f"compatibility table torch, read {tables.tables_date('torch')}"
    return ((f"what pip takes now: torch {newest.version}", built, source),)


def exported(subject: Subject) -> Iterator[Fault]:
    """SPC009: a prefix, or as many exact builds as only `conda env export` writes."""
    fix = (
        "Write down what you need, not what the solver chose (`conda env export --from-history`), "
        "and lock it for the exact builds: `envkit lock`."
    )
    builds = [one for one in subject.spec.dependencies if one.match.pinned_build]
    most = len(builds) * 2 > len(subject.spec.dependencies)
    if len(builds) >= _EXPORTED_BUILDS and most:
        seen = (f"{len(builds)} build strings, the first", builds[0].text)
        yield Fault(line=builds[0].line, seen=(seen,), fix=fix)
    elif subject.spec.prefix is not None:
        # The path is somebody's: shown by its line only.
        seen = ("prefix", "a folder of the machine it was exported on")
        yield Fault(line=subject.spec.prefix.line, seen=(seen,), fix="Delete the line.")

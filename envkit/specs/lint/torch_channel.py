"""Checks of the `pytorch` channel: it stopped, and pytorch-cuda belongs to its builds only."""

from __future__ import annotations

from collections.abc import Iterator

from envkit.compat.tables import tables_date
from envkit.compat.torch_builds import Release, table
from envkit.model.conda_version import Release as Numbers
from envkit.model.environment_spec import CondaDependency
from envkit.model.finding import Severity
from envkit.specs.lint.rule import Fault
from envkit.specs.lint.subject import DEFAULTS, Subject, Torch


def channel_without_it(subject: Subject) -> Iterator[Fault]:
    """SPC004: the `pytorch` channel asked for a torch or a pytorch-cuda that it never had."""
    torch = subject.conda_torch
    if torch is not None and torch.origin == "pytorch" and torch.bounds.low is not None:
        yield from _torch_not_there(subject, torch, torch.bounds.low)
    for one in subject.spec.conda_named("pytorch-cuda"):
        yield from _pytorch_cuda_not_there(subject, one)


def _torch_not_there(subject: Subject, torch: Torch, low: Numbers) -> Iterator[Fault]:
    last = [one.version for one in table().releases if one.conda_pytorch.state == "published"][-1]
    if _padded(low) <= _padded(tuple(int(part) for part in last.split("."))):
        return
    must_be_here = "::" in torch.text or bool(subject.spec.conda_named("pytorch-cuda"))
    others = {"conda-forge", *DEFAULTS} & set(subject.channel_names)
    yield Fault(
        line=torch.line,
        seen=(("torch", torch.text), ("channels", ", ".join(subject.channel_names))),
        known=(("last torch of the pytorch channel", last, _source()),),
        fix="Take it from conda-forge (pytorch=2.7.1=*cuda126*, cuda-version=12.6), without the "
        "pytorch channel and without pytorch-cuda; or from pip.",
        severity=None if must_be_here or not others else Severity.WARNING,
    )


def _pytorch_cuda_not_there(subject: Subject, one: CondaDependency) -> Iterator[Fault]:
    if one.match.channel is None and "pytorch" not in subject.channel_names:
        yield Fault(
            line=one.line,
            seen=(("pytorch-cuda", one.text), ("channels", ", ".join(subject.channel_names))),
            fix="Only the pytorch channel has pytorch-cuda; for conda-forge's torch pin the build "
            "(pytorch=2.7.1=*cuda126*) and cuda-version instead.",
        )
        return
    constraint = one.match.version
    versions = _published_with(subject)
    if constraint is None or any(constraint.admits(version) for version in versions):
        return
    yield Fault(
        line=one.line,
        seen=(("pytorch-cuda", one.text),),
        known=(("pytorch-cuda published for this torch", ", ".join(versions), _source()),),
        fix=f"Choose {' or '.join(versions)}, or take torch from conda-forge or pip.",
    )


def _published_with(subject: Subject) -> tuple[str, ...]:
    """Versions of pytorch-cuda for the releases that the spec admits, or all where that is none."""
    constraints = [one.match.version for one in subject.spec.conda_named("pytorch")]
    every = [one for one in table().releases if one.conda_pytorch.selector == "pytorch-cuda"]
    admitted = [
        one
        for one in every
        if all(constraint is None or constraint.admits(one.version) for constraint in constraints)
    ]
    found = {cuda for one in admitted or every for cuda in _cuda(one)}
    return tuple(sorted(found, key=lambda cuda: [int(part) for part in cuda.split(".")]))


def _cuda(release: Release) -> tuple[str, ...]:
    return release.conda_pytorch.cuda


def _padded(numbers: Numbers) -> Numbers:
    return (*numbers, 0, 0)[:3]


def _source() -> str:
    return f"compatibility table torch, read {tables_date('torch')}"


def mixed_channels(subject: Subject) -> Iterator[Fault]:
    """SPC005: pytorch-cuda, and a torch that another channel provides."""
    torch = subject.conda_torch
    selectors = subject.spec.conda_named("pytorch-cuda")
    if torch is None or not selectors or torch.origin in {"pytorch", None}:
        return
    yield Fault(
        line=torch.line,
        seen=(("torch", f"{torch.text}, from {torch.origin}"), ("pytorch-cuda", selectors[0].text)),
        fix="Take both from the pytorch channel (name it first, or write pytorch::pytorch), or "
        "leave pytorch-cuda out and pin the build of the other channel.",
    )

"""Whether the GPU code in a build runs on a GPU."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Literal

from envkit.compat import torch_builds
from envkit.compat.answers import Fit, Platform, Run, Unknown
from envkit.compat.rows import Row, Table
from envkit.compat.store import load
from envkit.model.versions import (
    Arch,
    Capability,
    Cuda,
    TorchVersion,
    parse_arch,
    parse_capability,
    parse_cuda,
    parse_cuda_tag,
    parse_torch,
)

Channel = Literal["wheel", "pytorch", "conda-forge"]


class ArchList(Row, frozen=True, kw_only=True):
    """The architectures compiled into the builds of some releases."""

    channel: Channel
    #: `2.5` stands for every 2.5.x, `2.7.0` for itself.
    releases: tuple[str, ...]
    cuda: str
    platform: Platform
    archs: tuple[str, ...]
    #: A special build, such as `tegra`; None for the usual one.
    variant: str | None = None
    measured_on: str | None = None


class CodeRule(Row, frozen=True, kw_only=True):
    """The devices on which code for one capability runs."""

    code: str
    #: Device capability from which it runs, within the major.
    on: str
    to_minor: int
    but: tuple[str, ...] = ()
    also: tuple[str, ...] = ()


class CodeText(Row, frozen=True, kw_only=True):
    """The general rule, for capabilities without a row."""

    text: str


class JetsonRule(Row, frozen=True, kw_only=True):
    """Code that runs on Jetson devices too when it comes from a new enough toolkit."""

    cuda: str
    codes: tuple[str, ...]
    devices: tuple[str, ...]


class NvccTargets(Row, frozen=True, kw_only=True):
    """The architectures that a toolkit can compile for."""

    first: str
    last: str
    min_sm: int
    max_sm: int
    sm: tuple[str, ...] = ()
    measured_with: str | None = None


class ArchTable(Table, frozen=True, kw_only=True):
    """`data/arch.yaml`."""

    lists: tuple[ArchList, ...]
    runs: tuple[CodeRule, ...]
    runs_rule: CodeText
    jetson_from: JetsonRule
    nvcc: tuple[NvccTargets, ...]


@functools.cache
def table() -> ArchTable:
    """Return the table of architectures, read once a process."""
    return load("arch", ArchTable)


def arch_list(
    torch_version: str, tag: str, platform: Platform, *, channel: Channel = "wheel"
) -> ArchList | Unknown:
    """Return the architectures compiled into a build.

    Raises:
        ValueError: the version or the tag cannot be read.

    """
    version, cuda = parse_torch(torch_version), parse_cuda_tag(tag)
    if (outside := torch_builds.outside_tables(version)) is not None:
        return outside
    for row in table().lists:
        usual = row.variant is None and row.channel == channel and row.platform == platform
        if usual and parse_cuda(row.cuda) == cuda and _covers(row, version):
            return row
    why = f"no source read gives the architectures of PyTorch {version.base} {tag} ({platform})"
    return Unknown(why=why)


def _covers(row: ArchList, version: TorchVersion) -> bool:
    return version.minor in row.releases or version.base in row.releases


def runs_on(
    torch_version: str,
    tag: str,
    platform: Platform,
    capability: str,
    *,
    channel: Channel = "wheel",
) -> Run:
    """Say whether a published build has code for a GPU.

    Raises:
        ValueError: the version, the tag or the capability cannot be read.

    """
    parse_capability(capability)
    row = arch_list(torch_version, tag, platform, channel=channel)
    if isinstance(row, Unknown):
        return Run(fit=Fit.UNKNOWN, why=row.why)
    return code_runs_on(row.archs, capability, cuda=row.cuda)


def code_runs_on(archs: Iterable[str], capability: str, *, cuda: str | None) -> Run:
    """Say whether the architectures of `torch.cuda.get_arch_list()` cover a GPU.

    Args:
        archs: `sm_NN` and `compute_NN`.
        capability: the GPU's, `9.0`.
        cuda: the CUDA version of the build, None if it is not known.

    Raises:
        ValueError: the capability or the CUDA version cannot be read.

    """
    device = parse_capability(capability)
    built_with = parse_cuda(cuda) if cuda is not None else None
    answers = [(name, _answer(name, device, built_with)) for name in archs]
    for fit in (Fit.NATIVE, Fit.PTX):
        via = [name for name, answer in answers if answer is fit]
        if via:
            return Run(fit=fit, via=max(via, key=lambda name: parse_arch(name).capability))
    doubtful = [name for name, answer in answers if answer is Fit.UNKNOWN]
    if doubtful or not answers:
        why = f"no rule says whether {', '.join(doubtful) or 'an empty list'} runs on {capability}"
        return Run(fit=Fit.UNKNOWN, why=why)
    return Run(fit=Fit.NO, why=f"none of {', '.join(name for name, _ in answers)} is for it")


def _answer(name: str, device: Capability, cuda: Cuda | None) -> Fit:
    """Judge one entry of an architecture list."""
    try:
        code = parse_arch(name)
    except ValueError:
        return Fit.UNKNOWN
    if code.suffix:
        return _answer_special(code, device)
    if code.kind == "compute":
        return Fit.PTX if device >= code.capability else Fit.NO
    return _answer_machine_code(code.capability, device, cuda)


def _answer_special(code: Arch, device: Capability) -> Fit:
    """Judge `a` code (its own capability only) and `f` code (a family that no table lists)."""
    if device == code.capability:
        return Fit.NATIVE if code.kind == "sm" else Fit.PTX
    family = code.suffix == "f" and device[0] == code.capability[0] and device > code.capability
    return Fit.UNKNOWN if family else Fit.NO


def _answer_machine_code(code: Capability, device: Capability, cuda: Cuda | None) -> Fit:
    if device == code:
        return Fit.NATIVE
    rule = _rules().get(code)
    if rule is None:
        return _answer_by_general_rule(code, device)
    if device in _capabilities(rule.also):
        return Fit.NATIVE
    if device[0] != code[0] or not code[1] <= device[1] <= rule.to_minor:
        return Fit.NO
    if device in _capabilities(rule.but):
        return _answer_jetson(code, device, cuda)
    return Fit.NATIVE


def _answer_jetson(code: Capability, device: Capability, cuda: Cuda | None) -> Fit:
    rule = table().jetson_from
    if code not in _capabilities(rule.codes) or device not in _capabilities(rule.devices):
        return Fit.NO
    if cuda is None:
        return Fit.UNKNOWN
    return Fit.NATIVE if cuda >= parse_cuda(rule.cuda) else Fit.NO


def _answer_by_general_rule(code: Capability, device: Capability) -> Fit:
    if device[0] != code[0] or device[1] < code[1]:
        return Fit.NO
    apart = _apart()
    if code in apart:
        return Fit.UNKNOWN  # code for a Jetson on a desktop GPU: no source says
    return Fit.NO if device in apart else Fit.NATIVE


@functools.cache
def _rules() -> dict[Capability, CodeRule]:
    return {parse_capability(row.on): row for row in table().runs}


@functools.cache
def _apart() -> frozenset[Capability]:
    """Devices that do not run the code of their major: the Jetsons, and 10.1, renamed to 11.0."""
    return frozenset().union(*(_capabilities(row.but) for row in table().runs))


@functools.cache
def _capabilities(texts: tuple[str, ...]) -> frozenset[Capability]:
    return frozenset(parse_capability(text) for text in texts)


def toolkit_compiles(cuda: str, capability: str) -> bool | Unknown:
    """Say whether a toolkit can compile for a capability: what extensions built here need.

    Raises:
        ValueError: `cuda` or `capability` cannot be read.

    """
    asked, (major, minor) = parse_cuda(cuda), parse_capability(capability)
    for row in table().nvcc:
        if not parse_cuda(row.first) <= asked <= parse_cuda(row.last):
            continue
        if row.sm:
            return f"{major}{minor}" in row.sm
        if not row.min_sm <= major * 10 + minor <= row.max_sm:
            return False
        return Unknown(why=f"the targets of nvcc {cuda} between its ends were not measured")
    newer = asked > parse_cuda(table().nvcc[-1].last)
    return Unknown(why=f"nvcc {cuda} is not in the tables", newer=newer)

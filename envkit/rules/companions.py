"""Whether torchvision and torchaudio belong to the torch beside them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec

from envkit.compat import tables
from envkit.compat.tables import Unknown
from envkit.model.facts import PipDistribution, SelfTest
from envkit.model.finding import Evidence
from envkit.model.observed import value_of
from envkit.model.versions import TorchVersion, cuda_tag, parse_torch
from envkit.rules.fixes import conda, install_wheel, pip
from envkit.rules.outcome import seen
from envkit.rules.requirements import requirement
from envkit.rules.subject import Subject

Companion: TypeAlias = Literal["torchvision", "torchaudio"]
COMPANIONS: tuple[Companion, ...] = ("torchvision", "torchaudio")


#: Failures that say nothing about whether the companion belongs to this torch.
_OTHER_CAUSES = re.compile(r"no kernel image|out of memory|CUDA error", re.IGNORECASE)


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What can be said of one companion."""

    wrong: Evidence | None = None
    unknown: str = ""
    absent: bool = False


def failed_tests(subject: Subject) -> list[SelfTest]:
    """Return self-tests of companions that failed."""
    return [
        one
        for one in subject.self_tests
        if one.status == "fail"
        and one.name.startswith(COMPANIONS)
        and not _OTHER_CAUSES.search(one.reason)
    ]


def judge_companion(subject: Subject, name: Companion) -> Verdict:
    """Say whether an installed companion was built for the installed torch."""
    by_pip = _distribution(subject, name)
    version = by_pip.version if by_pip is not None else subject.conda_packages.get(name)
    if version is None:
        return Verdict(absent=True)
    torch = subject.torch
    if torch is None:
        return Verdict(unknown="torch.version: it does not read like a version")
    try:
        companion = parse_torch(version)
    except ValueError:
        return Verdict(unknown=f"pip.distributions: {name} {version!r} is no version")
    if not torch.is_release or not companion.is_release or torch.kind == "other":
        return Verdict()  # nightlies and source builds are made together, and no table has them
    if torch.kind == "rocm" or companion.kind in {"rocm", "other"}:
        return Verdict()
    return (
        _by_requirement(by_pip, torch)
        or _by_table(subject, name, companion, torch)
        or _by_cuda(subject, name, companion, torch)
        or _by_unknown_system(subject, name, companion, torch)
        or Verdict()
    )


def _distribution(subject: Subject, name: str) -> PipDistribution | None:
    distributions = value_of(subject.facts.pip.distributions) or ()
    return next((one for one in distributions if one.name == name), None)


def _by_requirement(companion: PipDistribution | None, torch: TorchVersion) -> Verdict | None:
    """Judge by the companion's own metadata: it names the one torch it was built for."""
    for text in companion.requires if companion is not None else ():
        wanted = requirement(text)
        if (
            wanted is None
            or wanted.name != "torch"
            or not wanted.specifier
            or wanted.marker is not None
        ):
            continue
        if wanted.specifier.contains(torch.base, prereleases=True):
            return None
        assert companion is not None  # noqa: S101  (it has requirements)
        return Verdict(
            wrong=seen(
                f"{companion.name} {companion.version}", f"requires {text}", "its own metadata"
            )
        )
    return None


def _by_table(
    subject: Subject, name: Companion, companion: TorchVersion, torch: TorchVersion
) -> Verdict | None:
    origin: Literal["pytorch", "conda-forge"] = "pytorch"
    if subject.conda and subject.channel == "conda-forge":
        origin = "conda-forge"
    fits = tables.companion_fits(name, companion.base, torch.base, origin=origin)
    if isinstance(fits, Unknown):
        in_step = origin == "conda-forge" or _in_step(name, companion, torch)
        return None if in_step else _other_series(name, companion)
    if fits:
        return None
    wanted = tables.companions(name, torch.base, origin=origin)
    expected = "" if isinstance(wanted, Unknown) else f"; torch {torch.base} has {wanted[-1]}"
    seen_text = f"built for another torch{expected}"
    return Verdict(
        wrong=seen(f"{name} {companion.text}", seen_text, "compat/data/torch.yaml, companions")
    )


def _series(name: Companion, torch: TorchVersion) -> tuple[int, int] | None:
    """Return the companion's series for a torch series; the numbering is regular since 1.6."""
    major, minor = torch.release[:2]
    if name == "torchaudio":
        # 0.6 to 0.13 went with 1.6 to 1.13; since 2.0 the numbers are torch's own.
        return (0, minor) if major == 1 else (major, minor)
    offset = {1: 1, 2: 15}.get(major)
    return None if offset is None else (0, minor + offset)


#: From here on every torchaudio has the number of the torch it was built for.
_AUDIO_IN_STEP = (2, 1, 0)


def _in_step(name: Companion, companion: TorchVersion, torch: TorchVersion) -> bool:
    """Judge by the numbers of wheels; conda-forge builds one companion for several torches."""
    if name == "torchaudio" and torch.release >= _AUDIO_IN_STEP:
        return companion.release == torch.release
    expected = _series(name, torch)
    return expected is None or companion.release[:2] == expected


def _other_series(name: Companion, companion: TorchVersion) -> Verdict:
    source = "https://github.com/pytorch/vision#installation (versions go in step)"
    return Verdict(wrong=seen(f"{name} {companion.text}", "of another release", source))


def _by_cuda(
    subject: Subject, name: Companion, companion: TorchVersion, torch: TorchVersion
) -> Verdict | None:
    """Judge by the build tags: cu121 beside cu124, or a CPU build beside a CUDA one."""
    here = cuda_tag(torch.cuda) if torch.cuda is not None else subject.tag
    if companion.kind == "cuda" and companion.cuda is not None and here is not None:
        built = cuda_tag(companion.cuda)
    elif companion.kind == "cpu" and here is not None:
        built = "cpu"
    elif companion.kind == "cuda" and torch.kind == "cpu":
        built, here = companion.local or "cuda", "cpu"
    elif _untagged_cpu(subject, name, companion, torch):
        built = "cpu (PyPI's build for Windows)"
    else:
        return None
    if built == here:
        return None
    what = f"built for {built}, torch for {here}"
    return Verdict(wrong=seen(f"{name} {companion.text}", what, "the build tags in the versions"))


def _by_unknown_system(
    subject: Subject, name: Companion, companion: TorchVersion, torch: TorchVersion
) -> Verdict | None:
    if subject.os is None and _would_be_cpu(subject, name, companion, torch):
        return Verdict(unknown="host.os: not known; on Windows this would be a CPU build")
    return None


def _untagged_cpu(
    subject: Subject, name: Companion, companion: TorchVersion, torch: TorchVersion
) -> bool:
    """On Windows PyPI has CPU builds only, so a wheel without a tag is one of them."""
    return subject.os == "windows" and _would_be_cpu(subject, name, companion, torch)


def _would_be_cpu(
    subject: Subject, name: Companion, companion: TorchVersion, torch: TorchVersion
) -> bool:
    by_pip = _distribution(subject, name)
    return (
        torch.kind == "cuda"
        and companion.kind == "unstated"
        and by_pip is not None
        and by_pip.installer != "conda"
        and name == "torchvision"
    )


def _by_conda(subject: Subject, torch: TorchVersion, installed: Sequence[str]) -> str:
    """Pin the build, or the solver may take one for the CPU."""
    numbers = subject.cuda_numbers
    if subject.channel == "conda-forge":
        channels = ["--override-channels", "-c", "conda-forge"]
        build = "cpu*" if numbers is None else f"*cuda{numbers[0]}{numbers[1]}*"
    else:
        # Since 1.13 the CUDA of this channel's builds comes from the channel `nvidia`.
        channels = ["-c", "pytorch", *(["-c", "nvidia"] if torch.release >= (1, 13, 0) else [])]
        build = "*cpu*" if numbers is None else f"*cuda{numbers[0]}.{numbers[1]}*"
    return conda(subject, "install", *channels, f"pytorch={torch.base}={build}", *installed)


def mend(subject: Subject) -> tuple[str, str | None]:
    """Say how to get the companions of this torch, and with which command."""
    installed = [
        name for name in COMPANIONS if name in subject.packages or name in subject.conda_packages
    ]
    text = "Install the builds that belong to this torch, from where torch came from."
    torch = subject.torch
    if torch is None or not torch.is_release:
        return text, None
    if subject.conda:
        return text, _by_conda(subject, torch, installed)
    tag = cuda_tag(torch.cuda) if torch.cuda is not None else subject.tag
    if torch.kind == "cpu":
        tag = "cpu"
    if tag is not None:
        return text, install_wheel(subject, torch.base, tag)
    return text, pip(subject, f"torch=={torch.base}", *installed)

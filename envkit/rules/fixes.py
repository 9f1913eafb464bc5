"""Commands that mend the target in its own terms: conda or pip, with the right channel or index."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator
from typing import Literal

import msgspec

from envkit.compat import tables, torch_builds
from envkit.compat.tables import Fit, MachineLimits, NoBuild, Release, Requirement, Unknown
from envkit.model.observed import value_of
from envkit.model.versions import Cuda, cuda_tag, parse_driver
from envkit.rules.subject import Subject

_COMPANIONS: tuple[Literal["torchvision", "torchaudio"], ...] = ("torchvision", "torchaudio")
_CONDA_PLATFORMS = {
    "linux_x86_64": "linux_64",
    "linux_aarch64": "linux_aarch64",
    "windows": "win_64",
}
_VARIANT = re.compile(r"cuda(\d{2})(\d)")


class Advice(msgspec.Struct, frozen=True, kw_only=True):
    """A torch build to install instead, and how."""

    version: str
    cuda: str
    command: str

    def __str__(self) -> str:
        """Name the build in a sentence."""
        return f"torch {self.version} for CUDA {self.cuda}"


def newest_torch(subject: Subject) -> Advice | None:
    """Return the newest torch that the driver runs and that has code for every GPU.

    None where nothing is known of the driver, or where the tables name no such build.
    """
    if _driver(subject) is None:
        return None
    return _conda_advice(subject) if subject.conda else _wheel_advice(subject)


def _driver(subject: Subject) -> str | None:
    """Return the driver, or the oldest that it can be where CUDA works with one not named."""
    if subject.driver is not None or not subject.cuda_works or subject.cuda is None:
        return subject.driver
    least = tables.least_driver(subject.cuda, subject.system)
    return least.driver if isinstance(least, Requirement) else None


def _wheel_advice(subject: Subject) -> Advice | None:
    limits = MachineLimits(
        driver=_driver(subject) or "",
        platform=subject.platform,
        capabilities=_capabilities(subject),
        python=value_of(subject.facts.python.version),
        glibc=value_of(subject.facts.host.glibc),
    )
    try:
        found = tables.newest_torch(limits)
    except ValueError:
        return None
    if isinstance(found, NoBuild) or not driver_runs(subject, found.build.cuda):
        return None
    command = install_wheel(subject, found.torch, found.build.tag)
    return Advice(version=found.torch, cuda=found.build.cuda, command=command)


def install_wheel(subject: Subject, version: str, tag: str) -> str:
    """Return the command that puts a build of PyTorch's wheel index in place, companions too.

    Args:
        subject: the machine.
        version: of torch, `2.7.1`.
        tag: `cu126` or `cpu`.

    """
    wanted = [f"torch=={version}", *_companions(subject, version)]
    return pip(subject, *wanted, "--index-url", tables.wheel_index(tag), force=True)


def _capabilities(subject: Subject) -> tuple[str, ...]:
    found = {one.capability for one in subject.visible if one.capability is not None}
    return tuple(sorted(found))


def driver_runs(subject: Subject, cuda: str) -> bool:
    """Say whether the driver reaches what a CUDA version needs; false where it is not known."""
    driver = _driver(subject)
    if driver is None:
        return False
    needed = tables.least_driver(cuda, subject.system)
    return isinstance(needed, Requirement) and parse_driver(driver) >= needed.number


def _conda_advice(subject: Subject) -> Advice | None:
    python = value_of(subject.facts.python.version)
    for release in reversed(torch_builds.table().releases):
        if release.conda_forge.state != "published":
            continue
        if python is not None and tables.python_fits(release.version, python) is False:
            continue
        for cuda in _conda_cudas(subject, release):
            return Advice(
                version=release.version,
                cuda=f"{cuda[0]}.{cuda[1]}",
                command=install_conda(subject, release.version, f"cuda{cuda[0]}{cuda[1]}*"),
            )
    return None


def _conda_cudas(subject: Subject, release: Release) -> Iterator[Cuda]:
    """CUDA variants of a release on conda-forge that this machine runs, newest first."""
    variants = release.conda_forge.variants.get(_CONDA_PLATFORMS[subject.platform], ())
    found = {(int(one[1]), int(one[2])) for one in filter(None, map(_VARIANT.fullmatch, variants))}
    for cuda in sorted(found, reverse=True):
        if driver_runs(subject, f"{cuda[0]}.{cuda[1]}") and all(
            _conda_has_code(subject, release, cuda, capability)
            for capability in _capabilities(subject)
        ):
            yield cuda


def _conda_has_code(subject: Subject, release: Release, cuda: Cuda, capability: str) -> bool:
    run = tables.runs_on(
        release.version, cuda_tag(cuda), subject.platform, capability, channel="conda-forge"
    )
    return run.fit is Fit.NATIVE


def install_conda(subject: Subject, version: str, build: str) -> str:
    """Return the command that installs a build of torch from conda-forge, companions too."""
    # The solver picks the companions: on conda-forge one torchvision serves several torches.
    others = [one for one in _COMPANIONS if one in subject.conda_packages]
    wanted = [f"pytorch={version}={build}", *others]
    return conda(subject, "install", "--override-channels", "-c", "conda-forge", *wanted)


def _companions(subject: Subject, torch_version: str) -> Iterator[str]:
    for package in _COMPANIONS:
        if package in subject.packages or package in subject.conda_packages:
            found = tables.companions(package, torch_version)
            yield package if isinstance(found, Unknown) else f"{package}=={found[-1]}"


def pip(subject: Subject, *arguments: str, force: bool = False) -> str:
    """Return a `pip install` that reaches the target: uv's where uv installed torch."""
    python = value_of(subject.facts.python.executable)
    if value_of(subject.facts.torch.installer) == "uv":
        front = ["uv", "pip", "install", *(["--python", python] if python else [])]
        again = ["--reinstall-package", "torch"]
    else:
        front = [*([python, "-m"] if python else []), "pip", "install"]
        again = ["--force-reinstall"]
    return _line([*front, *(again if force else []), *arguments])


def pip_uninstall(subject: Subject, *names: str) -> str:
    """Return a `pip uninstall` that reaches the target."""
    python = value_of(subject.facts.python.executable)
    if value_of(subject.facts.torch.installer) == "uv":
        return _line(["uv", "pip", "uninstall", *(["--python", python] if python else []), *names])
    return _line([*([python, "-m"] if python else []), "pip", "uninstall", "-y", *names])


def conda(subject: Subject, command: str, *arguments: str) -> str:
    """Return a conda command for the target's prefix."""
    prefix = value_of(subject.facts.conda.prefix)
    return _line(["conda", command, *(["-p", prefix] if prefix else []), *arguments])


def change_package(subject: Subject, name: str, version: str) -> str:
    """Return the command that installs one package, `version` written as pip does (`<2`)."""
    if name in subject.conda_packages and name not in _by_pip(subject):
        wanted = f"{name}{version.replace('==', '=')}"
        return conda(subject, "install", *from_channel(subject, name), wanted)
    return pip(subject, f"{name}{version}")


def from_channel(subject: Subject, name: str) -> tuple[str, ...]:
    """Return the option that names the channel from which conda installed a package."""
    records = value_of(subject.facts.conda.packages) or ()
    found = next((one.channel for one in records if one.name == name), "")
    return ("-c", found) if found and found != "pypi" else ()


def same_torch(subject: Subject) -> str | None:
    """Return the command that installs this very build once more, companions too."""
    torch = subject.torch
    if torch is None or not subject.upstream:
        return None
    if subject.conda:
        return same_conda_torch(subject)
    tag = "cpu" if torch.kind == "cpu" else cuda_tag(torch.cuda) if torch.cuda else subject.tag
    return None if tag is None else install_wheel(subject, torch.base, tag)


def same_conda_torch(subject: Subject) -> str | None:
    """Return the command that installs conda's own build of torch once more."""
    records = value_of(subject.facts.conda.packages) or ()
    record = next((one for one in records if one.name == "pytorch"), None)
    if record is None:
        return None
    wanted = f"pytorch={record.version}={record.build}" if record.build else "pytorch"
    channel = from_channel(subject, "pytorch")
    return conda(subject, "install", "--force-reinstall", *channel, wanted)


def set_variable(subject: Subject, name: str, value: str) -> str:
    """Return how the shell of this system sets a variable."""
    if subject.os == "windows":
        return f"set {name}={value}"
    return f"export {name}={value if value.replace('_', '').isalnum() else shlex.quote(value)}"


def unset_variable(subject: Subject, name: str) -> str:
    """Return how the shell of this system removes a variable."""
    return f"set {name}=" if subject.os == "windows" else f"unset {name}"


def _by_pip(subject: Subject) -> set[str]:
    distributions = value_of(subject.facts.pip.distributions) or ()
    return {one.name for one in distributions if one.installer not in {"conda", ""}}


def _line(words: Iterable[str]) -> str:
    # A leading ~ has to stay bare, or the shell does not expand it.
    return " ".join(one if one.startswith("~/") else shlex.quote(one) for one in words)

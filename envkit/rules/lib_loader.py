"""Rules about what the loader finds, or will: MKL, nvJitLink, NCCL, the C and C++ libraries."""

from __future__ import annotations

import re

from packaging.version import InvalidVersion, Version

from envkit.compat import tables
from envkit.compat.tables import Build, Release
from envkit.model.facts import CondaPackage
from envkit.model.finding import Evidence, Severity
from envkit.model.observed import Absent, Known, NotApplicable, Unreadable, value_of
from envkit.rules.cite import cite
from envkit.rules.fixes import conda, from_channel, newest_torch
from envkit.rules.loader import import_evidence, loader_fix, without_cuda
from envkit.rules.outcome import Fired, Outcome, fix, missing, passed, seen, skipped, undecided
from envkit.rules.rule import Rule
from envkit.rules.subject import Subject

# -- LIB005 to LIB008: told by the loader, or foreseeable ------------------------------------------

_FIRST_MKL_WITHOUT = (2024, 1)
#: The `pytorch` channel's torch asks for an mkl below 2024.1 from 2.4 on.
_FIRST_TORCH_CAPPED = (2, 4)


def _lib005(subject: Subject) -> Outcome:
    mkl = subject.conda_packages.get("mkl")
    if "iJIT_NotifyEvent" in subject.import_words:
        evidence = [import_evidence(subject)]
        if mkl:
            evidence.append(seen("mkl", mkl, "conda-meta"))
        return _mkl_finding(subject, evidence)
    if subject.imported:
        return passed("torch imports: measured")
    package = _conda_torch(subject)
    if package is None or mkl is None:
        if isinstance(subject.facts.conda.packages, Unreadable):
            return missing("conda.packages", subject.facts.conda.packages)
        return skipped("torch is no conda package that is linked to conda's mkl")
    if not _needs_old_mkl(package) or not _at_least(mkl, _FIRST_MKL_WITHOUT):
        return passed(f"mkl {mkl} serves conda pytorch {package.version}")
    return _mkl_finding(
        subject,
        [
            seen("mkl", mkl, "conda-meta"),
            seen("torch", f"conda pytorch {package.version} from {package.channel}", "conda-meta"),
        ],
    )


def _conda_torch(subject: Subject) -> CondaPackage | None:
    records = value_of(subject.facts.conda.packages) or ()
    return next((one for one in records if one.name == "pytorch"), None)


def _needs_old_mkl(package: CondaPackage) -> bool:
    from_there = package.channel.rstrip("/").rpartition("/")[2] in {"pytorch", "pytorch-nightly"}
    return from_there and not _at_least(package.version, _FIRST_TORCH_CAPPED)


def _at_least(version: str, least: tuple[int, int]) -> bool:
    try:
        return Version(version).release[:2] >= least
    except InvalidVersion:
        return False


def _mkl_finding(subject: Subject, evidence: list[Evidence]) -> Fired:
    return Fired(
        reason="this torch needs a symbol that mkl 2024.1 dropped",
        evidence=tuple(evidence),
        fix=fix(
            "Install an mkl below 2024.1.",
            conda(subject, "install", *from_channel(subject, "mkl"), "mkl<2024.1"),
        ),
    )


LIB005 = Rule(
    code="LIB005",
    title="MKL without iJIT_NotifyEvent (mkl 2024.1 or newer) with a torch that needs it",
    severity=Severity.ERROR,
    check=_lib005,
    requires=("TOR001",),
    url="https://github.com/pytorch/pytorch/issues/123097",
)


def _lib006(subject: Subject) -> Outcome:
    if re.search(r"__nvJitLink\w+|libnvJitLink", subject.import_words):
        versions = [
            seen(name, subject.packages[name], "pip.distributions")
            for name in sorted(subject.packages)
            if re.match(r"nvidia-(nvjitlink|cusparse)-cu", name)
        ]
        return Fired(
            reason="cuSPARSE found an older nvJitLink than its own",
            evidence=(import_evidence(subject), *versions),
            fix=loader_fix(subject, "nvJitLink"),
        )
    return _told_by_import(subject, "cuSPARSE and nvJitLink")


def _told_by_import(subject: Subject, what: str) -> Outcome:
    failure = subject.facts.torch.import_failure
    if subject.imported or isinstance(failure, Known):
        return passed(f"the loader did not complain about {what}")
    if isinstance(failure, NotApplicable):
        return skipped(f"torch.import_failure: {failure.reason}")
    return missing("torch.import_failure", failure)


LIB006 = Rule(
    code="LIB006",
    title="nvJitLink and cuSPARSE are of different versions",
    severity=Severity.ERROR,
    check=_lib006,
    gate=without_cuda,
    requires=("TOR001", "GPU008"),
    follows=("LIB003", "LIB002"),
    url="https://github.com/pytorch/pytorch/issues/134929",
)


def _lib007(subject: Subject) -> Outcome:
    if re.search(
        r"undefined symbol: nccl\w+|libnccl\S*: (undefined|version)", subject.import_words
    ):
        evidence = [import_evidence(subject)]
        evidence += [
            seen(name, version, "pip.distributions")
            for name, version in sorted(subject.packages.items())
            if name.startswith("nvidia-nccl")
        ]
        return Fired(
            reason="torch found another NCCL than it was built with",
            evidence=tuple(evidence),
            fix=loader_fix(subject, "NCCL"),
        )
    return _told_by_import(subject, "NCCL")


LIB007 = Rule(
    code="LIB007",
    title="torch found an NCCL that it was not built with",
    severity=Severity.ERROR,
    check=_lib007,
    gate=without_cuda,
    requires=("TOR001", "GPU008"),
    follows=("LIB003", "LIB002"),
    url="https://github.com/pytorch/pytorch/issues/119932",
)

_LIBC = re.compile(r"version [`'\"]?((GLIBC|GLIBCXX|CXXABI)_[0-9.]+)['\"]? not found")


def _lib008(subject: Subject) -> Outcome:
    said = _LIBC.search(subject.import_words)
    if said is not None:
        return _missing_symbol(subject, said[1])
    failure = subject.facts.torch.import_failure
    if isinstance(failure, Absent):
        return passed("torch imports: measured")
    if not subject.imported:
        return _by_host(subject)
    # It was imported at some time, though nobody recorded how: no table speaks against that.
    foreseen = _by_host(subject)
    if isinstance(foreseen, Fired) and not isinstance(failure, Known):
        return missing("torch.import_failure", failure)
    return foreseen


def _by_host(subject: Subject) -> Outcome:
    if subject.os not in {"linux", "wsl", None}:
        return skipped("no GNU C library here")
    for path, fact in (("os", subject.facts.host.os), ("glibc", subject.facts.host.glibc)):
        if not isinstance(fact, Known):
            return missing(f"host.{path}", fact)
    return _foresee(subject)


def _missing_symbol(subject: Subject, symbol: str) -> Fired:
    mend = (
        "Use a newer system or a container with one, or a torch for this one."
        if symbol.startswith("GLIBC_")
        else "Install the environment's own C++ library (libstdcxx-ng), or unset LD_LIBRARY_PATH."
    )
    return Fired(reason=f"{symbol} is missing", evidence=(import_evidence(subject),), fix=fix(mend))


def _foresee(subject: Subject) -> Outcome:
    """Compare the host's C library with the one that the wheel needs."""
    if subject.conda or subject.torch is None or not subject.upstream:
        return skipped("torch is no wheel of the tables")
    release = tables.release_of(subject.torch.base)
    glibc = subject.facts.host.glibc
    if not isinstance(release, Release) or not isinstance(glibc, Known):
        return undecided("the tables do not have this torch")
    return _compare_glibc(subject, release, glibc)


def _compare_glibc(subject: Subject, release: Release, glibc: Known[str]) -> Outcome:
    build = tables.build_of(release.version, subject.tag) if subject.tag else None
    needed = (build.glibc_min if isinstance(build, Build) else None) or release.wheel.glibc_min
    try:
        enough = Version(glibc.value) >= Version(needed)
    except InvalidVersion:
        return undecided(f"host.glibc: {glibc.value!r} is no version")
    if enough:
        return passed(f"glibc {glibc.value} is not older than {needed}")
    advice = newest_torch(subject)
    text = "Use a newer system or a container with one"
    return Fired(
        reason=f"glibc {glibc.value} is older than {needed}",
        evidence=(
            seen("glibc of the host", glibc.value, glibc.source),
            seen(
                f"glibc that the wheel of torch {release.version} needs",
                needed,
                cite("torch", f"releases {release.version}", release),
            ),
        ),
        fix=fix(
            f"{text}; or install {advice}." if advice else f"{text}.",
            advice.command if advice else None,
        ),
    )


LIB008 = Rule(
    code="LIB008",
    title="The C or C++ library is too old for this torch, or the wrong one",
    severity=Severity.ERROR,
    check=_lib008,
    reads=("torch.version",),
    requires=("TOR001",),
    url="https://github.com/pytorch/pytorch/issues/123649",
)

RULES = (LIB005, LIB006, LIB007, LIB008)

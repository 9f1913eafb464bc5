"""Rules about what is beside torch: Python, NumPy, triton, extensions; and what is known of it."""

from __future__ import annotations

import re
from typing import Literal

from packaging.version import InvalidVersion, Version

from envkit.compat import python_series, tables
from envkit.compat.tables import NumpyGeneration, Release, Unknown
from envkit.model.finding import Severity
from envkit.model.observed import Absent, Known, Unreadable, value_of
from envkit.model.versions import parse_torch
from envkit.rules import companions, extensions
from envkit.rules.cite import cite
from envkit.rules.fixes import change_package, newest_torch
from envkit.rules.memory import did_fail, what_did_not_fit
from envkit.rules.outcome import Fired, Outcome, fix, missing, passed, seen, skipped, undecided
from envkit.rules.requirements import satisfies
from envkit.rules.rule import Rule
from envkit.rules.subject import Subject, source_of

_RELEASES = "https://github.com/pytorch/pytorch/blob/main/RELEASE.md"

# -- TOR006, TOR007, TOR008, TOR009 -------------------------------------------------------------


def _tor006(subject: Subject) -> Outcome:
    python = value_of(subject.facts.python.version) or ""
    found = re.match(r"(\d+)\.(\d+)", python)
    if found is None:
        return undecided(f"python.version: {python!r} is no version")
    series = found[0]
    release = _release(subject)
    evidence = [seen("Python", python, source_of(subject.facts.python.version))]
    reasons = []
    if isinstance(release, Release) and series not in release.python:
        reasons.append(f"torch {release.version} has no wheel for Python {series}")
        source = cite("torch", f"releases {release.version}", release)
        evidence.append(seen("Pythons with wheels", ", ".join(release.python), source))
    last_day = python_series.ended((int(found[1]), int(found[2])))
    if last_day is not None:
        reasons.append(f"Python {series} ended on {last_day}")
        evidence.append(seen("end of life", last_day, python_series.SOURCE))
    if not reasons:
        return (
            undecided(release.why)
            if isinstance(release, Unknown)
            else passed(f"torch {release.version} has wheels for Python {series}")
        )
    return Fired(
        reason="; ".join(reasons),
        evidence=tuple(evidence),
        fix=fix("Make a new environment with a Python that this torch was released for."),
    )


def _release(subject: Subject) -> Release | Unknown:
    if subject.torch is None:
        return Unknown(why="torch.version: it does not read like a version")
    return tables.release_of(subject.torch.text)


TOR006 = Rule(
    code="TOR006",
    title="A Python that this torch was not released for, or past its end of life",
    severity=Severity.WARNING,
    check=_tor006,
    reads=("torch.version", "python.version"),
    requires=("TOR001",),
    url=_RELEASES,
)


def _tor007(subject: Subject) -> Outcome:
    numpy = _numpy(subject)
    if numpy is None:
        if isinstance(subject.facts.torch.numpy, Absent) or subject.packages:
            return skipped("NumPy is not installed")
        return missing("torch.numpy", subject.facts.torch.numpy)
    return _judge_numpy(subject, numpy)


def _judge_numpy(subject: Subject, numpy: str) -> Outcome:
    try:
        old = Version(numpy).major < 2  # noqa: PLR2004  (NumPy 2)
    except InvalidVersion:
        return undecided(f"torch.numpy: {numpy!r} is no version")
    row = _numpy_row(subject)
    if old:
        return passed(f"NumPy {numpy}")
    if isinstance(row, Unknown):
        return passed(row.why) if row.newer else undecided(row.why)
    if row.numpy > 1:
        return passed(f"{subject.torch_text} is built for NumPy 2")
    return _numpy_2(subject, numpy, row)


def _numpy(subject: Subject) -> str | None:
    imported = value_of(subject.facts.torch.numpy)
    return imported or subject.packages.get("numpy") or subject.conda_packages.get("numpy")


def _numpy_2(subject: Subject, numpy: str, row: NumpyGeneration) -> Fired:
    failed = any(one.status == "fail" and "numpy" in one.name.lower() for one in subject.self_tests)
    return Fired(
        reason=f"NumPy {numpy} with a torch built for NumPy 1",
        evidence=(
            seen("NumPy", numpy, source_of(subject.facts.torch.numpy)),
            seen("torch", subject.torch_text, source_of(subject.facts.torch.version)),
            seen("built for", "NumPy 1", cite("torch", "numpy", row)),
        ),
        fix=fix(
            "Install NumPy 1 (tensors otherwise cannot become arrays), or a newer torch.",
            change_package(subject, "numpy", "<2"),
        ),
        severity=Severity.ERROR if failed else None,
    )


def _numpy_row(subject: Subject) -> NumpyGeneration | Unknown:
    if subject.torch is None:
        return Unknown(why="torch.version: it does not read like a version")
    platform: Literal["linux", "windows", "conda-forge"] = "linux"
    if subject.conda and subject.channel == "conda-forge":
        platform = "conda-forge"
    elif subject.os == "windows":
        platform = "windows"
    return tables.numpy_generation(subject.torch.text, platform)


TOR007 = Rule(
    code="TOR007",
    title="NumPy 2 with a torch that was built for NumPy 1",
    severity=Severity.WARNING,
    check=_tor007,
    reads=("torch.version",),
    requires=("TOR001",),
    varies="error where the self-test with NumPy failed",
    url="https://github.com/pytorch/pytorch/issues/107302",
)


def _tor008(subject: Subject) -> Outcome:
    if subject.torch is None:
        return undecided("torch.version: it does not read like a version")
    newest = tables.newest_release()
    if subject.torch.release <= parse_torch(newest).release:
        return passed(f"the tables go up to {newest}")
    return Fired(
        reason=f"{subject.torch_text} is newer than the tables",
        evidence=(
            seen("torch", subject.torch_text, source_of(subject.facts.torch.version)),
            seen(
                "newest in the tables", newest, f"compat/data/torch.yaml of {tables.tables_date()}"
            ),
        ),
        fix=fix("Update envkit; until then it judges by what it measures, not by tables."),
    )


TOR008 = Rule(
    code="TOR008",
    title="torch is newer than the tables",
    severity=Severity.INFO,
    check=_tor008,
    reads=("torch.version",),
    requires=("TOR001",),
    url=_RELEASES,
)


def _tor009(subject: Subject) -> Outcome:
    of_others = companions.failed_tests(subject)
    failed = [one for one in subject.self_tests if did_fail(subject, one) and one not in of_others]
    if not failed and (short := what_did_not_fit(subject)):
        return undecided(f"torch.self_tests: {short}")
    if not failed:
        ran = [one for one in subject.self_tests if one.status == "pass"]
        return (
            passed(f"{len(ran)} self-tests gave the right answer")
            if ran
            else skipped("no self-test was run")
        )
    return Fired(
        reason="a self-test failed or gave a wrong result",
        evidence=tuple(
            seen(f"self-test {one.name}", one.reason or "failed", "torch.self_tests")
            for one in failed
        ),
        fix=fix(
            "Do not compute here before this is mended. See the cause named above if there is "
            "one; otherwise try another build of torch, then another driver."
        ),
    )


TOR009 = Rule(
    code="TOR009",
    title="A self-test gave a wrong result or failed",
    severity=Severity.ERROR,
    check=_tor009,
    reads=("torch.self_tests",),
    requires=("TOR001", "TOR002"),
    follows=(
        "GPU002", "LIB009", "LIB001", "DRV010", "GPU009", "TOR007", "LIB003", "ALC003", "ALC002",
    ),
    url="https://pytorch.org/docs/stable/notes/numerical_accuracy.html",
)  # fmt: skip

# -- TOR010 to TOR013 -----------------------------------------------------------------------------


def _tor010(subject: Subject) -> Outcome:
    if subject.conda:
        return skipped("conda keeps triton and torch together")
    distributions = subject.facts.pip.distributions
    if isinstance(distributions, Unreadable):
        return missing("pip.distributions", distributions)
    installed = subject.packages.get("triton")
    if installed is None:
        return skipped("triton is not among the Python distributions")
    pinned = extensions.pin_of(subject, "triton")
    if pinned is None:
        return undecided("pip.distributions: nothing says which triton this torch wants")
    if satisfies(installed, pinned.specifier):
        return passed(f"triton {installed} is what torch asks for")
    return Fired(
        reason=f"triton {installed}, and torch asks for {pinned.specifier}",
        evidence=(
            seen("triton", installed, source_of(subject.facts.pip.distributions)),
            seen(f"{subject.torch_text} asks for", f"triton{pinned.specifier}", pinned.source),
        ),
        fix=fix(
            "Install the triton that belongs to this torch: torch.compile uses it.",
            change_package(subject, "triton", pinned.specifier),
        ),
    )


TOR010 = Rule(
    code="TOR010",
    title="triton does not belong to this torch",
    severity=Severity.WARNING,
    check=_tor010,
    reads=("torch.version",),
    requires=("TOR001", "GPU008"),
    url="https://github.com/pytorch/pytorch/blob/main/RELEASE.md#triton",
)


def _tor011(subject: Subject) -> Outcome:
    found = extensions.foreign_extensions(subject)
    failed = [
        one
        for one in subject.self_tests
        if one.status == "fail" and one.name.startswith("extension")
    ]
    if not found and not failed:
        return passed("no extension says that it was built for another torch or CUDA")
    evidence = [
        seen(f"{one.name} {one.version}", f"built for {one.built_for}", "its version")
        for one in found
    ]
    evidence += [seen(one.name, one.reason, "torch.self_tests") for one in failed]
    build = f"{subject.torch_text}, CUDA {subject.cuda}"
    evidence.append(seen("torch", build, source_of(subject.facts.torch.version)))
    return Fired(
        reason="an extension was built for another torch or CUDA",
        evidence=tuple(evidence),
        fix=fix(
            "Install a build of the extension for this torch and CUDA, or build it here against "
            "this torch (pip install --no-build-isolation --no-binary)."
        ),
        severity=Severity.ERROR if failed else None,
    )


TOR011 = Rule(
    code="TOR011",
    title="An extension was built for another torch, CUDA or architecture",
    severity=Severity.WARNING,
    check=_tor011,
    reads=("torch.version", "pip.distributions"),
    requires=("TOR001", "GPU008"),
    varies="error where the extension was seen to fail",
    url="https://pytorch.org/docs/stable/cpp_extension.html",
)


_DEFAULT_WENT_TO = (13, 0)


def _tor012(subject: Subject) -> Outcome:
    if subject.torch is None or subject.cuda_numbers is None:
        return skipped("no CUDA build of a known version")
    release = tables.release_of(subject.torch.base)
    if isinstance(release, Unknown):
        return undecided(release.why) if not release.newer else passed(release.why)
    default = release.pypi_default.get(subject.platform)
    if subject.channel not in {"pypi", None} or default != subject.tag:
        return passed("not the build that plain pip installs")
    if subject.cuda_numbers < _DEFAULT_WENT_TO:
        return passed("the default build of this release is no CUDA 13 build")
    judged = tables.driver_fit(subject.cuda or "", subject.driver or "", subject.system)
    if judged.level != "too_old":
        return passed("the driver runs the build that plain pip installs")
    advice = newest_torch(subject)
    source = cite("torch", f"releases {release.version} pypi_default", release)
    return Fired(
        reason=f"plain `pip install torch` gave {default}",
        evidence=(
            seen(f"default build of torch {release.version}", default or "", source),
            seen("driver", subject.driver or "", source_of(subject.facts.driver.version)),
        ),
        fix=fix(
            "Name the wheel index, so that an unpinned install cannot change the CUDA version "
            "(PyPI's default went to CUDA 13.0 in torch 2.11.0 and to 13.2 in 2.15.0).",
            advice.command if advice else None,
        ),
    )


TOR012 = Rule(
    code="TOR012",
    title="An unpinned install brought a CUDA 13 build that the driver does not run",
    severity=Severity.INFO,
    check=_tor012,
    gate=lambda subject: (
        undecided("driver.version: it does not read like a driver version")
        if isinstance(subject.facts.driver.version, Known) and subject.driver is None
        else skipped("there is no driver")
        if isinstance(subject.facts.driver.version, Absent)
        else None
    ),
    reads=("torch.version", "torch.cuda", "driver.version"),
    requires=("TOR001", "GPU001", "GPU008", "DRV004"),
    follows=("DRV002",),
    url=_RELEASES,
)


def _tor013(subject: Subject) -> Outcome:
    if subject.torch is None:
        return undecided("torch.version: it does not read like a version")
    if subject.cuda_works is False:
        return skipped("CUDA does not work here")
    found = extensions.regressions(subject)
    for name in extensions.REGRESSED.get(subject.torch.release[:2], ()) if not found else ():
        fact = getattr(subject.facts.torch, name)
        if isinstance(fact, Unreadable):
            return missing(f"torch.{name}", fact)
    if not found:
        return passed("no memory regression of this version is known")
    return Fired(
        reason="; ".join(one.what for one in found),
        evidence=(
            seen("torch", subject.torch_text, source_of(subject.facts.torch.version)),
            *(seen("known regression", one.what, one.source) for one in found),
        ),
        fix=fix(" ".join(one.remedy for one in found)),
        severity=None if any(one.on_gpu for one in found) else Severity.INFO,
        title=f"Known memory regression of this torch: {found[0].what}",
    )


TOR013 = Rule(
    code="TOR013",
    title="This torch is known to use more memory than its neighbours",
    severity=Severity.WARNING,
    check=_tor013,
    reads=("torch.version",),
    requires=("TOR001", "TOR002", "GPU001", "GPU008"),
    varies="info where only host memory is concerned",
    url="https://github.com/pytorch/pytorch/issues/166643",
)

RULES = (TOR006, TOR007, TOR008, TOR009, TOR010, TOR011, TOR012, TOR013)

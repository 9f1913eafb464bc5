"""Rules about torch itself: is it there, does it import, is it the right build, is it alone."""

from __future__ import annotations

from envkit.compat import tables
from envkit.compat.tables import Unknown
from envkit.model.facts import PipDistribution
from envkit.model.finding import Evidence, Fix, Severity
from envkit.model.observed import Absent, Known, NotApplicable, Unreadable, value_of
from envkit.model.versions import parse_torch
from envkit.rules import companions
from envkit.rules.cite import cite
from envkit.rules.fixes import (
    conda,
    newest_torch,
    pip_uninstall,
    same_conda_torch,
    same_torch,
)
from envkit.rules.import_failure import classify, missing_library
from envkit.rules.outcome import Fired, Outcome, fix, missing, passed, seen, skipped, undecided
from envkit.rules.rule import Rule
from envkit.rules.subject import Subject, source_of

_START = "https://pytorch.org/get-started/locally/"
_RELEASES = "https://github.com/pytorch/pytorch/blob/main/RELEASE.md"

#: Findings whose fix is another torch than the one that is here.
_ANOTHER_TORCH = ("DRV002", "GPU002", "TOR003", "DRV010")

# -- TOR001, TOR002, TOR003 ---------------------------------------------------------------------


def _tor001(subject: Subject) -> Outcome:
    torch = subject.facts.torch
    match torch.version:
        case Known():
            return passed(f"{subject.torch_text} is installed")
        case NotApplicable():
            return skipped(f"torch.version: {torch.version.reason}")
        case Unreadable():
            there = isinstance(torch.cuda, Known) or isinstance(torch.import_failure, Known)
            if subject.imported or there:
                return passed("torch is there; its version is not known")
            return undecided(f"torch.version: {torch.version.reason}")
        case Absent():
            pass
    advice = newest_torch(subject)
    known = f"; {advice} is the newest that runs on this driver" if advice else ""
    return Fired(
        reason="torch is not installed",
        evidence=(seen("torch", "not installed", source_of(torch.version)),),
        fix=fix(f"Install torch, or name the environment that has it{known}.", _plain(subject)),
    )


def _plain(subject: Subject) -> str | None:
    advice = newest_torch(subject)
    return advice.command if advice is not None else None


TOR001 = Rule(
    code="TOR001",
    title="torch is not installed in the target",
    severity=Severity.INFO,
    check=_tor001,
    url=_START,
)


def _tor002(subject: Subject) -> Outcome:
    failure = value_of(subject.facts.torch.import_failure)
    if failure is None:
        return passed("torch imports")
    kind = classify(subject.import_words, failure.how)
    lacking = missing_library(subject.import_words)
    return Fired(
        reason=f"import torch {failure.how.replace('_', ' ')}: {kind.name}",
        evidence=(
            seen("import torch", failure.how.replace("_", " "), "child process"),
            seen("message", failure.message, source_of(subject.facts.torch.import_failure)),
            seen("kind", kind.name, "the words of the message"),
        ),
        fix=fix(
            f"{lacking} is missing. {kind.advice}" if lacking else kind.advice,
            same_torch(subject) if kind.torch_again else None,
        ),
    )


TOR002 = Rule(
    code="TOR002",
    title="torch cannot be imported",
    severity=Severity.ERROR,
    check=_tor002,
    reads=("torch.import_failure",),
    requires=("TOR001",),
    follows=("LIB005", "LIB006", "LIB007", "LIB008", "LIB001", "TOR004", "LIB003", "LIB002"),
    mended_by=_ANOTHER_TORCH,
    url="https://pytorch.org/get-started/locally/#verification",
)


def _tor003(subject: Subject) -> Outcome:
    if not subject.cpu_build:
        cuda = subject.facts.torch.cuda
        if isinstance(cuda, Known):
            return passed(f"a build for CUDA {cuda.value}")
        return missing("torch.cuda", cuda)
    devices, driver = subject.facts.gpus.devices, subject.facts.driver.version
    if isinstance(driver, Unreadable) and subject.gpus:
        why = f"driver.version: {driver.reason}; a GPU is listed, and this torch is a CPU build"
        return undecided(why, against=True)
    for path, fact in (("gpus.devices", devices), ("driver.version", driver)):
        if isinstance(fact, (Unreadable, NotApplicable)):
            return missing(path, fact)
    if not subject.gpus or not isinstance(driver, Known):
        return skipped("no GPU with a driver is listed")
    return _cpu_on_gpu(subject, driver)


def _cpu_on_gpu(subject: Subject, driver: Known[str]) -> Fired:
    advice = newest_torch(subject)
    names = ", ".join(sorted({one.name for one in subject.listed}))
    text = f"Install {advice}." if advice else "Install a CUDA build of torch."
    command = advice.command if advice else None
    if "cpuonly" in subject.conda_packages:
        text += " Remove `cpuonly` first: it keeps every later install a CPU build."
        if command is not None:
            command = f"{conda(subject, 'remove', 'cpuonly')} && {command}"
    return Fired(
        reason="a CPU build on a machine with a working NVIDIA GPU",
        evidence=(
            seen("torch", f"{subject.torch_text}, no CUDA", source_of(subject.facts.torch.version)),
            seen("GPU", names, source_of(subject.facts.gpus.devices)),
            seen("driver", driver.value, driver.source),
            *_cpu_marks(subject),
        ),
        fix=fix(text, command),
    )


def _cpu_marks(subject: Subject) -> list[Evidence]:
    """Show what made it a CPU build, where the packages do."""
    records = value_of(subject.facts.conda.packages) or ()
    marks = [
        seen(
            "conda build", f"{one.name} {one.version} {one.build} from {one.channel}", "conda-meta"
        )
        for one in records
        if one.name == "pytorch"
    ]
    if "cpuonly" in subject.conda_packages:
        marks.append(seen("package", "cpuonly is installed", "conda-meta"))
    release = tables.release_of(subject.torch.base) if subject.torch else None
    if subject.channel == "pypi" and release is not None and not isinstance(release, Unknown):
        default = release.pypi_default.get(subject.platform)
        if default is not None:
            source = cite("torch", f"releases {release.version}", release)
            marks.append(seen(f"PyPI's wheel for {subject.platform}", default, source))
    return marks


TOR003 = Rule(
    code="TOR003",
    title="CPU-only torch on a machine with a working NVIDIA GPU",
    severity=Severity.ERROR,
    check=_tor003,
    requires=("TOR001", "GPU001", "GPU008"),
    url=_START,
)

# -- TOR004, TOR005 ---------------------------------------------------------------------------


def _said_by_con007(subject: Subject) -> Outcome | None:
    """Skip where a lock or spec was named and pip's torch lies over conda's."""
    contract, overlaps = subject.facts.contract, value_of(subject.facts.files.overlaps) or ()
    named = isinstance(contract.packages, Known) or isinstance(contract.dependencies, Known)
    if named and any(one.name == "torch" for one in overlaps):
        return skipped("CON007 says it")
    return None


def _tor004(subject: Subject) -> Outcome:
    by_conda = subject.conda_packages.get("pytorch")
    wheels = _torch_wheels(subject)
    copies = [*([f"conda pytorch {by_conda}"] if by_conda else []), *_by_pip(subject, wheels)]
    imported = subject.torch
    strange = imported is not None and _other_release(imported.base, wheels, by_conda)
    if len(copies) < 2 and not strange:  # noqa: PLR2004  (two copies)
        distributions = subject.facts.pip.distributions
        if isinstance(distributions, Unreadable) and by_conda is None:
            return missing("pip.distributions", distributions)
        return passed("one torch")
    evidence = [seen("installed", one, "conda-meta, *.dist-info") for one in copies]
    if imported is not None:
        evidence.append(
            seen("imported", subject.torch_text, source_of(subject.facts.torch.version))
        )
    return Fired(
        reason="more than one torch",
        evidence=tuple(evidence),
        fix=_one_torch(subject, by_conda=by_conda is not None),
        title=None if len(copies) > 1 else "Another torch than the installed one is imported",
    )


def _by_pip(subject: Subject, wheels: list[PipDistribution]) -> list[str]:
    """Describe pip's copies: as its own records say, else as conda lists them."""
    if wheels:
        return [f"torch {one.version} in {one.location or 'site-packages'}" for one in wheels]
    records = value_of(subject.facts.conda.packages) or ()
    return [
        f"torch {one.version} by pip"
        for one in records
        if one.channel == "pypi" and one.name == "torch"
    ]


def _one_torch(subject: Subject, *, by_conda: bool) -> Fix:
    if not by_conda:
        return fix("Remove all copies, PYTHONPATH and user site included; install one.")
    again = same_conda_torch(subject)
    return fix(
        "Make the environment afresh; or remove pip's copy and let conda install its own.",
        f"{pip_uninstall(subject, 'torch')} && {again}" if again else None,
    )


def _torch_wheels(subject: Subject) -> list[PipDistribution]:
    """Torch distributions that are not conda's own record of its package."""
    by_conda = subject.conda_packages.get("pytorch")
    found = []
    for one in value_of(subject.facts.pip.distributions) or ():
        if one.name != "torch" or one.installer == "conda":
            continue
        own_record = by_conda is not None and one.installer == "" and _same(one.version, by_conda)
        if not own_record:
            found.append(one)
    return found


def _same(one: str, other: str) -> bool:
    try:
        return parse_torch(one).base == parse_torch(other).base
    except ValueError:
        return one == other


def _other_release(base: str, wheels: list[PipDistribution], by_conda: str | None) -> bool:
    installed = [one.version for one in wheels] + ([by_conda] if by_conda else [])
    return bool(installed) and not any(_same(base, version) for version in installed)


TOR004 = Rule(
    code="TOR004",
    title="Two torches in one environment",
    severity=Severity.WARNING,
    check=_tor004,
    gate=_said_by_con007,
    requires=("TOR001",),
    url="https://docs.conda.io/projects/conda/en/stable/user-guide/tasks/manage-environments.html",
)


def _tor005(subject: Subject) -> Outcome:
    failed = companions.failed_tests(subject)
    verdicts = [companions.judge_companion(subject, name) for name in companions.COMPANIONS]
    wrong = [one.wrong for one in verdicts if one.wrong is not None]
    if not wrong and not failed:
        return _belong(subject, verdicts)
    text, command = companions.mend(subject)
    return Fired(
        reason="a companion package belongs to another torch",
        evidence=(
            seen("torch", subject.torch_text, source_of(subject.facts.torch.version)),
            *wrong,
            *(
                seen(f"self-test {one.name}", one.reason or "failed", "torch.self_tests")
                for one in failed
            ),
        ),
        fix=fix(text, command),
        severity=Severity.ERROR if failed else None,
    )


def _belong(subject: Subject, verdicts: list[companions.Verdict]) -> Outcome:
    unknown = next((one.unknown for one in verdicts if one.unknown), "")
    if unknown:
        return undecided(unknown)
    if not all(one.absent for one in verdicts):
        return passed("torchvision and torchaudio belong to this torch")
    distributions = subject.facts.pip.distributions
    if isinstance(distributions, Unreadable) and not subject.conda_packages:
        return missing("pip.distributions", distributions)
    return skipped("neither torchvision nor torchaudio is installed")


TOR005 = Rule(
    code="TOR005",
    title="torchvision or torchaudio does not belong to this torch",
    severity=Severity.WARNING,
    check=_tor005,
    reads=("torch.version",),
    requires=("TOR001",),
    follows=("TOR004",),
    mended_by=_ANOTHER_TORCH,
    varies="error where its import or its operators were seen to fail",
    url="https://github.com/pytorch/vision#installation",
)

RULES = (TOR001, TOR002, TOR003, TOR004, TOR005)

"""Rules about the libraries torch runs on: nvidia-* wheels, OpenMP, and where they come from."""

from __future__ import annotations

import re

from envkit.model.facts import MappedLibrary
from envkit.model.finding import Evidence, Fix, Severity
from envkit.model.observed import Unreadable
from envkit.rules.extensions import Pin, pins
from envkit.rules.fixes import pip, pip_uninstall
from envkit.rules.lib_cudnn import unaccepted_cudnn
from envkit.rules.loader import import_evidence, loader_fix, mapped, without_cuda
from envkit.rules.outcome import Fired, Outcome, fix, missing, passed, seen, skipped, undecided
from envkit.rules.requirements import satisfies
from envkit.rules.rule import Rule
from envkit.rules.subject import Subject

_WHEELS = "https://pytorch.org/get-started/locally/"


# -- LIB002 -----------------------------------------------------------------------------------

_NVIDIA = re.compile(r"nvidia-[a-z0-9-]+-cu(\d{2})")


def _lib002(subject: Subject) -> Outcome:
    if subject.conda:
        return skipped("torch is a conda package: its libraries are not wheels")
    wanted = pins(subject)
    differ = [
        (name, subject.packages[name], pin)
        for name, pin in sorted(wanted.items())
        if name.startswith(("nvidia-", "cuda-toolkit"))
        and name in subject.packages
        and not satisfies(subject.packages[name], pin.specifier)
    ]
    strangers = _other_majors(subject)
    if not differ and not strangers:
        wheels = [name for name in subject.packages if name.startswith("nvidia-")]
        if wheels and not wanted:
            return undecided("pip.distributions: nothing says what this torch asks for")
        return passed("the nvidia-* wheels are those that torch asks for")
    evidence = [
        seen(f"{name} {version}", f"torch asks for {pin.specifier}", pin.source)
        for name, version, pin in differ
    ]
    evidence += [
        seen(f"{name} {version}", f"torch is for CUDA {subject.cuda}", "pip.distributions")
        for name, version in strangers
    ]
    return Fired(
        reason="nvidia-* wheels are not those that torch asks for",
        evidence=tuple(evidence),
        fix=_wheels_fix(subject, [pin for _, _, pin in differ], [name for name, _ in strangers]),
    )


def _other_majors(subject: Subject) -> list[tuple[str, str]]:
    """Nvidia wheels of another CUDA major: majors share folders and overwrite each other."""
    if subject.cuda_numbers is None:
        return []
    return [
        (name, version)
        for name, version in sorted(subject.packages.items())
        if (found := _NVIDIA.fullmatch(name)) and int(found[1]) != subject.cuda_numbers[0]
    ]


def _wheels_fix(subject: Subject, differ: list[Pin], strangers: list[str]) -> Fix:
    steps = []
    if strangers:
        steps.append(pip_uninstall(subject, *strangers))
    again = [f"{pin.name}{pin.specifier}" for pin in differ]
    if strangers:
        # What the strangers overwrote has to be written again.
        again += [
            f"{name}=={version}"
            for name, version in sorted(subject.packages.items())
            if name.startswith("nvidia-")
            and name not in strangers
            and name not in {pin.name for pin in differ}
        ]
    if again:
        steps.append(pip(subject, "--no-deps", *again, force=True))
    return fix("Install the versions that this torch was built with.", " && ".join(steps) or None)


LIB002 = Rule(
    code="LIB002",
    title="nvidia-* wheels differ from what torch asks for",
    severity=Severity.WARNING,
    check=_lib002,
    gate=without_cuda,
    reads=("torch.version", "pip.distributions"),
    requires=("TOR001", "GPU008"),
    follows=("TOR004",),
    url=_WHEELS,
)

# -- LIB003, LIB004 ---------------------------------------------------------------------------

_CUDA_LIBRARIES = re.compile(
    r"lib(cudart|cublas|cublasLt|cudnn\w*|cufft\w*|curand|cusolver\w*|cusparse\w*|nccl|nvrtc\S*"
    r"|nvJitLink|nvToolsExt|cupti|c10\w*|torch\w*)[.-]"
)
_LOADER_WORDS = re.compile(
    r"undefined symbol|version incompatibility|cannot open shared object|not defined in file",
    re.IGNORECASE,
)
_SUSPECT_FOLDER = re.compile(r"cuda|cudnn|nvidia|nccl|conda|tensorrt", re.IGNORECASE)


def _lib003(subject: Subject) -> Outcome:
    outside = [one for one in mapped(subject) if _is_from_outside(one)]
    if outside and subject.upstream:
        evidence = [
            seen(one.name, one.path, "libraries mapped into the process") for one in outside
        ]
        if subject.library_path:
            path = ":".join(subject.library_path)
            evidence.append(seen("LD_LIBRARY_PATH", path, "environment.variables"))
        return Fired(
            reason=f"{outside[0].name} comes from outside the environment",
            evidence=tuple(evidence),
            fix=loader_fix(subject, "libraries"),
        )
    suspects = [one for one in subject.library_path if _SUSPECT_FOLDER.search(one)]
    sign = _mixture(subject) if suspects else None
    if sign is not None:
        path = ":".join(suspects)
        return Fired(
            reason="libraries are mixed, and LD_LIBRARY_PATH names where some come from",
            evidence=(sign, seen("LD_LIBRARY_PATH", path, "environment.variables")),
            fix=loader_fix(subject, "libraries"),
        )
    if isinstance(subject.facts.torch.libraries, Unreadable):
        return missing("torch.libraries", subject.facts.torch.libraries)
    return passed("every CUDA library that is loaded belongs to the environment")


def _mixture(subject: Subject) -> Evidence | None:
    """Show a sign that libraries of two places are in one process, if there is one."""
    if _LOADER_WORDS.search(subject.import_words):
        return import_evidence(subject)
    return unaccepted_cudnn(subject)


def _is_from_outside(library: MappedLibrary) -> bool:
    own = _CUDA_LIBRARIES.match(library.name)
    return bool(own) and library.path.startswith(("/", "~")) and not library.owner


LIB003 = Rule(
    code="LIB003",
    title="A CUDA library is loaded from outside the environment",
    severity=Severity.WARNING,
    check=_lib003,
    gate=without_cuda,
    requires=("TOR001", "GPU008"),
    url="https://man7.org/linux/man-pages/man8/ld.so.8.html",
)

_OPENMP = (
    ("Intel", re.compile(r"libiomp5")),
    ("LLVM", re.compile(r"libomp[.-]|libomp\.so|libomp140|vcomp")),
    ("GNU", re.compile(r"libgomp")),
)


def _lib004(subject: Subject) -> Outcome:
    copies: dict[str, set[str]] = {}
    for one in mapped(subject):
        for maker, pattern in _OPENMP:
            if pattern.match(one.name):
                copies.setdefault(maker, set()).add(one.path)
    intel_twice = len(copies.get("Intel", ())) > 1
    if len(copies) < 2 and not intel_twice:  # noqa: PLR2004  (two makers)
        return passed("one OpenMP runtime")
    evidence = [
        seen(f"{maker} OpenMP", path, "libraries mapped into the process")
        for maker, paths in sorted(copies.items())
        for path in sorted(paths)
    ]
    masked = subject.variables.get("KMP_DUPLICATE_LIB_OK")
    if masked:
        evidence.append(seen("KMP_DUPLICATE_LIB_OK", masked, "environment.variables"))
    return Fired(
        reason="two OpenMP runtimes in one process",
        evidence=tuple(evidence),
        fix=fix(
            "Install everything that uses OpenMP from one channel. KMP_DUPLICATE_LIB_OK only "
            "hides the fault; results can be wrong and threads too many."
        ),
    )


LIB004 = Rule(
    code="LIB004",
    title="Two OpenMP runtimes in one process",
    severity=Severity.WARNING,
    check=_lib004,
    reads=("torch.libraries",),
    requires=("TOR001",),
    url="https://pytorch.org/docs/stable/notes/multiprocessing.html",
)

RULES = (LIB002, LIB003, LIB004)

"""Rules about the libraries torch runs on: cuDNN, nvidia-* wheels, OpenMP, and who owns them."""

from __future__ import annotations

import re

from envkit.compat import tables
from envkit.compat.tables import Build, Unknown
from envkit.model.facts import MappedLibrary
from envkit.model.finding import Evidence, Fix, Severity
from envkit.model.observed import Known, NotApplicable, Unreadable, reason_of, value_of
from envkit.rules.cite import cite
from envkit.rules.extensions import Pin, pins, satisfies
from envkit.rules.fixes import newest_torch, pip, pip_uninstall
from envkit.rules.outcome import Fired, Outcome, fix, missing, passed, seen, skipped, undecided
from envkit.rules.rule import Rule
from envkit.rules.subject import Subject, source_of

_WHEELS = "https://pytorch.org/get-started/locally/"
_CUDNN = "https://docs.nvidia.com/deeplearning/cudnn/backend/latest/reference/support-matrix.html"

#: Versions as cuDNN writes them in an integer.
Cudnn = tuple[int, int, int]


def without_cuda(subject: Subject) -> Outcome | None:
    """Skip rules about CUDA's libraries for a build without CUDA."""
    if subject.cpu_build:
        return skipped(f"{subject.torch_text} is built without CUDA")
    return None


def _text(version: Cudnn) -> str:
    return ".".join(str(part) for part in version)


def import_evidence(subject: Subject) -> Evidence:
    """Show the line with which the import of torch ended."""
    line = subject.import_words.partition("\n")[0]
    return seen("import torch", line, source_of(subject.facts.torch.import_failure))


def loader_fix(subject: Subject, what: str) -> Fix:
    """Say how the loader comes to find the libraries that came with torch."""
    if subject.library_path:
        return fix(
            f"Unset LD_LIBRARY_PATH (it is searched before the {what} that came with torch), or "
            "unload the module that set it.",
            "unset LD_LIBRARY_PATH",
        )
    return fix(
        f"Make the environment afresh, so that torch and its {what} come from one place.",
        pip(subject, "torch", force=True) if not subject.conda else None,
    )


# -- LIB001 -----------------------------------------------------------------------------------


def _lib001(subject: Subject) -> Outcome:
    refusal = _refusal(subject)
    if refusal is not None:
        return _cudnn_finding(subject, (refusal,), "torch refuses its cuDNN")
    fact = subject.facts.torch.cudnn
    if isinstance(fact, (Unreadable, NotApplicable)):
        return missing("torch.cudnn", fact)
    if not isinstance(fact, Known):
        return skipped("no cuDNN is loaded")
    compiled = _compiled(subject)
    if isinstance(compiled, Unknown):
        return undecided(compiled.why)
    try:
        return _compare_cudnn(subject, tables.cudnn_decode(fact.value), *compiled)
    except ValueError as error:
        return undecided(f"torch.cudnn: {error}")


def _refusal(subject: Subject) -> Evidence | None:
    """Show torch's own refusal of its cuDNN, if there was one."""
    words = "cuDNN version incompatibility"
    if words in subject.import_words:
        return import_evidence(subject)
    said = next((one for one in subject.self_tests if words in one.reason), None)
    if said is None:
        return None
    return seen(f"self-test {said.name}", said.reason, "torch.self_tests")


def _compare_cudnn(subject: Subject, loaded: Cudnn, version: Cudnn, source: str) -> Outcome:
    if tables.cudnn_accepted(version, loaded):
        return passed(f"cuDNN {_text(loaded)} serves a torch compiled with {_text(version)}")
    evidence = [
        seen("cuDNN loaded", _text(loaded), source_of(subject.facts.torch.cudnn)),
        seen("cuDNN that torch was compiled with", _text(version), source),
        seen("rule", "same major, and not an older minor", "compat/data/cudnn.yaml, torch_minor"),
    ]
    copies = [one for one in _mapped(subject) if one.name.startswith("libcudnn")]
    evidence += [seen("mapped", one.path, "torch.libraries") for one in copies[:3]]
    if subject.library_path:
        evidence.append(seen("LD_LIBRARY_PATH", ":".join(subject.library_path), "environment"))
    reason = f"cuDNN {_text(loaded)} does not serve a torch compiled with {_text(version)}"
    return _cudnn_finding(subject, tuple(evidence), reason)


def _cudnn_finding(subject: Subject, evidence: tuple[Evidence, ...], reason: str) -> Fired:
    package = next((name for name in pins(subject) if name.startswith("nvidia-cudnn")), None)
    mend = loader_fix(subject, "cuDNN")
    if package is not None and package in subject.packages and not subject.library_path:
        wanted = f"{package}{pins(subject)[package].specifier}"
        mend = fix("Install the cuDNN that this torch asks for.", pip(subject, wanted, force=True))
    return Fired(reason=reason, evidence=evidence, fix=mend)


def _compiled(subject: Subject) -> tuple[Cudnn, str] | Unknown:
    """Return the cuDNN torch was compiled with: as torch says, else as its wheel pins it."""
    fact = subject.facts.torch.cudnn_compiled
    if isinstance(fact, Known):
        try:
            return tables.cudnn_decode(fact.value), fact.source
        except ValueError as error:
            return Unknown(why=f"torch.cudnn_compiled: {error}")
    if subject.torch is None or subject.tag is None or not subject.upstream or subject.conda:
        return Unknown(why=f"torch.cudnn_compiled: {reason_of(fact)}")
    build = tables.build_of(subject.torch.base, subject.tag)
    if not isinstance(build, Build):
        return build
    if build.cudnn is None or "cudnn" in build.unsure:
        return Unknown(why=f"no source gives the cuDNN of torch {subject.torch.base} {build.tag}")
    source = cite("torch", f"releases {subject.torch.base} {build.tag}", build)
    return tables.parse_cudnn(build.cudnn), source


LIB001 = Rule(
    code="LIB001",
    title="The cuDNN loaded does not serve the one that torch was compiled with",
    severity=Severity.ERROR,
    check=_lib001,
    gate=without_cuda,
    requires=("TOR001", "GPU008"),
    follows=("LIB003", "LIB002"),
    url=_CUDNN,
)

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


def _mapped(subject: Subject) -> tuple[MappedLibrary, ...]:
    return value_of(subject.facts.torch.libraries) or ()


def _lib003(subject: Subject) -> Outcome:
    outside = [one for one in _mapped(subject) if _is_from_outside(one)]
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
    if suspects and _LOADER_WORDS.search(subject.import_words):
        path = ":".join(suspects)
        return Fired(
            reason="the loader mixes libraries, and LD_LIBRARY_PATH names where it takes some from",
            evidence=(
                import_evidence(subject),
                seen("LD_LIBRARY_PATH", path, "environment.variables"),
            ),
            fix=loader_fix(subject, "libraries"),
        )
    if isinstance(subject.facts.torch.libraries, Unreadable):
        return missing("torch.libraries", subject.facts.torch.libraries)
    return passed("every CUDA library that is loaded belongs to the environment")


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
    for one in _mapped(subject):
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

# -- LIB009 -----------------------------------------------------------------------------------


def _lib009(subject: Subject) -> Outcome:
    fact = subject.facts.torch.cudnn
    if not isinstance(fact, Known) or subject.cuda_numbers is None:
        return skipped("no cuDNN is loaded")
    if not subject.visible:
        if isinstance(subject.facts.gpus.devices, Unreadable):
            return missing("gpus.devices", subject.facts.gpus.devices)
        return skipped("no GPU is listed")
    try:
        version = tables.cudnn_decode(fact.value)
    except ValueError as error:
        return undecided(f"torch.cudnn: {error}")
    return _support(subject, version, subject.cuda_numbers[0])


def _support(subject: Subject, version: Cudnn, cuda_major: int) -> Outcome:
    doubt = ""
    for device in subject.visible:
        if device.capability is None:
            doubt = f"the compute capability of {device.name} is not known"
            continue
        answer = tables.cudnn_supports(version, device.capability, cuda_major)
        if answer is False:
            return _cudnn_too_new(subject, version, device.name, device.capability)
        if isinstance(answer, Unknown):
            doubt = answer.why
    return undecided(doubt) if doubt else passed(f"cuDNN {_text(version)} supports every GPU here")


def _cudnn_too_new(subject: Subject, version: Cudnn, name: str, capability: str) -> Fired:
    row = tables.capability_row(capability)
    last = row.last_cudnn if not isinstance(row, Unknown) else None
    source = tables.cudnn_row(version)
    where = "compat/data/cudnn.yaml, versions"
    if not isinstance(source, Unknown):
        where = cite("cudnn", f"versions {source.first}", source)
    package = next((one for one in subject.packages if one.startswith("nvidia-cudnn-")), None)
    command = None
    text = "Install a build of torch for this GPU."
    pinned = pins(subject).get(package or "")
    if pinned is not None and not satisfies(subject.packages[pinned.name], pinned.specifier):
        command = pip(subject, f"{pinned.name}{pinned.specifier}", force=True)
        text = "Install the cuDNN that this torch asks for."
    elif (advice := newest_torch(subject)) is not None:
        command, text = advice.command, f"Install {advice}."
    return Fired(
        reason=f"cuDNN {_text(version)} does not support {name}",
        evidence=(
            seen("cuDNN loaded", _text(version), source_of(subject.facts.torch.cudnn)),
            seen("GPU", f"{name}, compute capability {capability}", "gpus.devices"),
            seen("last cuDNN for it", last or "an older one", where),
        ),
        fix=fix(text, command),
    )


LIB009 = Rule(
    code="LIB009",
    title="The cuDNN loaded no longer supports this GPU",
    severity=Severity.ERROR,
    check=_lib009,
    gate=without_cuda,
    reads=("torch.cudnn", "torch.cuda"),
    requires=("TOR001", "GPU001", "GPU008"),
    follows=("LIB002",),
    url=_CUDNN,
)

RULES = (LIB001, LIB002, LIB003, LIB004, LIB009)

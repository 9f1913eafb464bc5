"""Rules about the GPUs: are there any, does the build have code for them, who else uses them."""

from __future__ import annotations

import msgspec

from envkit.compat import tables
from envkit.compat.arch import Channel
from envkit.compat.tables import Fit, Run, Unknown
from envkit.model.facts import SelfTest
from envkit.model.finding import Severity
from envkit.model.observed import Absent, Known, Unreadable, value_of
from envkit.model.versions import parse_cuda
from envkit.rules.cite import cite
from envkit.rules.fixes import newest_torch
from envkit.rules.outcome import Fired, Outcome, fix, missing, passed, seen, skipped, undecided
from envkit.rules.rule import Rule
from envkit.rules.subject import Device, Subject, source_of

_CAPABILITIES = "https://developer.nvidia.com/cuda-gpus"
_VARIABLES = (
    "https://docs.nvidia.com/cuda/cuda-programming-guide/05-appendices/environment-variables.html"
)
_NVML = "https://docs.nvidia.com/deploy/nvml-api/"

# -- GPU001 -----------------------------------------------------------------------------------


def _gpu001(subject: Subject) -> Outcome:
    if subject.nvidia_gpu or subject.cuda_works:
        return passed("an NVIDIA GPU was seen")
    devices, on_bus = subject.facts.gpus.devices, subject.facts.gpus.pci_devices
    none_listed = isinstance(devices, Absent) or (isinstance(devices, Known) and not devices.value)
    none_on_bus = isinstance(on_bus, Absent) or (isinstance(on_bus, Known) and not on_bus.value)
    no_driver = isinstance(subject.facts.driver.version, Absent)
    if not none_listed and not (none_on_bus and no_driver):
        return missing("gpus.devices", devices)
    where = devices if none_listed else on_bus
    needed = subject.needs_gpu
    text = "Nothing has to be done if this machine is meant to compute on the CPU."
    if needed:
        text = "Run this on a machine with an NVIDIA GPU, or ask for `--device cpu`."
    if subject.in_container:
        text += " In a container, start it with its GPUs (--gpus all)."
    return Fired(
        reason="no NVIDIA GPU was found",
        evidence=(seen("NVIDIA GPUs", "none", source_of(where)),),
        fix=fix(text),
        severity=Severity.ERROR if needed else None,
        title="No NVIDIA GPU here, and one is needed" if needed else None,
    )


GPU001 = Rule(
    code="GPU001",
    title="No NVIDIA GPU on this host",
    severity=Severity.INFO,
    check=_gpu001,
    requires=("GPU008",),
    varies="error where the device asked for or the spec needs a GPU",
    url=_CAPABILITIES,
)

# -- GPU002 -----------------------------------------------------------------------------------


def _gpu002(subject: Subject) -> Outcome:
    refused = [
        one for one in subject.self_tests if one.status == "fail" and "no kernel" in one.reason
    ]
    architectures = _architectures(subject)
    if isinstance(architectures, Unknown):
        return _measured(subject, refused) if refused else undecided(architectures.why)
    if not subject.visible:
        devices = subject.facts.gpus.devices
        if isinstance(devices, (Known, Absent)):
            return skipped("no GPU is listed")
        return missing("gpus.devices", devices)
    runs = [(one, _run(subject, architectures.names, one)) for one in subject.visible]
    bad = [(one, run) for one, run in runs if run.fit is Fit.NO]
    if bad:
        return _no_kernels(subject, architectures, bad)
    if refused:
        return _measured(subject, refused)
    return _covered(runs)


def _covered(runs: list[tuple[Device, Run]]) -> Outcome:
    doubtful = next((run for _, run in runs if run.fit is Fit.UNKNOWN), None)
    if doubtful is not None:
        return undecided(doubtful.why)
    return passed(f"{', '.join(sorted({run.via or '' for _, run in runs}))} covers the GPUs")


def _measured(subject: Subject, refused: list[SelfTest]) -> Fired:
    """Report what the GPU itself said, where no list of architectures says it."""
    advice = newest_torch(subject)
    return Fired(
        reason="the GPU found no kernel in this torch",
        evidence=tuple(
            seen(f"self-test {one.name}", one.reason, "torch.self_tests") for one in refused
        ),
        fix=fix(
            f"Install {advice}." if advice else "Install a build for this GPU.",
            advice.command if advice else None,
        ),
    )


class _Architectures(msgspec.Struct, frozen=True, kw_only=True):
    """What is compiled into the build, and where that was read."""

    names: tuple[str, ...]
    source: str


def _architectures(subject: Subject) -> _Architectures | Unknown:
    fact = subject.facts.torch.arch_list
    listed = value_of(fact)
    if listed:
        return _Architectures(names=listed, source=source_of(fact))
    if subject.torch is None or subject.tag is None:
        return Unknown(why="torch.arch_list: neither the list nor version and CUDA are known")
    if not subject.upstream and subject.channel != "conda-forge":
        return Unknown(why="torch.arch_list: not recorded, and this is no build of the tables")
    channel: Channel = "wheel"
    if subject.conda:
        channel = "pytorch" if subject.channel == "pytorch" else "conda-forge"
    row = tables.arch_list(subject.torch.base, subject.tag, subject.platform, channel=channel)
    if isinstance(row, Unknown):
        return row
    source = cite("arch", f"lists {subject.torch.minor} {subject.tag}", row)
    return _Architectures(names=row.archs, source=source)


def _run(subject: Subject, architectures: tuple[str, ...], device: Device) -> Run:
    if device.capability is None:
        return Run(fit=Fit.UNKNOWN, why=f"the compute capability of {device.name} is not known")
    run = tables.code_runs_on(architectures, device.capability, cuda=subject.cuda)
    return _with_driver(subject, run) if run.fit is Fit.PTX else run


def _with_driver(subject: Subject, run: Run) -> Run:
    """PTX is compiled by the driver, which must be as new as the toolkit that wrote it."""
    if subject.driver is None or subject.cuda is None:
        return Run(fit=Fit.UNKNOWN, why=f"only PTX ({run.via}) fits and the driver is not known")
    newest = tables.newest_cuda_for(subject.driver, subject.system)
    if isinstance(newest, Unknown):
        return run if newest.newer else Run(fit=Fit.UNKNOWN, why=newest.why)
    if newest.cuda >= parse_cuda(subject.cuda) or subject.compat_folder is not None:
        return run
    why = (
        f"only the PTX {run.via} fits, and driver {subject.driver} (CUDA "
        f"{newest.cuda[0]}.{newest.cuda[1]}) cannot compile PTX of CUDA {subject.cuda}: error 222"
    )
    return Run(fit=Fit.NO, why=why)


def _no_kernels(
    subject: Subject, architectures: _Architectures, bad: list[tuple[Device, Run]]
) -> Fired:
    names = ", ".join(f"{one.name} (compute capability {one.capability})" for one, _ in bad)
    advice = newest_torch(subject)
    if advice is not None:
        text = f"Install {advice}: it has code for every GPU here and runs on this driver."
    elif len(subject.visible) > len(bad):
        others = ",".join(
            str(one.index) for one in subject.visible if one not in [gpu for gpu, _ in bad]
        )
        text = f"Use only the GPUs that it has code for: CUDA_VISIBLE_DEVICES={others}."
    else:
        text = "Install a build for this GPU"
        text += "; the tables name none that this driver runs." if subject.driver else "."
    if any(one.capability == "8.7" for one, _ in bad):
        text += " For Jetson take NVIDIA's own wheels or a CUDA 13.2 build."
    return Fired(
        reason=f"no code for {names}",
        evidence=(
            seen("GPU", names, bad[0][0].source),
            seen("architectures in the build", " ".join(architectures.names), architectures.source),
            seen("rule", bad[0][1].why, "compat/data/arch.yaml, runs"),
        ),
        fix=fix(text, advice.command if advice else None),
    )


GPU002 = Rule(
    code="GPU002",
    title="This torch has no kernels for this GPU's compute capability",
    severity=Severity.ERROR,
    check=_gpu002,
    gate=lambda subject: (
        skipped(f"{subject.torch_text} is built without CUDA")
        if subject.cpu_build or isinstance(subject.facts.torch.cuda, Absent)
        else None
    ),
    reads=("torch.cuda",),
    requires=("TOR001", "GPU001", "GPU008"),
    url="https://docs.nvidia.com/cuda/cuda-programming-guide/01-introduction/cuda-platform.html",
)

# -- GPU008  -----------------------------------------------------------------------


def _gpu008(subject: Subject) -> Outcome:
    accelerator = subject.foreign_accelerator
    if accelerator:
        needed = subject.needs_gpu
        return Fired(
            reason=f"this torch is for {accelerator}",
            evidence=(seen("torch", _build_words(subject), source_of(_build_fact(subject))),),
            fix=fix(
                "Run this where torch is a CUDA build and an NVIDIA GPU is there."
                if needed
                else "Nothing has to be done: rules about CUDA are left out."
            ),
            severity=Severity.ERROR if needed else None,
        )
    torch = subject.facts.torch
    if all(isinstance(fact, Unreadable) for fact in (torch.version, torch.cuda, torch.hip)):
        return missing("torch.version", torch.version)
    return _of_unknown_kind(subject) or passed("an ordinary build")


def _of_unknown_kind(subject: Subject) -> Outcome | None:
    """Say which fact might still make it a build for something else than CUDA or the CPU."""
    torch, host = subject.facts.torch, subject.facts.host
    if isinstance(torch.cuda, Known):
        return _of_unknown_vendor(subject)
    tagged = subject.torch is not None and subject.torch.kind in {"cpu", "cuda"}
    for path, fact in (("torch.cuda", torch.cuda), ("torch.hip", torch.hip)):
        if not tagged and isinstance(fact, Unreadable):
            return missing(path, fact)
    return missing("host.os", host.os) if isinstance(host.os, Unreadable) else None


def _of_unknown_vendor(subject: Subject) -> Outcome | None:
    """Say what might show that a CUDA build which nobody published is a vendor's fork."""
    if subject.nvidia_gpu or subject.driver is not None:
        return None
    if subject.torch is not None and not subject.never_published:
        return None
    for path in ("torch.version", "torch.cuda_available", "driver.version", "gpus.devices"):
        family, _, name = path.partition(".")
        fact = getattr(getattr(subject.facts, family), name)
        if isinstance(fact, Unreadable):
            return missing(path, fact)
    return None


def _build_words(subject: Subject) -> str:
    hip = value_of(subject.facts.torch.hip)
    words = [subject.torch_text, f"HIP {hip}" if hip else "", f"on {subject.os}"]
    return ", ".join(filter(None, words))


def _build_fact(subject: Subject) -> Known[str] | Absent:
    for fact in (subject.facts.torch.hip, subject.facts.torch.version):
        if isinstance(fact, Known):
            return fact
    return Absent(source="recorded")


GPU008 = Rule(
    code="GPU008",
    title="Not a CUDA build (ROCm, XPU, MPS or a vendor's fork): CUDA rules do not apply",
    severity=Severity.INFO,
    check=_gpu008,
    requires=("TOR001",),
    varies="error where an NVIDIA GPU is needed",
    url="https://pytorch.org/get-started/locally/",
)


RULES = (GPU008, GPU001, GPU002)

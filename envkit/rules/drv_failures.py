"""Rules about a driver that is there and fails: errors with which CUDA cannot be initialised."""

from __future__ import annotations

from collections.abc import Callable

from envkit.compat import tables
from envkit.compat.tables import Requirement
from envkit.model.finding import Evidence, Fix, Severity
from envkit.model.observed import Absent, Known, Unreadable, value_of
from envkit.model.versions import parse_driver
from envkit.rules.drv import (
    ERRORS,
    FORWARD,
    INSUFFICIENT,
    build_evidence,
    cuda_build,
    driver_evidence,
    error_evidence,
    gpu_kind,
    gpu_names,
    needed_driver,
    no_cuda_evidence,
)
from envkit.rules.fixes import newest_torch
from envkit.rules.memory import no_room_to_start
from envkit.rules.outcome import Fired, Outcome, fix, missing, passed, seen, skipped, undecided
from envkit.rules.rule import Rule
from envkit.rules.subject import Subject, file_name, source_of

STUB, PTX, FABRIC, MISMATCH, COMPAT, NOT_READY = 34, 222, 802, 803, 804, 919
#: Errors of initialisation that another rule explains: 46 GPU009, 209 GPU002.
_EXPLAINED = {STUB, INSUFFICIENT, 46, 209, PTX, FABRIC, MISMATCH, COMPAT, NOT_READY}

_CONSUMER = {"geforce", "geforce-laptop", "titan"}


def _consumer(subject: Subject) -> str | None:
    """Name a GPU that forward compatibility does not serve, by table or by its own name."""
    for one in subject.listed:
        kind = gpu_kind(one.name)
        if kind in _CONSUMER or (kind is None and "GeForce" in one.name):
            return one.name
    return None


def _drv005(subject: Subject) -> Outcome:
    folder, card = subject.compat_folder, _consumer(subject)
    if subject.cuda_error == COMPAT:
        first = error_evidence(subject, COMPAT)
    elif subject.cuda_works is False and folder is not None and card is not None:
        first = no_cuda_evidence(subject)
    elif subject.cuda_error is None and subject.cuda_works is None:
        return missing("torch.cuda_available", subject.facts.torch.cuda_available)
    else:
        return passed("no forward compatibility was attempted on a GPU that does not support it")
    evidence = [first]
    if card is not None:
        evidence.append(
            seen("GPU", card, "gpus; compat/data/driver.yaml, forward: not for GeForce")
        )
    if folder is not None:
        evidence.append(seen("forward-compatibility libraries", folder, "loader path"))
    where = folder or "the cuda-compat folder"
    return Fired(
        reason="forward compatibility does not work on this GPU",
        evidence=(*evidence, driver_evidence(subject)),
        fix=fix(
            f"Take {where} off LD_LIBRARY_PATH (or remove the cuda-compat package), then see "
            f"whether the driver itself is new enough: {needed_driver(subject)}."
        ),
    )


DRV005 = Rule(
    code="DRV005",
    title="Forward compatibility attempted on a GPU that does not support it (error 804)",
    severity=Severity.ERROR,
    check=_drv005,
    gate=cuda_build,
    requires=("TOR001", "GPU001", "GPU008", "DRV001"),
    url=FORWARD,
)


def _drv006(subject: Subject) -> Outcome:
    facts = subject.facts.driver
    module, library = value_of(facts.kernel_module), value_of(facts.user_library)
    words = value_of(facts.nvml_error) or ""
    if subject.cuda_error == MISMATCH:
        first = error_evidence(subject, MISMATCH)
    elif "version mismatch" in words.lower():
        first = seen("NVML", words, source_of(facts.nvml_error))
    elif _differ(module, library) and subject.os == "linux" and subject.compat_folder is None:
        first = seen("kernel module", module, source_of(facts.kernel_module))
    elif module is None and library is None and not isinstance(facts.nvml_error, (Known, Absent)):
        return missing("driver.kernel_module", facts.kernel_module)
    else:
        return passed("nothing says that kernel module and libraries differ")
    evidence = [first]
    if module is not None and first.what != "kernel module":
        evidence.append(seen("kernel module", module, source_of(facts.kernel_module)))
    if library is not None:
        evidence.append(seen("user-space library", library, source_of(facts.user_library)))
    return Fired(
        reason="kernel module and user-space libraries are of different versions",
        evidence=tuple(evidence),
        fix=fix(
            "Reboot: after an update of the driver the old kernel module stays loaded until then. "
            "In a container, restart it so that it gets the host's new libraries."
        ),
    )


def _differ(module: str | None, library: str | None) -> bool:
    if module is None or library is None:
        return False
    try:
        return parse_driver(module) != parse_driver(library)
    except ValueError:
        return False


DRV006 = Rule(
    code="DRV006",
    title="Kernel module and user-space driver libraries are of different versions",
    severity=Severity.ERROR,
    check=_drv006,
    gate=lambda subject: passed("CUDA works here: measured") if subject.cuda_works else None,
    requires=("GPU001", "GPU008"),
    url=ERRORS,
)


def _by_code(
    codes: tuple[int, ...], reason: str, mend: Callable[[Subject], Fix]
) -> Callable[[Subject], Outcome]:
    """Build the check of a rule that fires on error codes alone."""

    def check(subject: Subject) -> Outcome:
        code = subject.cuda_error
        if code in codes and code is not None:
            return Fired(
                reason=reason,
                evidence=(error_evidence(subject, code), driver_evidence(subject)),
                fix=mend(subject),
            )
        facts = (subject.facts.torch.cuda_error, subject.facts.driver.cuda_error)
        if code is None and not any(isinstance(fact, Absent) for fact in facts):
            return missing("torch.cuda_error", facts[0])
        return passed("CUDA did not answer with this error")

    return check


DRV007 = Rule(
    code="DRV007",
    title="The NVSwitch fabric manager is not running (error 802)",
    severity=Severity.ERROR,
    check=_by_code(
        (FABRIC, NOT_READY),
        "the system is not ready for CUDA work",
        lambda _: fix(
            "Install nvidia-fabricmanager of exactly the driver's version and start it.",
            "sudo systemctl enable --now nvidia-fabricmanager",
        ),
    ),
    gate=cuda_build,
    requires=("TOR001", "GPU001", "GPU008"),
    url="https://docs.nvidia.com/datacenter/tesla/fabric-manager-user-guide/",
)


def _drv008(subject: Subject) -> Outcome:
    words = value_of(subject.facts.driver.nvml_error) or ""
    code = subject.cuda_error
    if no_room_to_start(subject):
        return undecided("torch.cuda_error: other processes hold the GPU's memory (GPU006)")
    lost = any(text in words.lower() for text in ("gpu is lost", "unknown error", "xid"))
    if code is not None and code not in _EXPLAINED:
        first = error_evidence(subject, code)
    elif lost:
        first = seen("NVML", words, source_of(subject.facts.driver.nvml_error))
    elif isinstance(subject.facts.torch.cuda_available, Known):
        first = no_cuda_evidence(subject)
    else:
        return missing("torch.cuda_available", subject.facts.torch.cuda_available)
    if not lost and not (subject.gpus or subject.nvidia_gpu):
        return skipped("no NVIDIA GPU was seen")
    evidence = [first, driver_evidence(subject)]
    if subject.listed:
        evidence.append(seen("GPUs", gpu_names(subject), source_of(subject.facts.gpus.devices)))
    return Fired(
        reason="the GPU is there and CUDA cannot be initialised",
        evidence=tuple(evidence),
        fix=_revive(subject),
        title=None if subject.driver else "CUDA does not work here; the driver is not known",
    )


def _revive(subject: Subject) -> Fix:
    if subject.os == "wsl":
        return fix(
            "Stop WSL from Windows and start it again; then update the Windows driver and WSL. "
            "With several GPUs try one alone (CUDA_VISIBLE_DEVICES=0).",
            "wsl --shutdown",
        )
    if subject.os == "windows":
        return fix(
            "Restart Windows; then install the NVIDIA driver again (clean installation), and look "
            "for errors of nvlddmkm in the event viewer."
        )
    if subject.in_container:
        return fix(
            "See whether the GPUs work on the host (nvidia-smi). If they do, start the container "
            "again with --gpus all; device files of a running container get lost when the host "
            "reloads its services."
        )
    return fix(
        "Look for Xid lines in the kernel log; after suspend, reload the nvidia_uvm module; "
        "otherwise reset the GPU or reboot.",
        "sudo dmesg | grep -i -E 'xid|nvrm'",
    )


DRV008 = Rule(
    code="DRV008",
    title="CUDA cannot be initialised: the GPU is lost or the driver failed",
    severity=Severity.ERROR,
    check=_drv008,
    gate=cuda_build,
    requires=(
        "TOR001", "GPU001", "GPU007", "GPU008",
        "DRV001", "DRV002", "DRV005", "DRV006", "DRV007", "DRV009", "DRV010",
    ),
    follows=("GPU009", "GPU002"),
    url=ERRORS,
)  # fmt: skip


def _drv009(subject: Subject) -> Outcome:
    wrong = _wrong_libcuda(subject)
    if wrong is not None:
        return _wrong_library(subject, wrong)
    libcuda = subject.facts.driver.libcuda
    if isinstance(libcuda, Unreadable):
        return missing("driver.libcuda", libcuda)
    return passed("the loader finds the driver's libcuda")


def _wrong_libcuda(subject: Subject) -> Evidence | None:
    """Show what is wrong with the libcuda that the loader finds, if anything is."""
    facts = subject.facts.driver
    path = value_of(facts.libcuda)
    if subject.cuda_error == STUB:
        return error_evidence(subject, STUB)
    if path is not None and ("stubs" in path.split("/") or _not_of_windows(subject, path)):
        return seen("libcuda", path, source_of(facts.libcuda))
    if _lacks_libcuda(subject):
        return seen("libcuda", "not found", source_of(facts.libcuda))
    rights = subject.variables.get("NVIDIA_DRIVER_CAPABILITIES", "all")
    if subject.in_container and not {"all", "compute"} & set(rights.split(",")):
        return seen("NVIDIA_DRIVER_CAPABILITIES", rights, "environment.variables")
    return None


def _lacks_libcuda(subject: Subject) -> bool:
    """Whether there is no libcuda where there has to be one; on Windows it is called nvcuda.dll."""
    there = bool(subject.gpus) or isinstance(subject.facts.driver.version, Known)
    return there and isinstance(subject.facts.driver.libcuda, Absent) and subject.os != "windows"


def _not_of_windows(subject: Subject, path: str) -> bool:
    """Whether a libcuda in WSL comes from a Linux package: Windows puts its own into one place."""
    return subject.os == "wsl" and not path.startswith("/usr/lib/wsl/")


def _wrong_library(subject: Subject, first: Evidence) -> Fired:
    evidence = [first, driver_evidence(subject)]
    if subject.cuda_works is not None:
        evidence.append(no_cuda_evidence(subject))
    if subject.os == "wsl":
        mend = fix(
            "Remove every Linux NVIDIA driver package from WSL; its libcuda comes from Windows "
            "and lies in /usr/lib/wsl/lib. If that is missing, update the Windows driver.",
            "sudo apt-get purge '*nvidia*' && sudo ldconfig",
        )
    elif subject.in_container:
        mend = fix(
            "Start the container with the compute capability: "
            "-e NVIDIA_DRIVER_CAPABILITIES=compute,utility and --gpus all."
        )
    else:
        name = file_name(first.seen)
        mend = fix(
            f"Let the loader find the driver's own libcuda instead of {name}: take stubs folders "
            "off LD_LIBRARY_PATH, or install the driver's compute libraries (libcuda1)."
        )
    return Fired(
        reason="the libcuda that torch gets is not the driver's",
        evidence=tuple(evidence),
        fix=mend,
    )


DRV009 = Rule(
    code="DRV009",
    title="Stub or wrong libcuda, or none (WSL, container without the compute capability)",
    severity=Severity.ERROR,
    check=_drv009,
    gate=cuda_build,
    requires=("TOR001", "GPU001", "GPU008"),
    url="https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/docker-specialized.html",
)


def _drv010(subject: Subject) -> Outcome:
    tests = [one for one in subject.self_tests if one.status == "fail" and _says_ptx(one.reason)]
    if subject.cuda_error != PTX and not tests:
        facts = (subject.facts.torch.self_tests, subject.facts.torch.cuda_error)
        if not any(isinstance(fact, (Known, Absent)) for fact in facts):
            return missing("torch.self_tests", facts[0])
        return passed("no PTX was refused")
    first = (
        error_evidence(subject, PTX)
        if subject.cuda_error == PTX
        else seen(f"self-test {tests[0].name}", tests[0].reason, "torch.self_tests")
    )
    own = tables.toolkit_driver(subject.cuda, subject.system) if subject.cuda else None
    needed = f" ({own.driver} or newer)" if isinstance(own, Requirement) else ""
    advice = newest_torch(subject)
    return Fired(
        reason="the driver cannot compile the PTX of a newer toolkit",
        evidence=(first, driver_evidence(subject), build_evidence(subject)),
        fix=fix(
            f"Install a build with machine code for this GPU, or a driver as new as CUDA "
            f"{subject.cuda}{needed}.",
            advice.command if advice else None,
        ),
    )


def _says_ptx(reason: str) -> bool:
    return "unsupported toolchain" in reason or "UnsupportedPtxVersion" in reason


DRV010 = Rule(
    code="DRV010",
    title="PTX of a newer toolkit than the driver (error 222)",
    severity=Severity.ERROR,
    check=_drv010,
    requires=("TOR001", "GPU001", "GPU008"),
    follows=("GPU002",),
    url=FORWARD,
)

RULES = (DRV005, DRV006, DRV007, DRV009, DRV010, DRV008)

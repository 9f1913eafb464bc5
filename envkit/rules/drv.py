"""Rules about the NVIDIA driver: is there one, does it reach the build's CUDA, does it work."""

from __future__ import annotations

from envkit.compat import tables
from envkit.compat.driver import Floor
from envkit.compat.tables import CudaError, DriverFit, Requirement, Unknown
from envkit.model.finding import Evidence, Severity
from envkit.model.observed import Absent, Known, Unreadable, reason_of, value_of
from envkit.model.versions import parse_cuda
from envkit.rules.cite import cite
from envkit.rules.fixes import newest_torch
from envkit.rules.outcome import Fired, Outcome, fix, missing, passed, seen, skipped, undecided
from envkit.rules.rule import Rule
from envkit.rules.subject import Subject, source_of, text_of

_COMPATIBILITY = "https://docs.nvidia.com/deploy/cuda-compatibility/"
_MINOR = f"{_COMPATIBILITY}minor-version-compatibility.html"
FORWARD = f"{_COMPATIBILITY}forward-compatibility.html"
ERRORS = "https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html"

#: The driver says that it is older than the runtime library.
INSUFFICIENT = 35


def cuda_build(subject: Subject) -> Outcome | None:
    """Answer at once where no CUDA build is judged, or where CUDA was measured to work."""
    if subject.cpu_build or isinstance(subject.facts.torch.cuda, Absent):
        return skipped(f"{subject.torch_text} is built without CUDA")
    if subject.cuda_works:
        return passed("CUDA works here: measured, and a measurement outranks every table")
    return None


def _works(subject: Subject) -> Outcome | None:
    if subject.cpu_build or isinstance(subject.facts.torch.cuda, Absent):
        return skipped(f"{subject.torch_text} is built without CUDA")
    if subject.cuda_works is False:
        return passed("CUDA does not work here, so no compatibility mode is in use")
    return None


def driver_evidence(subject: Subject) -> Evidence:
    """Show the driver's version, or why it is not known."""
    fact = subject.facts.driver.version
    return seen("driver", text_of(fact) or reason_of(fact), source_of(fact))


def build_evidence(subject: Subject) -> Evidence:
    """Show torch and the CUDA it is built for."""
    return seen(
        "torch", f"{subject.torch_text}, CUDA {subject.cuda}", source_of(subject.facts.torch.cuda)
    )


def no_cuda_evidence(subject: Subject) -> Evidence:
    """Show that CUDA does not work, and the error it gave."""
    said = f"; {subject.cuda_error_text}" if subject.cuda_error_text else ""
    return seen("CUDA available", f"no{said}", source_of(subject.facts.torch.cuda_available))


def _row(needed: Requirement) -> str:
    row = needed.row
    where = f"floors {row.cuda_major}" if isinstance(row, Floor) else f"toolkits {row.cuda}"
    return cite("driver", where, row)


def gpu_names(subject: Subject) -> str:
    """Name the GPUs that are listed, or else the devices on the bus."""
    names = sorted({one.name for one in subject.listed})
    on_bus = value_of(subject.facts.gpus.pci_devices) or ()
    return ", ".join(names) or ", ".join(f"{one.device_id} at {one.address}" for one in on_bus)


def error_evidence(subject: Subject, code: int) -> Evidence:
    """Show the error of initialisation with its meaning."""
    fact = subject.facts.torch.cuda_error
    where = fact if isinstance(fact, Known) else subject.facts.driver.cuda_error
    row = tables.cuda_error(code)
    meaning = row.meaning if isinstance(row, CudaError) else "unexplained"
    return seen("CUDA initialisation", f"{subject.cuda_error_text} ({meaning})", source_of(where))


def gpu_kind(name: str) -> str | None:
    """Return what kind of card a GPU is, `geforce` or `datacenter`; None where it is not known."""
    model = tables.find_gpu(name)
    return None if isinstance(model, Unknown) else model.kind


def _install_driver(subject: Subject) -> str:
    if subject.os == "wsl":
        return "Install the NVIDIA driver on Windows, not in WSL: WSL takes it from there"
    if subject.in_container:
        return "Install the driver on the host and start the container with its GPUs (--gpus all)"
    return "Install the NVIDIA driver of your distribution and reboot"


# -- DRV001 -----------------------------------------------------------------------------------


def _drv001(subject: Subject) -> Outcome:
    if isinstance(subject.facts.driver.version, Known):
        return passed(f"driver {text_of(subject.facts.driver.version)} is installed")
    if not subject.nvidia_gpu:
        return skipped("no NVIDIA GPU was seen")
    return Fired(
        reason="an NVIDIA GPU is there and no driver",
        evidence=(
            seen("NVIDIA GPU", gpu_names(subject), source_of(_where_gpus(subject))),
            driver_evidence(subject),
            build_evidence(subject),
        ),
        fix=fix(f"{_install_driver(subject)}; {needed_driver(subject)}."),
    )


def _where_gpus(subject: Subject) -> Known[object] | Absent:
    for fact in (subject.facts.gpus.devices, subject.facts.gpus.pci_devices):
        if isinstance(fact, Known):
            return Known(value=fact.value, source=fact.source)
    return Absent(source="recorded")


def needed_driver(subject: Subject) -> str:
    """Say which driver the CUDA of the build needs."""
    needed = tables.least_driver(subject.cuda, subject.system) if subject.cuda else None
    if not isinstance(needed, Requirement):
        return "any driver that has the CUDA version of the build will do"
    return f"CUDA {subject.cuda} needs {needed.driver} or newer"


DRV001 = Rule(
    code="DRV001",
    title="No NVIDIA driver for a CUDA build on a machine with an NVIDIA GPU",
    severity=Severity.ERROR,
    check=_drv001,
    gate=cuda_build,
    reads=("torch.cuda", "driver.version"),
    requires=("TOR001", "GPU001", "GPU008"),
    follows=("DRV009",),
    url=_COMPATIBILITY,
)

# -- DRV002, DRV003, DRV004 ---------------------------------------------------------------------


def _fit(subject: Subject) -> DriverFit | Outcome:
    if subject.cuda is None:
        if isinstance(subject.facts.torch.cuda, Absent):
            return skipped("torch is built without CUDA")
        return undecided(f"torch.cuda: {text_of(subject.facts.torch.cuda)!r} is no CUDA version")
    if isinstance(subject.facts.driver.version, Absent):
        return skipped("there is no driver to compare")
    if subject.driver is None:
        return undecided("driver.version: it does not read like a driver version")
    return tables.driver_fit(subject.cuda, subject.driver, subject.system)


def _drv002(subject: Subject) -> Outcome:
    by_words = _older_by_its_own_words(subject)
    if by_words is not None:
        return _too_old(subject, by_words)
    version = subject.facts.driver.version
    if isinstance(version, Unreadable):
        return missing("driver.version", version)
    judged = _fit(subject)
    return _by_floor(subject, judged) if isinstance(judged, DriverFit) else judged


def _by_floor(subject: Subject, judged: DriverFit) -> Outcome:
    if judged.level == "full":
        return passed(f"driver {subject.driver} is as new as CUDA {subject.cuda}")
    if isinstance(judged.floor, Unknown):
        return undecided(judged.floor.why)
    floor = judged.floor.driver
    if judged.level != "too_old":
        return passed(f"{subject.driver} is not under the floor of CUDA {subject.cuda}, {floor}")
    works = subject.facts.torch.cuda_available
    if isinstance(works, Known):
        return _too_old(subject, _floor(subject, judged.floor))
    return undecided(
        f"torch.cuda_available: {reason_of(works)}; driver {subject.driver} is under the floor "
        f"{floor}, yet forward-compatibility libraries may be in use",
        against=True,
    )


def _floor(subject: Subject, needed: Requirement) -> Evidence:
    what = f"oldest driver for CUDA {subject.cuda} ({subject.system})"
    return seen(what, needed.driver, _row(needed))


def _older_by_its_own_words(subject: Subject) -> Evidence | None:
    """Return the driver's own word for it: error 35, or a CUDA major below the build's."""
    if subject.cuda_error == INSUFFICIENT:
        return error_evidence(subject, INSUFFICIENT)
    fact = subject.facts.driver.cuda_version
    newest = value_of(fact)
    if isinstance(subject.facts.driver.version, Known) or newest is None:
        return None
    if subject.cuda_works is not False or subject.cuda_numbers is None:
        return None
    try:
        older = parse_cuda(newest)[0] < subject.cuda_numbers[0]
    except ValueError:
        return None
    return seen("newest CUDA of the driver", newest, source_of(fact)) if older else None


def _too_old(subject: Subject, rests_on: Evidence) -> Fired:
    advice = newest_torch(subject)
    ways = []
    if advice is not None:
        ways.append(f"Install {advice}, the newest that driver {subject.driver} runs here")
    if subject.system == "linux" and any(
        gpu_kind(one.name) == "datacenter" for one in subject.listed
    ):
        ways.append("install NVIDIA's cuda-compat package (this is a data-centre GPU)")
    ways.append(f"update the driver: {needed_driver(subject)}")
    text = ways[0] + "".join(f"; or {way}" for way in ways[1:]) + "."
    return Fired(
        reason=f"driver {subject.driver or 'as it says itself'} is too old for CUDA {subject.cuda}",
        evidence=(
            driver_evidence(subject),
            rests_on,
            build_evidence(subject),
            no_cuda_evidence(subject),
        ),
        fix=fix(text[0].upper() + text[1:], advice.command if advice else None),
    )


DRV002 = Rule(
    code="DRV002",
    title="The driver is too old for this torch's CUDA, and CUDA does not work",
    severity=Severity.ERROR,
    check=_drv002,
    gate=cuda_build,
    reads=("torch.cuda",),
    requires=("TOR001", "GPU001", "GPU008", "DRV001", "DRV005", "DRV009"),
    url=_MINOR,
)


def _drv003(subject: Subject) -> Outcome:
    judged = _fit(subject)
    if not isinstance(judged, DriverFit):
        return judged
    if judged.level in {"unknown", "too_old"}:
        return skipped("the driver is not between the floor and the toolkit's own driver")
    if judged.level == "full":
        return passed(f"driver {subject.driver} is as new as CUDA {subject.cuda}")
    own = judged.own
    newest = judged.newest
    if isinstance(own, Requirement):
        shipped = seen(f"driver shipped with CUDA {subject.cuda}", own.driver, _row(own))
    else:
        known = "unknown" if isinstance(newest, Unknown) else "{}.{}".format(*newest.cuda)
        shipped = seen("newest CUDA of the driver", known, "compat/data/driver.yaml, branches")
    floor = (_floor(subject, judged.floor),) if isinstance(judged.floor, Requirement) else ()
    return Fired(
        reason=f"driver {subject.driver} is older than CUDA {subject.cuda} and over the floor",
        evidence=(driver_evidence(subject), build_evidence(subject), *floor, shipped),
        fix=fix(
            "Nothing has to be done. Code that is compiled at run time from PTX by a newer "
            "toolkit is not covered (error 222)."
        ),
    )


DRV003 = Rule(
    code="DRV003",
    title="CUDA minor-version compatibility in use",
    severity=Severity.INFO,
    check=_drv003,
    gate=_works,
    reads=("torch.cuda", "driver.version", "torch.cuda_available"),
    requires=("TOR001", "GPU001", "GPU008", "DRV001", "DRV002", "DRV004", "DRV005"),
    url=_MINOR,
)


def _drv004(subject: Subject) -> Outcome:
    compat = subject.facts.driver.compat_library
    judged = _fit(subject)
    under = isinstance(judged, DriverFit) and judged.level == "too_old"
    if not under and not isinstance(compat, Known):
        return judged if not isinstance(judged, DriverFit) else passed("the driver's own libraries")
    evidence = [driver_evidence(subject), build_evidence(subject)]
    if isinstance(judged, DriverFit) and isinstance(judged.floor, Requirement):
        evidence.append(_floor(subject, judged.floor))
    if isinstance(compat, Known):
        evidence.append(seen("forward-compatibility library", compat.value, compat.source))
    evidence.append(seen("CUDA available", "yes", source_of(subject.facts.torch.cuda_available)))
    return Fired(
        reason="CUDA works through forward-compatibility libraries",
        evidence=tuple(evidence),
        fix=fix(
            "Nothing has to be done here. Another machine with this driver needs the same "
            "cuda-compat package, and a GPU that allows it (data centre, not GeForce)."
        ),
    )


DRV004 = Rule(
    code="DRV004",
    title="Forward-compatibility libraries (cuda-compat) in use",
    severity=Severity.INFO,
    check=_drv004,
    gate=_works,
    reads=("torch.cuda", "driver.version", "torch.cuda_available"),
    requires=("TOR001", "GPU001", "GPU008"),
    url=FORWARD,
)

RULES = (DRV001, DRV004, DRV002, DRV003)

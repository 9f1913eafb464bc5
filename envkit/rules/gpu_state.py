"""Rules about the state of the GPUs: mixed, sliced, ailing, busy, hidden, or without own memory."""

from __future__ import annotations

import re

from envkit.compat import tables
from envkit.compat.tables import Unknown
from envkit.model.facts import Gpu
from envkit.model.finding import Evidence, Severity
from envkit.model.observed import Absent, Known, NotApplicable, Unreadable, value_of
from envkit.rules.fixes import set_variable, unset_variable
from envkit.rules.memory import held_by_others
from envkit.rules.outcome import Fired, Outcome, fix, missing, passed, seen, undecided
from envkit.rules.rule import Rule
from envkit.rules.subject import Subject, source_of

_VARIABLES = (
    "https://docs.nvidia.com/cuda/cuda-programming-guide/05-appendices/environment-variables.html"
)
_NVML = "https://docs.nvidia.com/deploy/nvml-api/"

# -- GPU003, GPU004, GPU005 -----------------------------------------------------------------------


def _gpu003(subject: Subject) -> Outcome:
    known = {one.capability for one in subject.listed if one.capability is not None}
    if len(known) > 1:
        listed = ", ".join(f"{one.name} ({one.capability or '?'})" for one in subject.listed)
        return Fired(
            reason=f"{len(known)} architectures in one machine",
            evidence=(seen("GPUs", listed, source_of(subject.facts.gpus.devices)),),
            fix=fix(
                "Choose the GPU by hand, and let numbers mean the same in every program.",
                set_variable(subject, "CUDA_DEVICE_ORDER", "PCI_BUS_ID"),
            ),
        )
    unknown = any(one.capability is None for one in subject.listed)
    if unknown and len({one.name for one in subject.listed}) > 1:
        return undecided("gpus.devices: the compute capability of a GPU is not known")
    return passed("one architecture")


GPU003 = Rule(
    code="GPU003",
    title="GPUs of different architectures in one machine",
    severity=Severity.WARNING,
    check=_gpu003,
    reads=("gpus.devices",),
    requires=("GPU001", "GPU008"),
    url=_VARIABLES,
)


def _gpu004(subject: Subject) -> Outcome:
    sliced = [gpu for gpu in subject.gpus if value_of(gpu.mig)]
    names = [one.name for one in (*subject.listed, *subject.visible) if _MIG.search(one.name)]
    if not sliced and not names:
        unread = next((gpu for gpu in subject.gpus if isinstance(gpu.mig, Unreadable)), None)
        return passed("MIG is off") if unread is None else missing("gpus.devices", unread.mig)
    which = ", ".join(f"GPU {gpu.index}" for gpu in sliced) or names[0]
    chosen = subject.variables.get("CUDA_VISIBLE_DEVICES")
    text = "Nothing has to be done: a slice is a small GPU with its own memory and fewer SMs."
    if not (chosen or "").startswith("MIG-"):
        text = "Choose one slice by its UUID (nvidia-smi -L): CUDA uses one slice a process."
    return Fired(
        reason="MIG is on",
        evidence=(seen("MIG", which, source_of(subject.facts.gpus.devices)),),
        fix=fix(text),
    )


_MIG = re.compile(r"\bMIG\b")

GPU004 = Rule(
    code="GPU004",
    title="MIG is on: the GPU is divided into slices",
    severity=Severity.INFO,
    check=_gpu004,
    reads=("gpus.devices",),
    requires=("GPU001", "GPU008"),
    url="https://docs.nvidia.com/datacenter/tesla/mig-user-guide/",
)


def _gpu005(subject: Subject) -> Outcome:
    evidence: list[Evidence] = []
    told = 0
    for gpu in subject.gpus:
        errors, pending = gpu.ecc_uncorrected, gpu.row_remap_pending
        told += any(isinstance(fact, (Known, NotApplicable, Absent)) for fact in (errors, pending))
        if count := value_of(errors):
            evidence.append(seen(f"GPU {gpu.index}: uncorrected errors", count, source_of(errors)))
        if value_of(pending):
            evidence.append(seen(f"GPU {gpu.index}: row remap", "pending", source_of(pending)))
    if evidence:
        return Fired(
            reason="the GPU's memory had errors",
            evidence=tuple(evidence),
            fix=fix(
                "Reset the GPU or reboot, so that bad rows are replaced; if errors come back, "
                "have the card replaced. Do not trust results of this card until then.",
                "nvidia-smi --query-remapped-rows=gpu_name,remapped_rows.pending --format=csv",
            ),
        )
    if subject.gpus and not told:
        return missing("gpus.devices", subject.gpus[0].ecc_uncorrected)
    return passed("no memory errors are reported")


GPU005 = Rule(
    code="GPU005",
    title="ECC errors, or a row remap that waits for a reset",
    severity=Severity.WARNING,
    check=_gpu005,
    reads=("gpus.devices",),
    requires=("GPU001", "GPU008"),
    url="https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/",
)

# -- GPU006, GPU007 -------------------------------------------------------------------------------


def _gpu006(subject: Subject) -> Outcome:
    evidence = held_by_others(subject)
    if evidence:
        return Fired(
            reason="somebody else's memory is on the GPU",
            evidence=evidence,
            fix=fix(
                "Stop the other processes or choose another GPU before measuring memory or speed; "
                "digests are not affected.",
                "nvidia-smi --query-compute-apps=gpu_uuid,pid,used_memory --format=csv",
            ),
        )
    unread = next((gpu for gpu in subject.gpus if isinstance(gpu.processes, Unreadable)), None)
    if unread is not None:
        return missing("gpus.devices", unread.processes)
    return passed("no other process holds memory")


GPU006 = Rule(
    code="GPU006",
    title="Other processes hold memory on the GPU",
    severity=Severity.WARNING,
    check=_gpu006,
    reads=("gpus.devices",),
    requires=("GPU001", "GPU008"),
    url=_NVML,
)


def _gpu007(subject: Subject) -> Outcome:
    value = subject.variables.get("CUDA_VISIBLE_DEVICES")
    if value is None:
        return passed("CUDA_VISIBLE_DEVICES is not set")
    entries = [entry.strip() for entry in value.split(",")]
    count = len(subject.gpus) if subject.gpus else None
    if not value.strip() or entries[0] in {"-1", "NoDevFiles", "none"}:
        what = "hides every GPU"
    else:
        wrong = next((entry for entry in entries if not _names_a_gpu(entry, count)), None)
        if wrong is None:
            return passed(f"CUDA_VISIBLE_DEVICES={value} names GPUs that are there")
        first = wrong == entries[0]
        rest = "every GPU is hidden" if first else "it and all after it are hidden"
        what = f"names {wrong!r}, which is not there: {rest}"
    listed = f"{count}, numbered from 0" if count else "not listed"
    return Fired(
        reason=f"CUDA_VISIBLE_DEVICES {what}",
        evidence=(
            seen("CUDA_VISIBLE_DEVICES", repr(value), "environment.variables"),
            seen("GPUs", listed, source_of(subject.facts.gpus.devices)),
        ),
        fix=fix(
            "Unset the variable or name GPUs that are there.",
            unset_variable(subject, "CUDA_VISIBLE_DEVICES"),
        ),
        severity=Severity.ERROR if subject.needs_gpu and not subject.cuda_works else None,
    )


def _names_a_gpu(entry: str, count: int | None) -> bool:
    """Whether an entry can be a GPU; identifiers are taken on trust, reports hold no UUIDs."""
    if re.fullmatch(r"(GPU|MIG)-[0-9A-Za-z/-]+", entry):
        return True
    if not re.fullmatch(r"[0-9]{1,4}", entry):
        return False
    return count is None or int(entry) < count


GPU007 = Rule(
    code="GPU007",
    title="CUDA_VISIBLE_DEVICES hides every GPU or names one that is not there",
    severity=Severity.WARNING,
    check=_gpu007,
    reads=("environment.variables",),
    requires=("GPU001", "GPU008"),
    varies="error where a GPU is needed",
    url=_VARIABLES,
)


def _gpu009(subject: Subject) -> Outcome:
    modes = [(gpu, value_of(gpu.compute_mode)) for gpu in subject.gpus]
    shut = [(gpu, mode) for gpu, mode in modes if mode not in {None, "default"}]
    busy = subject.cuda_error == _BUSY or any(
        one.status == "fail" and "busy or unavailable" in one.reason for one in subject.self_tests
    )
    if not shut:
        unread = next((gpu for gpu, mode in modes if mode is None and _unread(gpu)), None)
        if unread is not None:
            return missing("gpus.devices", unread.compute_mode)
        return passed("every GPU may be shared by processes")
    closed = any(mode == "prohibited" for _, mode in shut)
    which = ", ".join(f"GPU {gpu.index}: {mode}" for gpu, mode in shut)
    evidence = [seen("compute mode", which, source_of(shut[0][0].compute_mode))]
    if busy:
        evidence.append(seen("CUDA", subject.cuda_error_text or "busy or unavailable", "torch"))
    return Fired(
        reason="the compute mode of a GPU is not the default",
        evidence=tuple(evidence),
        fix=fix(
            "Use one process a GPU, or set the mode back (needs the administrator).",
            "sudo nvidia-smi -c DEFAULT",
        ),
        severity=Severity.ERROR if busy or closed else None,
    )


_BUSY = 46


def _unread(gpu: Gpu) -> bool:
    return isinstance(gpu.compute_mode, Unreadable)


GPU009 = Rule(
    code="GPU009",
    title="Exclusive or prohibited compute mode: a second process cannot use the GPU",
    severity=Severity.WARNING,
    check=_gpu009,
    reads=("gpus.devices",),
    requires=("GPU001", "GPU008"),
    varies="error where CUDA failed for it (error 46), or the mode is `prohibited`",
    url=_NVML,
)


def _gpu010(subject: Subject) -> Outcome:
    shared = [one.name for one in subject.listed if _is_unified(one.name)]
    if not shared and not value_of(subject.facts.host.jetson):
        return _own_memory(subject)
    name = shared[0] if shared else "Jetson"
    return Fired(
        reason="GPU and CPU share one memory",
        evidence=(seen("GPU", name, source_of(subject.facts.gpus.devices)),),
        fix=fix(
            "Nothing has to be done. Free GPU memory depends on the page cache and on every "
            "other program here; NVML may call memory `Not Supported`. Compare peaks, not what "
            "is free."
        ),
    )


def _own_memory(subject: Subject) -> Outcome:
    """Pass where the tables have every GPU: a new one may share the memory of the CPU."""
    for one in subject.listed:
        model = tables.find_gpu(one.name)
        if isinstance(model, Unknown):
            return undecided(model.why)
    return passed("the GPUs have memory of their own")


def _is_unified(name: str) -> bool:
    model = tables.find_gpu(name)
    return not isinstance(model, Unknown) and model.kind in {"desktop-soc", "jetson"}


GPU010 = Rule(
    code="GPU010",
    title="Unified memory: the GPU has no memory of its own",
    severity=Severity.INFO,
    check=_gpu010,
    reads=("gpus.devices",),
    requires=("GPU001", "GPU008"),
    url="https://docs.nvidia.com/dgx/dgx-spark/known-issues.html",
)

RULES = (GPU003, GPU004, GPU005, GPU006, GPU007, GPU009, GPU010)

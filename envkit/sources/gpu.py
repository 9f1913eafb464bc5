"""The GPUs as the driver lists them: NVML's answers, and libcuda's where NVML has none."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

from envkit.model.facts import Gpu, GpuProcess
from envkit.model.observed import (
    NOT_RECORDED,
    Absent,
    Known,
    NotApplicable,
    Observed,
    Unreadable,
)
from envkit.sources.driver import nvml_words
from envkit.sources.probe_answers import Answers, Asked, readable

T = TypeVar("T")

#: NVML_ERROR_NOT_SUPPORTED
_NOT_SUPPORTED = 3
#: nvmlComputeMode_t
COMPUTE_MODES: Final = {
    0: "default",
    1: "exclusive_thread",
    2: "prohibited",
    3: "exclusive_process",
}
#: Bits of nvmlClocksEventReasons; an idle GPU is not a throttled one, so bit 0 is left out.
THROTTLE_REASONS: Final = {
    0x002: "applications_clocks_setting",
    0x004: "sw_power_cap",
    0x008: "hw_slowdown",
    0x010: "sync_boost",
    0x020: "sw_thermal_slowdown",
    0x040: "hw_thermal_slowdown",
    0x080: "hw_power_brake_slowdown",
    0x100: "display_clock_setting",
    0x200: "board_limit",
    0x400: "reliability",
}
_IDLE = 0x001
#: Inode of the first process namespace (PROC_PID_INIT_INO of Linux).
_FIRST_NAMESPACE = 0xEFFFFFFC


def gpu_devices(
    answers: Answers,
    *,
    driver: Observed[str],
    own_pids: Collection[int] = (),
    pids_are_ours: bool = True,
) -> Observed[tuple[Gpu, ...]]:
    """Return the GPUs, by index in the order of the PCI bus.

    Args:
        answers: what the probe said.
        driver: version of the driver; absent means that nothing can list a GPU.
        own_pids: processes of envkit that may hold memory on a GPU.
        pids_are_ours: False in a container with process numbers of its own: NVML gives the host's.

    """
    count = answers.nvml.gpu_count if answers.nvml else None
    if count is not None and isinstance(count.value, int):
        by_index = _by_index(answers, "nvml")
        why = answers.why_silent.get("nvml", "NVML was not asked about this GPU")
        numbers = range(count.value)
        gpus = tuple(
            _nvml_gpu(index, by_index.get(index), why, _Owner(own_pids, pids_are_ours))
            for index in numbers
        )
        return Known(value=gpus, source="NVML")
    if answers.cuda_count is not None:
        by_index = _by_index(answers, "libcuda")
        found = tuple(_cuda_gpu(i, by_index.get(i)) for i in range(answers.cuda_count.count))
        return Known(value=found, source="libcuda")
    return _no_devices(answers, driver)


def _no_devices(answers: Answers, driver: Observed[str]) -> Observed[tuple[Gpu, ...]]:
    sources = "NVML, libcuda"
    error = answers.cuda_init.error if answers.cuda_init else None
    if error is not None and error.code == 100:  # noqa: PLR2004 (CUDA_ERROR_NO_DEVICE)
        return Known(value=(), source="cuInit: no device")
    if isinstance(driver, Absent):
        return Absent(source=sources, reason="no NVIDIA driver is there to list any")
    reasons = dict(answers.why_silent)
    if answers.nvml and answers.nvml.error:
        reasons["nvml"] = nvml_words(answers.nvml.error)
    if error is not None:
        reasons["libcuda"] = error.name or f"cuInit gave error {error.code}"
    elif answers.libcuda is not None and not answers.libcuda.found:
        reasons["libcuda"] = answers.libcuda.reason
    text = "; ".join(f"{part}: {readable(why)}" for part, why in sorted(reasons.items()))
    return Unreadable(reason=text or "neither NVML nor libcuda could list them", source=sources)


def pids_are_ours(*, root: Path = Path("/")) -> bool:
    """Whether process numbers here are the host's, so that NVML's can be compared with our own."""
    try:
        return (root / "proc/self/ns/pid").stat().st_ino == _FIRST_NAMESPACE
    except OSError:
        return os.name == "nt"


def _by_index(answers: Answers, api: str) -> dict[int, Mapping[str, Asked]]:
    return {answer.index: answer.values for answer in answers.gpus if answer.api == api}


class _Owner:
    """Tells envkit's own processes from others, as far as process numbers allow."""

    def __init__(self, own_pids: Collection[int], pids_are_ours: bool) -> None:  # noqa: FBT001
        self._own = frozenset(own_pids)
        self._comparable = pids_are_ours or not self._own

    def processes(self, listed: list[dict[str, Any]]) -> Observed[tuple[GpuProcess, ...]]:
        """Return the processes, largest first."""
        if listed and not self._comparable:
            reason = (
                f"{len(listed)} processes hold memory, but this container does not show the "
                "host's process numbers, so envkit's own cannot be told from others"
            )
            return Unreadable(reason=reason, source="NVML")
        found = (
            GpuProcess(
                memory_bytes=_process_memory(entry.get("memory_bytes")),
                own=entry.get("pid") in self._own,
            )
            for entry in listed
        )
        return Known(value=tuple(sorted(found, key=_memory_of, reverse=True)), source="NVML")


def _process_memory(value: object) -> Observed[int]:
    if isinstance(value, int):
        return Known(value=value, source="NVML")
    return Unreadable(
        reason="NVML does not say how much (Windows, or no permission)", source="NVML"
    )


def _memory_of(process: GpuProcess) -> int:
    return process.memory_bytes.value if isinstance(process.memory_bytes, Known) else 0


def _nvml_gpu(index: int, values: Mapping[str, Asked] | None, why: str, owner: _Owner) -> Gpu:
    if values is None:
        return Gpu(index=index, name=Unreadable(reason=why, source="NVML"))
    if set(values) == {"name"}:  # the GPU did not even give a handle: it is lost
        return Gpu(index=index, name=_text(values.get("name"), "NVML"))
    processes = fact_of(values.get("processes"), list, "NVML", optional=True)
    mask = fact_of(values.get("throttle_mask"), int, "NVML", optional=True)
    mode = fact_of(values.get("compute_mode"), int, "NVML", optional=True)
    return Gpu(
        index=index,
        name=_text(values.get("name"), "NVML"),
        compute_capability=_text(values.get("compute_capability"), "NVML"),
        memory_bytes=_memory(values.get("memory"), 0, "NVML"),
        free_bytes=_memory(values.get("memory"), 1, "NVML"),
        uuid_hash=_text(values.get("uuid_hash"), "NVML"),
        mig=fact_of(values.get("mig"), bool, "NVML", optional=True),
        ecc_uncorrected=fact_of(values.get("ecc_uncorrected"), int, "NVML", optional=True),
        row_remap_pending=fact_of(values.get("row_remap_pending"), bool, "NVML", optional=True),
        compute_mode=_compute_mode(mode),
        processes=owner.processes(processes.value) if isinstance(processes, Known) else processes,
        throttle_reasons=_throttle_reasons(mask),
        nvlinks_active=fact_of(values.get("nvlinks_active"), int, "NVML", optional=True),
    )


def _cuda_gpu(index: int, values: Mapping[str, Asked] | None) -> Gpu:
    source = "libcuda"
    if values is None:
        return Gpu(index=index, name=Unreadable(reason="libcuda did not say", source=source))
    return Gpu(
        index=index,
        name=_text(values.get("name"), source),
        compute_capability=_text(values.get("compute_capability"), source),
        memory_bytes=_memory(values.get("memory"), 0, source),
        uuid_hash=_text(values.get("uuid_hash"), source),
    )


def fact_of(
    asked: Asked | None, kind: type[T], source: str, *, optional: bool = False
) -> Observed[T]:
    """Turn one answer into a fact; `optional`: a GPU may simply not have it."""
    if asked is None:
        return NOT_RECORDED
    if asked.error is not None:
        reason = readable(asked.error.message) or f"error {asked.error.code}"
        if optional and asked.error.code == _NOT_SUPPORTED:
            return NotApplicable(reason=f"this GPU does not have it: {reason}", source=source)
        return Unreadable(reason=reason, source=source)
    if not isinstance(asked.value, kind):
        return Unreadable(reason=f"the answer is not a {kind.__name__}", source=source)
    return Known(value=asked.value, source=source)


def _text(asked: Asked | None, source: str) -> Observed[str]:
    found = fact_of(asked, str, source)
    return Known(value=readable(found.value), source=source) if isinstance(found, Known) else found


def _memory(asked: Asked | None, position: int, source: str) -> Observed[int]:
    sizes = fact_of(asked, list, source)
    if not isinstance(sizes, Known):
        return sizes
    size = sizes.value[position] if position < len(sizes.value) else None
    if not isinstance(size, int):
        return Unreadable(reason=f"{source} does not say", source=source)
    return Known(value=size, source=source)


def _compute_mode(mode: Observed[int]) -> Observed[str]:
    if not isinstance(mode, Known):
        return mode
    if mode.value not in COMPUTE_MODES:
        return Unreadable(reason=f"unknown compute mode {mode.value}", source=mode.source)
    return Known(value=COMPUTE_MODES[mode.value], source=mode.source)


def _throttle_reasons(mask: Observed[int]) -> Observed[tuple[str, ...]]:
    if not isinstance(mask, Known):
        return mask
    names = [name for bit, name in THROTTLE_REASONS.items() if mask.value & bit]
    unknown = mask.value & ~sum(THROTTLE_REASONS) & ~_IDLE
    if unknown:
        names.append(f"unknown_{unknown:#x}")
    return Known(value=tuple(names), source=mask.source)

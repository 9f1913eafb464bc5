"""Recorded differences that take more than a look at one name: GPUs, processes, packages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from envkit.compare.contrast import Contrast
from envkit.compare.package_names import in_gpu_stack
from envkit.compare.sides import Side
from envkit.model.facts import Gpu
from envkit.model.finding import Evidence
from envkit.model.fingerprint import LAYERS
from envkit.model.observed import Known, value_of
from envkit.model.package_change import change_of

_TORCH_NAMES: Final = frozenset({"pytorch", "pip:torch", "libtorch", "pytorch-cuda"})
#: Less than this is the context's own change from minute to minute.
_SHARE_BYTES: Final = 256 << 20
MOST_PACKAGES: Final = 5
#: Probes of a step of the user's own are called so (`verify --call`).
_STEP: Final = "call."


def workspaces_by_architecture(contrast: Contrast) -> Iterator[Evidence]:
    """CuBLAS takes other workspaces on other architectures; seen where the streams show it."""
    by_capability = list(contrast.key(("capability",)))
    if not by_capability or not contrast.differences("workspaces"):
        return
    yield from by_capability
    for difference in contrast.differences("workspaces"):
        sizes = [_only_here(value) for value in difference.values]
        if all(sizes):
            what = f"workspace of {difference.key}"
            yield contrast.evidence(what, sizes[0], sizes[1], "requests of the libraries")
            return


def _only_here(value: Any) -> str:
    sizes = value.get("only_here") if isinstance(value, dict) else None
    told = list(sizes.items())[:2] if isinstance(sizes, dict) else []
    return ", ".join(f"{int(size):,} B x {count}" for size, count in told if size.isdecimal())


def mig_slices(contrast: Contrast) -> Iterator[Evidence]:
    """Look for MIG in what NVML says and in the name of the device."""
    left, right = _mig(contrast.one), _mig(contrast.other)
    if left != right and (left or right):
        yield contrast.evidence("MIG", left or "off", right or "off", "NVML, name of the device")


def _mig(side: Side) -> str:
    fingerprint = side.fingerprint
    if fingerprint is not None and " MIG " in f" {fingerprint.device} ":
        return fingerprint.device
    gpu = _gpu(side)
    return "on" if gpu is not None and value_of(gpu.mig) else ""


def another_gpu(contrast: Contrast) -> Iterator[Evidence]:
    """Compare the name and the memory of the GPU, from the fingerprint or from NVML."""
    one, other = contrast.one.fingerprint, contrast.other.fingerprint
    measured = one is not None and other is not None
    if one is not None and other is not None and one.key.capability is not None:
        if one.device != other.device:
            yield contrast.evidence("device", one.device, other.device, "fingerprint")
    elif not measured:
        left, right = _gpu_name(contrast.one), _gpu_name(contrast.other)
        if left and right and left != right:
            yield contrast.evidence("GPU", left, right, "NVML")
    left_bytes, right_bytes = _memory(contrast.one), _memory(contrast.other)
    if left_bytes and right_bytes and left_bytes != right_bytes:
        yield contrast.evidence("memory of the GPU", left_bytes, right_bytes, "NVML")


def another_processor(contrast: Contrast) -> Iterator[Evidence]:
    """Compare the processors, for fingerprints of the CPU only."""
    one, other = contrast.one.fingerprint, contrast.other.fingerprint
    if one is None or other is None or one.key.capability or other.key.capability:
        return
    if one.device != other.device:
        yield contrast.evidence("processor", one.device, other.device, "fingerprint")
    yield from contrast.variables(
        ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "ATEN_CPU_CAPABILITY", "MKL_CBWR")
    )


def no_caching(contrast: Contrast) -> Iterator[Evidence]:
    """Look at why an exercise gave no value: another backend, or nothing is counted."""
    layer = contrast.layers.get("allocator")
    for lost in layer.cannot_compare if layer is not None else ():
        words = [reason for reason in lost.reasons if "caching is off" in reason]
        words += [reason for reason in lost.reasons if "not torch's own" in reason]
        if words and not all(lost.reasons):
            yield Evidence(what=lost.key, seen=words[0], source="allocator exercises")
            return


def another_process(contrast: Contrast) -> Iterator[Evidence]:
    """Compare who else holds memory of the GPU, by NVML and by what the driver calls used."""
    left, right = _others(contrast.one), _others(contrast.other)
    if left is not None and right is not None and abs(left - right) > _SHARE_BYTES:
        yield contrast.evidence("bytes held by other processes", left, right, "NVML")
    used = [_used(side) for side in (contrast.one, contrast.other)]
    free = [_free(side) for side in (contrast.one, contrast.other)]
    if None not in used and None not in free:
        outside = abs((used[0] or 0) - (used[1] or 0))
        gone = abs((free[0] or 0) - (free[1] or 0))
        if min(outside, gone) > _SHARE_BYTES and not _another_total(contrast):
            yield contrast.evidence(
                "used outside torch's allocator", used[0], used[1], "cudaMemGetInfo in the child"
            )
            yield contrast.evidence("free before the probes", free[0], free[1], "NVML")


def another_torch_package(contrast: Contrast) -> Iterator[Evidence]:
    """Look for torch among the packages that differ."""
    for difference in contrast.differences("packages"):
        if difference.key.rpartition("/")[2] in _TORCH_NAMES:
            left, right = (_package(value) for value in difference.values[:2])
            yield contrast.evidence(difference.key, left, right, "lists of packages")


def another_step(contrast: Contrast) -> Iterator[Evidence]:
    """Look whether a step of the user's own moved alone, measured under one and the same key."""
    one, other = contrast.one.fingerprint, contrast.other.fingerprint
    if one is None or other is None or (one.key, one.device) != (other.key, other.device):
        return
    measured = [contrast.differences(layer) for layer in LAYERS]
    keys = [difference.key for differences in measured for difference in differences]
    if keys and all(key.startswith(_STEP) for key in keys):
        seen = f"only what belongs to the step differs ({len(keys)}); the suite's probes agree"
        yield Evidence(what="differences", seen=seen, source="fingerprints")


def other_packages(contrast: Contrast) -> Iterator[Evidence]:
    """Name the packages that differ, those of the GPU stack first."""
    differences = [d for d in contrast.differences("packages") if d.key != "platforms"]
    if not differences:
        return
    stack = sum(in_gpu_stack(d.key.rpartition("/")[2].removeprefix("pip:")) for d in differences)
    number = len(differences)
    counted = f"{number} packages differ" if number > 1 else "1 package differs"
    seen = f"{counted}, {stack} of the GPU stack"
    yield Evidence(what="packages", seen=seen, source="lists of packages")
    for difference in differences[:MOST_PACKAGES]:
        left, right = difference.values[0], difference.values[1]
        what = f"{difference.key} ({change_of(left, right)})"
        yield contrast.evidence(what, _package(left), _package(right), "lists of packages")


def another_driver(contrast: Contrast) -> Iterator[Evidence]:
    """Compare the versions of the driver."""
    sides = (contrast.one, contrast.other)
    versions = [None if s.facts is None else s.facts.driver.version for s in sides]
    left, right = versions
    if isinstance(left, Known) and isinstance(right, Known) and left.value != right.value:
        yield contrast.evidence("driver", left.value, right.value, "NVML")


def _package(value: Any) -> str:
    if not isinstance(value, dict):
        return "not there"
    return " ".join(str(part) for part in value.values())


def _gpu(side: Side) -> Gpu | None:
    gpus = value_of(side.facts.gpus.devices) if side.facts is not None else None
    return gpus[0] if gpus else None


def _gpu_name(side: Side) -> str:
    gpu = _gpu(side)
    return (value_of(gpu.name) or "") if gpu is not None else ""


def _memory(side: Side) -> int | None:
    gpu = _gpu(side)
    known = value_of(gpu.memory_bytes) if gpu is not None else None
    return known if known is not None else _context(side, "total_bytes")


def _another_total(contrast: Contrast) -> bool:
    return _memory(contrast.one) != _memory(contrast.other)


def _others(side: Side) -> int | None:
    gpu = _gpu(side)
    processes = value_of(gpu.processes) if gpu is not None else None
    if processes is None:
        return None
    return sum(value_of(process.memory_bytes) or 0 for process in processes if not process.own)


def _used(side: Side) -> int | None:
    return _context(side, "used_outside_this_allocator_bytes")


def _free(side: Side) -> int | None:
    gpu = _gpu(side)
    return value_of(gpu.free_bytes) if gpu is not None else None


def _context(side: Side, name: str) -> int | None:
    if side.fingerprint is None:
        return None
    memory = side.fingerprint.layers.context.get("context.memory")
    value = ((memory.values if memory is not None else None) or {}).get(name)
    return value if isinstance(value, int) else None

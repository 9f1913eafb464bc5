"""The NVIDIA driver: the versions of its two halves, which libcuda is found, what it answers."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Final

from envkit.model.facts import CudaError, DriverFacts
from envkit.model.observed import (
    Absent,
    Known,
    NotApplicable,
    Observed,
    Unreadable,
    reason_of,
    value_of,
)
from envkit.model.versions import cuda_from_integer
from envkit.sources.files import NotRead, is_there, read_text
from envkit.sources.probe_answers import Answers, Asked, Failure, readable
from envkit.sources.redacted import redact

NVML: Final = "NVML"
LOADER: Final = "the loader's libcuda"
KERNEL_SOURCE: Final = "/proc/driver/nvidia/version"
#: `NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  ...` and
#: `NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build ...`.
_KERNEL_MODULE = re.compile(r"Kernel Module(?: for \S{1,20})?\s{1,20}(\d{2,4}(?:\.\d{1,5}){1,3})\b")
_VERSION = re.compile(r"\d{2,4}(?:\.\d{1,5}){1,3}")
#: Tegra's `libcuda.so.1.1` has an interface number there, not a driver version.
_LIBRARY_VERSION = re.compile(r"libcuda\.so\.(\d{3,4}(?:\.\d{1,5}){1,3})")
#: NVML_ERROR_GPU_IS_LOST, NVML_ERROR_RESET_REQUIRED, NVML_ERROR_UNKNOWN
_LOST: Final = frozenset({15, 16, 999})


def driver_facts(
    answers: Answers,
    *,
    root: Path = Path("/"),
    system: str = sys.platform,
    homes: Sequence[str] = (),
) -> DriverFacts:
    """Put together what the probe answered and what the kernel says.

    The driver's version is NVML's; without NVML the one in the file name of libcuda, unless that
    is a compatibility or a stub library; else the kernel module's.
    """
    kernel_module = read_kernel_module(root=root, system=system)
    path = _library_path(answers)
    user_library = _user_library(answers, path)
    return DriverFacts(
        version=_version(answers, path, user_library, kernel_module),
        kernel_module=kernel_module,
        user_library=user_library,
        cuda_version=_cuda_version(answers),
        libcuda=_libcuda(answers, path, homes),
        compat_library=_compat_library(answers, path, homes),
        nvml_error=_nvml_error(answers),
        cuda_error=_cuda_error(answers),
    )


def read_kernel_module(*, root: Path, system: str) -> Observed[str]:
    """Return the version of the loaded kernel module."""
    if not system.startswith("linux"):
        return NotApplicable(reason="only Linux has the kernel module", source="sys.platform")
    if is_there(root / "dev/dxg"):
        reason = "on WSL the kernel half of the driver is in Windows"
        return NotApplicable(reason=reason, source="/dev/dxg")
    text = read_text(root / "proc/driver/nvidia/version")
    if not isinstance(text, NotRead):
        match = _KERNEL_MODULE.search(text)
        if match:
            return Known(value=match.group(1), source=KERNEL_SOURCE)
        return Unreadable(reason=f"no version in {KERNEL_SOURCE}", source=KERNEL_SOURCE)
    return _from_sys_module(root, text)


def _from_sys_module(root: Path, before: NotRead) -> Observed[str]:
    source = "/sys/module/nvidia/version"
    text = read_text(root / "sys/module/nvidia/version")
    if isinstance(text, NotRead):
        failed = next((one for one in (before, text) if one.kind == "failed"), None)
        if failed is not None:
            return Unreadable(reason=failed.reason, source=f"{KERNEL_SOURCE}, {source}")
        reason = "the kernel module nvidia is not loaded"
        return Absent(source=f"{KERNEL_SOURCE}, {source}", reason=reason)
    match = _VERSION.match(text.strip())
    if match is None:
        return Unreadable(reason=f"no version in {source}", source=source)
    return Known(value=match.group(), source=source)


def _version(
    answers: Answers, path: str | None, user_library: Observed[str], kernel: Observed[str]
) -> Observed[str]:
    asked = answers.nvml.driver_version if answers.nvml else None
    match = _VERSION.fullmatch(str(asked.value).strip()) if asked and asked.value else None
    if match:
        return Known(value=match.group(), source=NVML)
    if isinstance(user_library, Known) and path and not (is_compat(path) or is_stub(path)):
        return Known(value=user_library.value, source="file name of libcuda")
    if isinstance(kernel, Known):
        return kernel
    sources = f"{NVML}, libcuda, {KERNEL_SOURCE}"
    if _nothing_installed(answers, path) and not isinstance(kernel, Unreadable):
        return Absent(source=sources, reason="no NVIDIA driver was found")
    told = value_of(_nvml_error(answers))
    reasons = (f"NVML: {told}" if told else "", reason_of(user_library), reason_of(kernel))
    return Unreadable(reason="; ".join(text for text in reasons if text), source=sources)


def _nothing_installed(answers: Answers, path: str | None) -> bool:
    nvml_is_missing = answers.nvml is not None and (
        not answers.nvml.found or _is_not_loaded(answers)
    )
    libcuda_is_missing = answers.libcuda is not None and (
        answers.libcuda.is_missing or (path is not None and is_stub(path))
    )
    return nvml_is_missing and libcuda_is_missing


def _is_not_loaded(answers: Answers) -> bool:
    # NVML_ERROR_DRIVER_NOT_LOADED
    return bool(answers.nvml and answers.nvml.error and answers.nvml.error.code == 9)  # noqa: PLR2004


def _library_path(answers: Answers) -> str | None:
    paths = answers.libcuda.paths if answers.libcuda else ()
    return paths[0] if paths else None


def is_compat(path: str) -> bool:
    """Whether a libcuda is one for forward compatibility (`/usr/local/cuda-13.0/compat/...`)."""
    folders = PurePosixPath(path).parts[:-1]
    return any(part == "compat" or part.startswith("cuda-compat") for part in folders)


def is_stub(path: str) -> bool:
    """Whether a libcuda is the toolkit's stub, which can only be linked against."""
    return "stubs" in PurePosixPath(path).parts[:-1]


def _no_library(answers: Answers) -> Observed[str] | None:
    """Return the state of everything that only a loaded libcuda can tell, or None if it loaded."""
    if answers.libcuda is None:
        return Unreadable(reason=answers.why_silent.get("libcuda", "not asked"), source=LOADER)
    if answers.libcuda.is_missing:
        return Absent(source=LOADER, reason=readable(answers.libcuda.reason) or "no libcuda here")
    if not answers.libcuda.found:
        return Unreadable(reason=readable(answers.libcuda.reason), source=LOADER)
    return None


def _libcuda(answers: Answers, path: str | None, homes: Sequence[str]) -> Observed[str]:
    missing = _no_library(answers)
    if missing is not None:
        return missing
    if path is None:
        return Unreadable(
            reason="the path of a loaded library is told by Linux only", source=LOADER
        )
    return Known(value=redact(path, homes=homes), source="/proc/self/maps after loading it")


def _user_library(answers: Answers, path: str | None) -> Observed[str]:
    missing = _no_library(answers)
    if missing is not None:
        return missing
    match = _LIBRARY_VERSION.fullmatch(PurePosixPath(path or "").name)
    if match is None:
        reason = "the file name of libcuda has no driver version (WSL, Tegra, stub, Windows)"
        return NotApplicable(reason=reason, source=LOADER)
    return Known(value=match.group(1), source="file name of libcuda")


def _compat_library(answers: Answers, path: str | None, homes: Sequence[str]) -> Observed[str]:
    missing = _no_library(answers)
    if missing is not None:
        return missing
    if path is None:
        return NotApplicable(reason="compatibility libraries exist on Linux only", source=LOADER)
    if is_compat(path):
        return Known(value=redact(path, homes=homes), source="path of libcuda")
    return Absent(source="path of libcuda", reason="libcuda is the driver's own")


def _cuda_version(answers: Answers) -> Observed[str]:
    asked = answers.nvml.cuda_version if answers.nvml else None
    if asked and isinstance(asked.value, int) and asked.value > 0:
        return _written(asked.value, NVML)
    missing = _no_library(answers)
    if missing is not None:
        return missing
    seen = answers.cuda_version
    if seen is None:
        return Unreadable(reason=answers.why_silent.get("libcuda", "not asked"), source=LOADER)
    if seen.code != 0 or seen.version <= 0:
        reason = f"cuDriverGetVersion gave error {seen.code} and version {seen.version}"
        return Unreadable(reason=reason, source="cuDriverGetVersion")
    return _written(seen.version, "cuDriverGetVersion")


def _written(version: int, source: str) -> Observed[str]:
    """Write CUDA's integer as people do: 12040 is `12.4`."""
    try:
        major, minor = cuda_from_integer(version)
    except ValueError as error:
        return Unreadable(reason=str(error), source=source)
    return Known(value=f"{major}.{minor}", source=source)


def _nvml_error(answers: Answers) -> Observed[str]:
    silent = answers.why_silent.get("nvml")
    if answers.nvml is None:
        return Known(value=readable(silent or "NVML was not asked"), source=NVML)
    if answers.nvml.error is not None:
        return Known(value=nvml_words(answers.nvml.error), source=NVML)
    if silent is not None:
        return Known(value=readable(silent), source=NVML)
    failed = _first_error(answers.nvml.driver_version, answers.nvml.gpu_count)
    failed = failed or _lost_gpu(answers)
    if failed is not None:
        return Known(value=failed, source=NVML)
    return Absent(source=NVML, reason="NVML worked")


def _first_error(*questions: Asked | None) -> str | None:
    errors = (asked.error for asked in questions if asked and asked.error)
    return next((nvml_words(error) for error in errors), None)


def _lost_gpu(answers: Answers) -> str | None:
    """Return what NVML says of a GPU that fell off the bus: NVML works, that GPU does not."""
    for gpu in answers.gpus:
        asked = gpu.values.get("name")
        if gpu.api == "nvml" and asked and asked.error and asked.error.code in _LOST:
            return f"GPU {gpu.index}: {nvml_words(asked.error)}"
    return None


def nvml_words(error: Failure) -> str:
    """Return NVML's text with its number, which newer and older texts have in common."""
    text = readable(error.message) or "NVML gives no reason"
    return f"{text} (NVML error {error.code})" if error.code else text


def _cuda_error(answers: Answers) -> Observed[CudaError]:
    source = "cuInit"
    missing = _no_library(answers)
    if isinstance(missing, Absent):
        return NotApplicable(reason="there is no libcuda to ask", source=source)
    if answers.cuda_init is None:
        return Unreadable(reason=answers.why_silent.get("libcuda", "not asked"), source=source)
    error = answers.cuda_init.error
    if error is None:
        return Absent(source=source, reason="CUDA could be initialised")
    value = CudaError(code=error.code, name=readable(error.name), message=readable(error.message))
    return Known(value=value, source=source)

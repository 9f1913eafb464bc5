"""What torch's caching allocator and the operating system say of this process's memory now."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, Final

import msgspec

_STATM: Final = Path("/proc/self/statm")


class CudaMemory(msgspec.Struct, frozen=True, kw_only=True):
    """Counters of torch's caching allocator on one device (`torch.cuda.memory_stats`)."""

    allocated_bytes: int
    """Held by tensors (and by workspaces that torch allocated)."""
    reserved_bytes: int
    """Taken from the driver: allocated, and free in the pool."""
    peak_allocated_bytes: int
    """Since the process began, or since the user's last reset."""
    peak_reserved_bytes: int
    retries: int
    """Times that the cache had to be flushed because the driver had no more memory to give."""
    ooms: int
    """Out-of-memory errors that were raised, those that somebody caught included."""

    @property
    def free_in_pool_bytes(self) -> int:
        """Reserved and not allocated: torch can use it again, others cannot."""
        return self.reserved_bytes - self.allocated_bytes


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """The state at the end of a step."""

    step: int
    seconds: float
    """Since the monitor was started."""
    cuda: CudaMemory | None
    """None: this process has not used CUDA (yet)."""
    host_bytes: int | None
    """Resident memory of this process; None where the system has no /proc."""


def sample(step: int, seconds: float, device: int | None) -> Sample:
    """Read the counters; starts nothing and waits for nothing."""
    return Sample(step=step, seconds=seconds, cuda=_cuda(device), host_bytes=_resident_bytes())


def cuda_in_use() -> bool:
    """Whether this process has used CUDA; asking must not be what starts it."""
    torch = sys.modules.get("torch")
    return torch is not None and bool(torch.cuda.is_initialized())


def why_no_gpu() -> str:
    """Say why there is nothing to read of a GPU; empty while CUDA may still come into use."""
    try:
        import torch  # noqa: PLC0415 (only where something is monitored)
    except ImportError as error:
        return f"torch cannot be imported: {error}"
    if torch.version.cuda is None and torch.version.hip is None:
        return f"torch {torch.__version__} is a build for the CPU"
    return ""


def _cuda(device: int | None) -> CudaMemory | None:
    if not cuda_in_use():
        return None
    import torch  # noqa: PLC0415

    # The flat form of `memory_stats` sorts some hundred names each time.
    counters: dict[str, Any] = torch.cuda.memory_stats_as_nested_dict(device)
    allocated = counters["allocated_bytes"]["all"]
    reserved = counters["reserved_bytes"]["all"]
    return CudaMemory(
        allocated_bytes=allocated["current"],
        reserved_bytes=reserved["current"],
        peak_allocated_bytes=allocated["peak"],
        peak_reserved_bytes=reserved["peak"],
        retries=counters.get("num_alloc_retries", 0),
        ooms=counters.get("num_ooms", 0),
    )


def _resident_bytes() -> int | None:
    try:
        pages = int(_STATM.read_bytes().split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")

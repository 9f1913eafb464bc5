"""Used memory of a GPU as NVML (and nvidia-smi) counts it: every process, contexts included."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

from envkit.allocator.sizes import MIB
from envkit.errors import CannotCheckError


def print_gpu_utilization(index: int = 0) -> None:
    """Print how much memory of a GPU is in use, by all processes: the line that tutorials have.

    Args:
        index: the GPU as torch counts it, so after CUDA_VISIBLE_DEVICES.

    Without a GPU or a driver it says so.

    """
    try:
        used_bytes = gpu_memory_used_bytes(index)
    except CannotCheckError as error:
        print(f"GPU memory occupied: not known. {error.message}")  # noqa: T201 (its purpose)
        return
    print(f"GPU memory occupied: {used_bytes // MIB} MB.")  # noqa: T201


def gpu_memory_used_bytes(index: int = 0) -> int:
    """Return the used memory of a GPU in bytes, of all processes.

    Raises:
        CannotCheckError: NVML is not there, or has no such GPU.

    """
    # nvidia-ml-py; not at the top, because a machine without a driver may lack it.
    try:
        nvml = importlib.import_module("pynvml")
    except ImportError as error:
        raise _cannot(str(error)) from error
    try:
        nvml.nvmlInit()
        try:
            return int(nvml.nvmlDeviceGetMemoryInfo(_handle(nvml, index)).used)
        finally:
            nvml.nvmlShutdown()
    except nvml.NVMLError as error:
        message = f"NVML says: {error}"
        raise _cannot(message) from error


def _handle(nvml: Any, index: int) -> Any:
    """Find a GPU by its UUID where possible: NVML counts all GPUs, torch the visible ones."""
    uuid = _uuid_of_torch(index)
    if uuid:
        return nvml.nvmlDeviceGetHandleByUUID(uuid)
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return nvml.nvmlDeviceGetHandleByIndex(index)
    names = [name.strip() for name in visible.split(",") if name.strip()]
    if index >= len(names):
        message = f"CUDA_VISIBLE_DEVICES={visible} shows no GPU {index}"
        raise _cannot(message)
    name = names[index]
    if name.isdecimal():
        return nvml.nvmlDeviceGetHandleByIndex(int(name))
    return nvml.nvmlDeviceGetHandleByUUID(name)


def _uuid_of_torch(index: int) -> str:
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized() or index >= torch.cuda.device_count():
        return ""
    uuid = getattr(torch.cuda.get_device_properties(index), "uuid", None)  # torch 2.4 and newer
    return "" if uuid is None else f"GPU-{uuid}"


def _cannot(reason: str) -> CannotCheckError:
    step = "`envkit verify` says what is the matter with the driver."
    return CannotCheckError(f"{reason}.", next_step=step)

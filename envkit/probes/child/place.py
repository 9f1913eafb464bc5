"""The device that probes run on: the CPU or one CUDA device, and how it is put in order."""

from __future__ import annotations

import gc
from typing import Any, Dict


class Unmet(RuntimeError):  # noqa: N818  (named for what happened)
    """A probe's preconditions could not be set: it gives no value, and this text says why."""


class TooFull(RuntimeError):  # noqa: N818  (named for what happened)
    """The device has too little memory for a probe: an answer is missing that was wanted."""


class Place:
    """One device of this process.

    `torch` and `api` (the module torch_api) are passed in, so that tests can put a fake CUDA in
    their place.
    """

    def __init__(self, torch: Any, api: Any, name: str) -> None:
        self.torch = torch
        self.api = api
        self.name = name
        self.kind = name.split(":", maxsplit=1)[0]
        self.index = int(name.split(":")[1]) if ":" in name else 0
        self.device = torch.device(name)

    @property
    def is_cuda(self) -> bool:
        """Whether this is a CUDA device."""
        return self.kind == "cuda"

    def start(self) -> None:
        """Set the Python heap aside and create the CUDA context, where there is none yet.

        Once in a process, which is a child that was started for this device.

        Without gc.freeze every later collection would look through all that importing torch made
        (0.14 s each on two slow cores).
        """
        gc.freeze()
        if self.is_cuda:
            self.torch.cuda.set_device(self.index)
            self.torch.cuda.synchronize()

    def synchronize(self) -> None:
        """Wait for everything that was launched."""
        if self.is_cuda:
            self.torch.cuda.synchronize()

    def clean(self) -> None:
        """Bring the allocator back to its first state between two runs in one process.

        Garbage is collected, the workspaces that cuBLAS keeps are given back and the cache is
        emptied. On an H200 this left nothing allocated but what was still held (the recorded
        timeline of the allocator traces).
        """
        gc.collect()
        if self.is_cuda:
            self.torch.cuda.synchronize()
            self.api.clear_workspaces(self.torch)
            self.torch.cuda.empty_cache()

    def must_be_clean(self) -> None:
        """Clean up.

        Raises:
            Unmet: something is still allocated, so a stream or a peak would not start at zero.

        """
        self.clean()
        if self.is_cuda:
            left = self.torch.cuda.memory_allocated(self.index)
            if left:
                text = "{} bytes of an earlier run are still allocated on {}"
                raise Unmet(text.format(left, self.name))

    def free_bytes(self) -> int:
        """Return the device memory that the driver can still give, in bytes."""
        return int(self.torch.cuda.mem_get_info(self.index)[0])

    def total_bytes(self) -> int:
        """Return the total that torch takes a memory fraction of, in bytes."""
        return int(self.torch.cuda.get_device_properties(self.index).total_memory)

    def peaks(self) -> Dict[str, int]:
        """Return the peaks since `reset_peaks`."""
        stats = self.torch.cuda.memory_stats(self.index)
        return {
            "allocated_bytes": stats["allocated_bytes.all.peak"],
            "reserved_bytes": stats["reserved_bytes.all.peak"],
            "segments": stats["segment.all.peak"],
        }

    def reset_peaks(self) -> None:
        """Set the peaks to what is held now."""
        self.torch.cuda.reset_peak_memory_stats(self.index)


def out_of_memory(torch: Any, error: BaseException) -> bool:
    """Whether an error says that the device has no memory left.

    torch 1.12 raises a plain RuntimeError, 1.13 .. 2.3 torch.cuda.OutOfMemoryError, later ones
    torch.OutOfMemoryError; all derive from RuntimeError.
    """
    for root in (torch, torch.cuda):
        known = getattr(root, "OutOfMemoryError", None)
        if isinstance(known, type) and isinstance(error, known):
            return True
    # cuBLAS and cuDNN say CUBLAS_STATUS_ALLOC_FAILED and the like.
    said = ("out of memory", "ALLOC_FAILED")
    return isinstance(error, RuntimeError) and any(words in str(error) for words in said)

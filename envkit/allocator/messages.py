"""The error of an allocation that fails, with torch's wording and the numbers behind it."""

from __future__ import annotations

from envkit.allocator.heap import Heap
from envkit.allocator.release import private_free_bytes
from envkit.allocator.sizes import format_size
from envkit.allocator.stats import ALL, BYTES


class OutOfMemory(RuntimeError):  # noqa: N818  (torch's name is OutOfMemoryError; the model's own)
    """An allocation failed.

    The text is that of the release, as far as the second last sentence: without the processes
    that NVML lists and without the advice at the end.
    """

    def __init__(self, message: str, numbers: dict[str, int]) -> None:
        super().__init__(message)
        #: `requested_segment`, `allocated`, `reserved` and `limit` (0: none), in bytes.
        self.info = numbers


def out_of_memory(heap: Heap, want: int) -> OutOfMemory:
    """Build the error for a segment of `want` bytes that could not be had."""
    numbers = _numbers(heap, want)
    in_pools = private_free_bytes(heap) if heap.version >= (2, 4) else 0
    capacity = "capacty" if heap.version == (2, 1) else "capacity"  # so spelled in 2.1
    free = max(0, heap.capacity - numbers["reserved"])
    allowed = "" if heap.limit is None else f"{format_size(heap.limit)} allowed; "
    pools = ""
    if in_pools:
        pools = f"with {format_size(in_pools)} allocated in private pools (e.g., CUDA Graphs), "
    unused = numbers["reserved"] - numbers["allocated"] - in_pools
    message = (
        f"CUDA out of memory. Tried to allocate {format_size(want)}. "
        f"GPU 0 has a total {capacity} of {format_size(heap.total_memory)} "
        f"of which {format_size(free)} is free. {allowed}"
        f"Of the allocated memory {format_size(numbers['allocated'] + in_pools)} is allocated by "
        f"PyTorch, {pools}and {format_size(unused)} is reserved by PyTorch but unallocated."
    )
    return OutOfMemory(message, numbers)


def rejection(heap: Heap, want: int) -> OutOfMemory:
    """Build the error of `throw_on_cudamalloc_oom`."""
    message = (
        "CUDA out of memory. Allocation was preemptively rejected because it would exceed "
        f"per_process_memory_fraction limit. Requested size: {format_size(want)}"
    )
    return OutOfMemory(message, _numbers(heap, want))


def absurd_request() -> OutOfMemory:
    """Build the error of a request of 2**60 bytes and more."""
    return OutOfMemory("CUDA out of memory. Tried to allocate more than 1EB memory.", {})


def _numbers(heap: Heap, want: int) -> dict[str, int]:
    return {
        "requested_segment": want,
        "allocated": heap.ledger.gauge(ALL, BYTES),
        "reserved": heap.reserved_bytes,
        "limit": heap.limit or 0,
    }

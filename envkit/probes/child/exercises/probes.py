"""What the exercises' probes are made of: counters after every operation, twice in one process."""

from __future__ import annotations

from typing import Any, Callable, Dict

from ..place import Place, TooFull, Unmet
from .catalogue import EXERCISES
from .operations import Walk, carry_out
from .torch_cuda import SPARE_BYTES, DeviceOutOfMemory, TorchAllocator

RUNS = 2

#: The largest exercise's reserved memory (426 MiB by the model, expandable segments) and room.
NEED_BYTES = 512 * 1024 * 1024

#: Only this backend is the allocator that the model describes.
NATIVE = "native"

NO_ALLOCATOR = "the CPU has no caching allocator: envkit's model can answer, marked as modelled"

Report = Callable[..., None]


def measure(place: Place, name: str, seed: int, report: Report) -> None:
    """Carry an exercise out and report its counters.

    Raises:
        Unmet: the allocator is another one, or is not empty.
        TooFull: the device has too little memory.

    """
    operations = EXERCISES[name](seed)
    if not place.is_cuda:
        report(not_run=NO_ALLOCATOR, operations=operations)
        return
    _must_be_native(place)
    walks = [_walk(place, operations) for _ in range(RUNS)]
    report(
        runs=[{"steps": walk.steps} for walk in walks],
        operations=operations,
        observed={"addresses": walks[0].addresses, "total_memory_bytes": place.total_bytes()},
    )


def _must_be_native(place: Place) -> None:
    backend = place.api.allocator_backend(place.torch)
    # Missing: torch before 2.0 has no other backend.
    if not isinstance(backend, place.api.Missing) and backend != NATIVE:
        message = "the allocator in effect is {}, not torch's own".format(backend)
        raise Unmet(message)
    free = place.free_bytes()
    if free < NEED_BYTES + SPARE_BYTES:
        message = "the device has {} bytes free, too few for the exercises".format(free)
        raise TooFull(message)


def _walk(place: Place, operations: Any) -> Walk:
    limit = _Limit(place)
    allocator = TorchAllocator(place)
    try:
        allocator.start_from_zero()
        walk = carry_out(operations, allocator, place.total_bytes(), DeviceOutOfMemory)
        _must_count(walk)
    finally:
        allocator.release()
        limit.restore(allocator)
    return walk


def _must_count(walk: Walk) -> None:
    if not any(step["counters"] for step in walk.steps):
        message = "torch counts nothing: its caching is off (PYTORCH_NO_CUDA_MEMORY_CACHING?)"
        raise Unmet(message)


class _Limit:
    """The user's own memory fraction, put back after an exercise."""

    def __init__(self, place: Place) -> None:
        found = place.api.call(place.torch, "cuda.get_per_process_memory_fraction", place.index)
        # Missing: older torch cannot tell, and nothing but code of this process could have set it.
        self._fraction = 1.0 if isinstance(found, place.api.Missing) else float(found)

    def restore(self, allocator: TorchAllocator) -> None:
        allocator.set_memory_fraction(self._fraction)


def unanswered(name: str, seed: int) -> Dict[str, Any]:
    """Return what can be said of an exercise that was not carried out: its operations."""
    return {"operations": EXERCISES[name](seed)}

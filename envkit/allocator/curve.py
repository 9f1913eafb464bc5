"""How much memory a stream of requests holds over its course: allocated, and reserved for it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from envkit.allocator.messages import OutOfMemory
from envkit.allocator.model import CachingAllocator
from envkit.allocator.rebuilt import Request
from envkit.allocator.stats import ALL, BYTES


class Curve(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes after every request, in order."""

    allocated_bytes: tuple[int, ...]
    reserved_bytes: tuple[int, ...]
    """Empty where there is no caching allocator."""
    ran_out_at: int | None = None
    """The request that could not be served, where the curve ends."""

    @property
    def peak_at(self) -> int:
        """Where most is allocated for the first time; 0 for a curve without points."""
        return max(
            range(len(self.allocated_bytes)), key=self.allocated_bytes.__getitem__, default=0
        )


def follow(requests: Sequence[Request], allocator: CachingAllocator) -> Curve:
    """Let the model of the caching allocator answer every request.

    Args:
        requests: frees name only what is alive (`rebuilt.rebuild`).
        allocator: a fresh model.

    """
    malloc, free, heap = allocator.malloc, allocator.free, allocator.heap
    held: dict[tuple[bool, int], int] = {}
    allocated: list[int] = []
    reserved: list[int] = []
    for number, size_bytes, stream in requests:
        if size_bytes:
            try:
                held[number] = malloc(size_bytes, stream)
            except OutOfMemory:
                ran_out_at = len(allocated)
                return _curve(allocated, reserved, ran_out_at)
        else:
            free(held.pop(number))
        allocated.append(heap.ledger.gauge(ALL, BYTES))
        reserved.append(heap.reserved_bytes)
    return _curve(allocated, reserved, None)


def add_up(requests: Sequence[Request]) -> Curve:
    """Add up what is asked for: what the CPU's allocator holds, which keeps nothing back."""
    sizes: dict[tuple[bool, int], int] = {}
    held = 0
    found = []
    for number, size_bytes, _ in requests:
        if size_bytes:
            sizes[number] = size_bytes
            held += size_bytes
        else:
            held -= sizes.pop(number)
        found.append(held)
    return _curve(found, (), None)


def _curve(allocated: Sequence[int], reserved: Sequence[int], ran_out_at: int | None) -> Curve:
    return Curve(
        allocated_bytes=tuple(allocated), reserved_bytes=tuple(reserved), ran_out_at=ran_out_at
    )

"""Operations on a caching allocator as plain data, and the one way to carry them out.

The same code drives torch's real allocator (in the checked environment) and the model of it
(in envkit, which loads this file by its path), so that both answer the very same questions.
Standard library only, no import of any other file of this package.

An operation is a list, so that it can be written as JSON:

    ["malloc", K, BYTES, STREAM]   allocation number K, STREAM 0 is the default stream
    ["free", K]                    nothing happens if allocation K ran out of memory
    ["record_stream", K, STREAM]   STREAM uses K: after its free it stays busy until that work ends
    ["synchronize"]                wait for the work of all streams
    ["empty_cache"]
    ["limit", BYTES]               memory limit of this process, 0 = none
    ["reset_peak"]
"""

from __future__ import annotations

from typing import Any, Dict, List, Protocol, Sequence, Tuple, Type

Operation = List[Any]

_SUMMED = (
    "allocated_bytes",
    "reserved_bytes",
    "active_bytes",
    "inactive_split_bytes",
    "inactive_split",
    "segment",
    "requested_bytes",
)
_GROUPS = ("allocation", "active", *_SUMMED)

#: The counters read after every operation: names as in torch.cuda.memory_stats().
COUNTERS: Tuple[str, ...] = (
    *("%s.%s.current" % (group, pool) for group in _GROUPS for pool in ("all", "small_pool")),
    *("%s.all.peak" % group for group in _GROUPS),
    *("%s.all.%s" % (group, sum_) for group in _SUMMED for sum_ in ("allocated", "freed")),
    "oversize_allocations.current",
    "oversize_allocations.allocated",
    "oversize_segments.current",
    "oversize_segments.freed",
    "num_alloc_retries",
    "num_ooms",
    "num_sync_all_streams",
    "num_device_alloc",
    "num_device_free",
)


class Allocator(Protocol):
    """What carry_out needs of an allocator; names and meanings are those of envkit's model."""

    def malloc(self, nbytes: int, stream: int = 0) -> int:
        """Allocate and return the address."""

    def free(self, address: int) -> None:
        """Give the allocation at the address back."""

    def record_stream(self, address: int, stream: int) -> None:
        """Note that the stream uses the allocation."""

    def synchronize(self) -> None:
        """Wait for the work of all streams."""

    def empty_cache(self) -> None:
        """Return every free segment to the driver."""

    def set_memory_fraction(self, fraction: float) -> None:
        """Limit the memory of this process; 1.0 lifts the limit."""

    def reset_peak(self) -> None:
        """Set every peak to its current value."""

    def memory_stats(self) -> Dict[str, int]:
        """All statistics, flat, as torch.cuda.memory_stats() gives them."""


def describe(operation: Operation) -> str:
    """Return the operation as a short text."""
    return " ".join(str(part) for part in operation)


class Walk:
    """Carries out operations one by one and notes which counters each one moved."""

    def __init__(
        self, allocator: Allocator, total_memory_bytes: int, out_of_memory: Type[BaseException]
    ) -> None:
        self.steps: List[Dict[str, Any]] = []
        self.addresses: List[Any] = []
        self._allocator = allocator
        self._total = total_memory_bytes
        self._out_of_memory = out_of_memory
        self._held: Dict[int, int] = {}
        self._last = dict.fromkeys(COUNTERS, 0)

    def step(self, operation: Operation) -> None:
        """Carry out one operation."""
        address = getattr(self, "_" + operation[0])(*operation[1:])
        self.addresses.append(address)
        self.steps.append({"op": describe(operation), "counters": self._moved()})

    def _moved(self) -> Dict[str, int]:
        now = self._allocator.memory_stats()
        moved = {
            name: now[name] for name in COUNTERS if name in now and now[name] != self._last[name]
        }
        self._last.update(moved)
        return moved

    def _malloc(self, number: int, nbytes: int, stream: int) -> Any:
        try:
            address = self._allocator.malloc(nbytes, stream)
        except self._out_of_memory:
            return None
        self._held[number] = address
        return address

    def _free(self, number: int) -> None:
        if number in self._held:
            self._allocator.free(self._held.pop(number))

    def _record_stream(self, number: int, stream: int) -> None:
        if number in self._held:
            self._allocator.record_stream(self._held[number], stream)

    def _synchronize(self) -> None:
        self._allocator.synchronize()

    def _empty_cache(self) -> None:
        self._allocator.empty_cache()

    def _limit(self, nbytes: int) -> None:
        self._allocator.set_memory_fraction(nbytes / self._total if nbytes else 1.0)

    def _reset_peak(self) -> None:
        self._allocator.reset_peak()


def carry_out(
    operations: Sequence[Operation],
    allocator: Allocator,
    total_memory_bytes: int,
    out_of_memory: Type[BaseException],
) -> Walk:
    """Carry out all operations on an allocator whose counters are all zero.

    `allocator` has the methods of `Allocator`. The result's `steps` hold, for every operation,
    the counters that differ from the step before; its `addresses` hold what malloc returned
    (None for other operations and where memory ran out). Counters that this torch does not
    have are left out.
    """
    walk = Walk(allocator, total_memory_bytes, out_of_memory)
    for operation in operations:
        walk.step(operation)
    return walk

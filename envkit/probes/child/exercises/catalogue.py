"""The allocator exercises of the suites, as lists of operations.

Where two free blocks of equal size could serve a request, torch takes the one at the lower
address, and the driver picks the addresses: such a choice would make counters differ between
processes. So the exercises avoid it: equal holes lie in one segment, or nothing depends on which
is taken (test_probe_exercises.py checks this with the model under scattered addresses).
Standard library only, no import of any other file of this package.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List

KIB = 1024
MIB = 1024 * KIB

Operation = List[Any]

#: Not a multiple of 2 MiB, so that rounding the fraction never decides.
LIMIT_BYTES = 120 * MIB + 333_333


def _malloc(number: int, nbytes: int, stream: int = 0) -> Operation:
    return ["malloc", number, nbytes, stream]


def _drop(numbers: Any) -> List[Operation]:
    return [["free", number] for number in numbers]


def five_tensors(_seed: int) -> List[Operation]:
    """Make and drop a 2000 x 2000 float32 tensor five times: reserved memory stays."""
    nbytes = 2000 * 2000 * 4
    operations: List[Operation] = []
    for number in range(1, 6):
        operations += [_malloc(number, nbytes), ["free", number]]
    return [*operations, ["empty_cache"]]


def size_ladder(_seed: int) -> List[Operation]:
    """Hold one allocation on each side of every size at which the rules change."""
    edges = (512, 1024, MIB, 2 * MIB, 10 * MIB, 20 * MIB)
    sizes = [1, *(edge + step for edge in edges for step in (-1, 0, 1)), 64 * MIB]
    operations = [_malloc(number, nbytes) for number, nbytes in enumerate(sizes, 1)]
    return [*operations, *_drop(range(1, len(sizes) + 1)), ["empty_cache"]]


def checkerboard(_seed: int) -> List[Operation]:
    """Free every second block; ask for more than any hole has, then for what one hole has."""
    blocks, size = 12, 3 * MIB // 2
    operations = [_malloc(number, size) for number in range(1, blocks + 1)]
    operations += _drop(range(1, blocks + 1, 2))
    operations += [_malloc(101, 5 * MIB // 2), _malloc(102, size)]
    operations += [["empty_cache"], *_drop(range(2, blocks + 1, 2)), *_drop((101, 102))]
    return [*operations, ["empty_cache"]]


def small_checkerboard(_seed: int) -> List[Operation]:
    """Do the same with 64 KiB blocks in one 2 MiB segment of the small pool."""
    blocks, size = 32, 64 * KIB
    operations = [_malloc(number, size) for number in range(1, blocks + 1)]
    operations += _drop(range(2, blocks + 1, 2))
    operations += [_malloc(101, 96 * KIB), _malloc(102, size)]
    operations += [*_drop(range(1, blocks + 1, 2)), *_drop((101, 102))]
    return [*operations, ["empty_cache"]]


def empty_cache(_seed: int) -> List[Operation]:
    """Empty the cache while segments are whole, partly used and in use."""
    sizes = (30 * MIB, 40 * MIB, 50 * MIB, 5 * MIB, 6 * MIB, 100 * KIB, 200 * KIB)
    operations = [_malloc(number, nbytes) for number, nbytes in enumerate(sizes, 1)]
    operations += [*_drop((1, 2, 4, 6)), ["empty_cache"], ["reset_peak"]]
    return [*operations, *_drop((3, 5, 7)), ["empty_cache"]]


def memory_limit(_seed: int) -> List[Operation]:
    """Run into a memory limit: one retry that succeeds, one that fails; recover."""
    operations = [["limit", LIMIT_BYTES], _malloc(1, 40 * MIB), _malloc(2, 30 * MIB)]
    operations += [_malloc(3, 20 * MIB), ["free", 2], _malloc(4, 60 * MIB)]
    operations += [_malloc(5, 50 * MIB), ["free", 5], ["free", 4], _malloc(6, 50 * MIB)]
    operations += [_malloc(7, 90 * MIB), ["limit", 0], _malloc(8, 90 * MIB)]
    return [*operations, *_drop((1, 3, 6, 7, 8)), ["empty_cache"]]


def streams(_seed: int) -> List[Operation]:
    """Show that memory stays with its stream, and waits for other streams that use it."""
    size = 8 * MIB
    operations = [_malloc(1, size), ["free", 1], _malloc(2, size, 1), ["free", 2]]
    operations += [_malloc(3, size), ["record_stream", 3, 1], ["free", 3]]
    # 13 MiB would fit into the 20 MiB segment of number 3, were it not still in use; 15 MiB do.
    operations += [_malloc(4, 13 * MIB), ["synchronize"], _malloc(5, 15 * MIB)]
    operations += [_malloc(6, 6 * MIB, 1), ["record_stream", 6, 0], ["free", 6]]
    return [*operations, ["synchronize"], *_drop((4, 5)), ["empty_cache"]]


class _Sequence:
    """A 64-bit linear congruential generator (the constants are Knuth's MMIX ones).

    Our own, so that a trace depends on no library's random numbers.
    """

    def __init__(self, seed: int) -> None:
        self._state = seed % (1 << 64)

    def below(self, bound: int) -> int:
        """Return the next number in 0 .. bound - 1."""
        self._state = (self._state * 6364136223846793005 + 1442695040888963407) % (1 << 64)
        return (self._state >> 33) % bound


#: Per cent: how often the random trace frees before an allocation, and empties the cache after it.
_FREES, _EMPTIES = 45, 4


def random_trace(seed: int) -> List[Operation]:
    """Allocate and free pieces of 4 KiB to 64 MiB in the order that the seed gives."""
    draw = _Sequence(seed)
    operations: List[Operation] = []
    live: List[int] = []
    for number in range(1, 81):
        if live and draw.below(100) < _FREES:
            operations.append(["free", live.pop(draw.below(len(live)))])
        floor = 1 << (12 + draw.below(14))
        operations.append(_malloc(number, floor + draw.below(floor)))
        live.append(number)
        if draw.below(100) < _EMPTIES:
            operations.append(["empty_cache"])
    return [*operations, *_drop(live), ["empty_cache"]]


#: Exercise name to the function that makes its operations from a seed. Only `random_trace`
#: depends on the seed.
EXERCISES: Dict[str, Callable[[int], List[Operation]]] = {
    "five_tensors": five_tensors,
    "size_ladder": size_ladder,
    "checkerboard": checkerboard,
    "small_checkerboard": small_checkerboard,
    "empty_cache": empty_cache,
    "memory_limit": memory_limit,
    "streams": streams,
    "random_trace": random_trace,
}

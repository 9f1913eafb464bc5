"""Where the CUDA driver puts new segments: its habit, learned from recordings on one H200.

Nothing of this is documented. It was read off the segment addresses of three training workloads
under five settings (driver 580, Linux) and then held against two other workloads; see
`docs/reference/replay.md`. Addresses decide which of two equally large free blocks is used, so a
replay under settings that change segments needs them.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import Final

from envkit.allocator.addresses import AddressSpace
from envkit.allocator.sizes import MIB, ceil_to

#: Address space is taken from the system in multiples of this.
CHUNK_BYTES: Final = 32 * MIB


class DriverAddresses(AddressSpace):
    """Address space in chunks that go down from a start; what is left of one serves later requests.

    A request takes the lowest hole of any chunk that holds it, at its beginning; if there is none,
    a new chunk below all others. A chunk without segments is one hole.

    Args:
        first: where the first chunk ends.

    """

    __slots__ = ("_far", "_holes", "_lowest")

    def __init__(self, first: int) -> None:
        super().__init__(first)
        self._lowest = first // CHUNK_BYTES * CHUNK_BYTES
        #: Observed addresses below this are of another part of the address space (Windows).
        self._far = first // 2
        #: Start and size, by start.
        self._holes: list[tuple[int, int]] = []

    def claim(self, size: int, observed: int | None) -> int:
        """Take a range and return its start: the one observed, or where the driver would put it.

        Raises:
            ValueError: the observed one is no 64 bit address, or lies on a range that is taken.

        """
        if observed is not None:
            start = super().claim(size, observed)
            self._use(start, size)
            return start
        for start, room in self._holes:
            if room >= size:
                self._use(start, size)
                return super().claim(size, start)
        span = ceil_to(size, CHUNK_BYTES)
        self._lowest -= span
        self._add_hole(self._lowest, span)
        self._use(self._lowest, size)
        return super().claim(size, self._lowest)

    def give_up(self, start: int) -> None:
        """Give a range back; it becomes a hole, or part of the one beside it."""
        end = self._ends[bisect_left(self._starts, start)]
        super().give_up(start)
        at = bisect_left(self._holes, (start, 0))
        if at < len(self._holes) and self._holes[at][0] == end:
            end += self._holes.pop(at)[1]
        if at and sum(self._holes[at - 1]) == start:
            start = self._holes.pop(at - 1)[0]
        self._add_hole(start, end - start)

    def _use(self, start: int, size: int) -> None:
        """Take a range out of its hole; one in no known hole belongs to a chunk of its own."""
        at = bisect_left(self._holes, (start + 1, 0)) - 1
        hole, room = self._holes[at] if at >= 0 else (0, 0)
        if hole + room >= start + size:
            del self._holes[at]
            self._add_hole(hole, start - hole)
            self._add_hole(start + size, hole + room - start - size)
        elif self._far < start < self._lowest:
            self._lowest = start // CHUNK_BYTES * CHUNK_BYTES

    def _add_hole(self, start: int, size: int) -> None:
        if size:
            insort(self._holes, (start, size))

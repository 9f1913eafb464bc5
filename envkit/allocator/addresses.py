"""Which address ranges are taken, so that no two segments can lie on one another."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Final

from envkit.allocator.sizes import MIB, UNLIMITED_BYTES, ceil_to

_STEP_BYTES: Final = 2 * MIB


class AddressSpace:
    """The ranges that the driver gave out.

    Args:
        first: where addresses start that no recording gives.

    """

    __slots__ = ("_ends", "_next", "_starts")

    def __init__(self, first: int) -> None:
        self._next = first
        self._starts: list[int] = []
        self._ends: list[int] = []

    def claim(self, size: int, observed: int | None) -> int:
        """Take a range and return its start: the one observed, or the next never used.

        Raises:
            ValueError: the observed one is no 64 bit address, or lies on a range that is taken.

        """
        if observed is None:
            start = ceil_to(self._next, _STEP_BYTES)
            while (taken := self._overlap(start, size)) is not None:
                start = ceil_to(self._ends[taken], _STEP_BYTES)
            self._next = start + size
        else:
            start = observed
            if not 0 <= start <= UNLIMITED_BYTES:
                message = f"the observed address {start} is no 64 bit address"
                raise ValueError(message)
            if self._overlap(start, size) is not None:
                message = (
                    f"the observed address {start:#x} cannot hold a new segment of {size} bytes: "
                    "another segment is there, so it is not from a run with these settings"
                )
                raise ValueError(message)
        at = bisect_left(self._starts, start)
        self._starts.insert(at, start)
        self._ends.insert(at, start + size)
        return start

    def give_up(self, start: int) -> None:
        """Give a range back."""
        at = bisect_left(self._starts, start)
        del self._starts[at], self._ends[at]

    def _overlap(self, start: int, size: int) -> int | None:
        """Return the place of a taken range that the given one touches."""
        at = bisect_right(self._starts, start)
        if at and self._ends[at - 1] > start:
            return at - 1
        if at < len(self._starts) and self._starts[at] < start + size:
            return at
        return None

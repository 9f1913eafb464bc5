"""The counters of `torch.cuda.memory_stats()`, kept so that an operation costs one addition.

Five figures change with almost every operation (allocations, allocated bytes, requested bytes,
free parts of split segments and their bytes), each for all / small pool / large pool, each with a
current value, a peak and two totals. Here they are lanes of 64 bits in ONE Python integer:

* 15 gauges: the current values, for all, small and large;
* 10 tallies: the sums of all increases, for small and large (all = their sum, and what was
  freed = increases minus the change of the gauge, so neither is kept).

An operation adds one integer that was computed once for its kind of request (`Kind`). A peak is
looked at only when a gauge is about to fall after it rose: `ceiling` holds 2**63 - 1 - peak in
each gauge lane, so the top bit of a lane of `lanes + ceiling` is set exactly where a gauge is above
its peak, and one AND tells whether there is any.

Blocks that are freed but wait for other streams are active and not allocated. They are rare, so
"active" is "allocated" plus these, and costs nothing while there are none.
"""

from __future__ import annotations

from typing import Final

LANE_BITS: Final = 64
_LANE: Final = (1 << LANE_BITS) - 1

#: The figures of one scope, in lane order.
COUNT, BYTES, REQUESTED, SPLITS, SPLIT_BYTES = range(5)
FIGURES: Final = 5
#: Scopes, in lane order.
ALL, SMALL, LARGE = range(3)
_SCOPES: Final = ("all", "small_pool", "large_pool")
_GAUGES: Final = 3 * FIGURES
GUARD: Final = sum(1 << (LANE_BITS * lane + LANE_BITS - 1) for lane in range(_GAUGES))
#: The largest value of a gauge, 2**63 - 1, alone and in each lane.
_TOP: Final = (1 << (LANE_BITS - 1)) - 1
_FULL: Final = sum(_TOP << (LANE_BITS * lane) for lane in range(_GAUGES))
_GAUGE_MASK: Final = (1 << (LANE_BITS * _GAUGES)) - 1

#: Bits of `Ledger.rose`: which gauges may have risen since the peaks were last looked at.
ROSE_USE, ROSE_SPLIT = 1, 2

Values = dict[str, int]
Scopes = dict[str, Values]
#: What `memory_stats_nested` returns: counters, and the values of a figure by scope.
Nested = dict[str, "int | Values | Scopes | dict[str, Scopes]"]


def _gauge(scope: int, figure: int) -> int:
    return 1 << (LANE_BITS * (scope * FIGURES + figure))


def _tally(scope: int, figure: int) -> int:
    return 1 << (LANE_BITS * (_GAUGES + (scope - 1) * FIGURES + figure))


#: FALL[scope][figure]: subtract it (times n) to lower the gauges of a pool and of "all".
FALL: Final = tuple(
    tuple(_gauge(ALL, figure) + _gauge(scope, figure) for figure in range(FIGURES))
    for scope in (SMALL, LARGE)
)
#: RISE[scope][figure]: add it (times n) to raise the gauges and the tally.
RISE: Final = tuple(
    tuple(FALL[scope - 1][figure] + _tally(scope, figure) for figure in range(FIGURES))
    for scope in (SMALL, LARGE)
)


class Gauge:
    """One rarely changing figure: current, peak, and the sums of increases and decreases."""

    __slots__ = ("allocated", "current", "freed", "peak")

    def __init__(self) -> None:
        self.current = self.peak = self.allocated = self.freed = 0

    def up(self, amount: int) -> None:
        """Increase the current value."""
        self.current += amount
        self.allocated += amount
        self.peak = max(self.peak, self.current)

    def down(self, amount: int) -> None:
        """Decrease the current value."""
        self.current -= amount
        self.freed += amount

    def reset_peak(self) -> None:
        """Forget the peak."""
        self.peak = self.current

    def reset_accumulated(self) -> None:
        """Forget the sums."""
        self.allocated = self.freed = 0

    def values(self) -> Values:
        """Return the four values under torch's names."""
        return _values(self.current, self.peak, self.allocated, self.freed)


class Gauges:
    """One rarely changing figure for all, the small and the large pool."""

    __slots__ = ("scopes",)

    def __init__(self) -> None:
        self.scopes = (Gauge(), Gauge(), Gauge())

    def up(self, scope: int, amount: int) -> None:
        """Increase the figure of a pool (`SMALL` or `LARGE`) and of all."""
        self.scopes[ALL].up(amount)
        self.scopes[scope].up(amount)

    def down(self, scope: int, amount: int) -> None:
        """Decrease the figure of a pool and of all."""
        self.scopes[ALL].down(amount)
        self.scopes[scope].down(amount)

    def values(self) -> Scopes:
        """Return the values by scope."""
        return {name: gauge.values() for name, gauge in zip(_SCOPES, self.scopes, strict=True)}


def _values(current: int, peak: int, allocated: int, freed: int) -> Values:
    return {"current": current, "peak": peak, "allocated": allocated, "freed": freed}


class Ledger:
    """The lanes, their peaks, and the figures that change rarely."""

    __slots__ = (
        "active_peaks",
        "base",
        "base_waiting",
        "ceiling",
        "counters",
        "lanes",
        "oversize_allocations",
        "oversize_segments",
        "private_reserved",
        "reserved",
        "rose",
        "segments",
        "waiting",
    )

    def __init__(self, counters: tuple[str, ...]) -> None:
        self.lanes = 0
        self.rose = 0
        self.ceiling = _FULL
        # Gauges at the last reset of the sums: what was freed follows from them.
        self.base = 0
        # Count and bytes of blocks that wait for other streams, for each scope.
        self.waiting = [[0, 0], [0, 0], [0, 0]]
        self.base_waiting = [[0, 0], [0, 0], [0, 0]]
        # Peaks of active reached while some block was waiting.
        self.active_peaks = [[0, 0], [0, 0], [0, 0]]
        self.segments = Gauges()
        self.reserved = Gauges()
        self.oversize_allocations = Gauge()
        self.oversize_segments = Gauge()
        self.private_reserved: dict[tuple[int, int], Gauges] = {}
        self.counters = dict.fromkeys(counters, 0)

    def count(self, counter: str) -> None:
        """Add one to a counter, where this version of torch has it."""
        if counter in self.counters:
            self.counters[counter] += 1

    def gauge(self, scope: int, figure: int) -> int:
        """Return the current value of a lane."""
        return self.lanes >> (LANE_BITS * (scope * FIGURES + figure)) & _LANE

    def peak(self, scope: int, figure: int) -> int:
        """Return the peak of a lane."""
        self.settle_peaks()
        lane = self.ceiling >> (LANE_BITS * (scope * FIGURES + figure)) & _LANE
        return _TOP - lane

    def settle_peaks(self) -> None:
        """Lift the peaks of the gauges that have risen above them."""
        self.rose = 0
        above = (self.lanes + self.ceiling) & GUARD
        if above:
            # From the top bit of each such lane to the whole lane.
            risen = (above << 1) - (above >> (LANE_BITS - 1))
            self.ceiling ^= (self.ceiling ^ self._room()) & risen

    def _room(self) -> int:
        """Return 2**63 - 1 - gauge in each lane."""
        return _FULL - (self.lanes & _GAUGE_MASK)

    def wait(self, scope: int, size_bytes: int, sign: int) -> None:
        """Note that a block starts (+1) or ends (-1) waiting for other streams."""
        for one in (ALL, scope):
            self.waiting[one][COUNT] += sign
            self.waiting[one][BYTES] += sign * size_bytes

    def lift_active(self) -> None:
        """Lift the peaks of active; needed after an allocation while blocks are waiting."""
        for scope in (ALL, SMALL, LARGE):
            for figure in (COUNT, BYTES):
                now = self.gauge(scope, figure) + self.waiting[scope][figure]
                self.active_peaks[scope][figure] = max(now, self.active_peaks[scope][figure])

    def active(self, scope: int, figure: int) -> int:
        """Return the current count or bytes of active blocks."""
        return self.gauge(scope, figure) + self.waiting[scope][figure]

    def reset_peak(self) -> None:
        """Set every peak to the current value."""
        self.rose = 0
        self.ceiling = self._room()
        self.active_peaks = [
            [self.active(scope, figure) for figure in (COUNT, BYTES)]
            for scope in (ALL, SMALL, LARGE)
        ]
        for gauge in self._rare():
            gauge.reset_peak()

    def reset_accumulated(self) -> None:
        """Set the sums and the counters to zero."""
        self.lanes &= _GAUGE_MASK
        self.base = self.lanes
        self.base_waiting = [list(pair) for pair in self.waiting]
        for gauge in self._rare():
            gauge.reset_accumulated()
        for counter in self.counters:
            self.counters[counter] = 0

    def nested(self) -> Nested:
        """Return the statistics as `torch.cuda.memory_stats_as_nested_dict()` does."""
        self.settle_peaks()
        out: Nested = dict(self.counters)
        out["allocation"] = self._figure(COUNT)
        out["segment"] = self.segments.values()
        out["active"] = self._active(COUNT)
        out["inactive_split"] = self._figure(SPLITS)
        out["allocated_bytes"] = self._figure(BYTES)
        out["reserved_bytes"] = self.reserved.values()
        out["active_bytes"] = self._active(BYTES)
        out["inactive_split_bytes"] = self._figure(SPLIT_BYTES)
        out["requested_bytes"] = self._figure(REQUESTED)
        out["oversize_allocations"] = self.oversize_allocations.values()
        out["oversize_segments"] = self.oversize_segments.values()
        return out

    def _rare(self) -> list[Gauge]:
        every = [*self.segments.scopes, *self.reserved.scopes]
        for gauges in self.private_reserved.values():
            every += gauges.scopes
        return [*every, self.oversize_allocations, self.oversize_segments]

    def _risen(self, scope: int, figure: int) -> int:
        """Return the sum of increases of a lane."""
        if scope == ALL:
            return self._risen(SMALL, figure) + self._risen(LARGE, figure)
        return self.lanes >> (LANE_BITS * (_GAUGES + (scope - 1) * FIGURES + figure)) & _LANE

    def _base(self, scope: int, figure: int) -> int:
        return self.base >> (LANE_BITS * (scope * FIGURES + figure)) & _LANE

    def _figure(self, figure: int) -> Scopes:
        out = {}
        for scope, name in enumerate(_SCOPES):
            now, risen = self.gauge(scope, figure), self._risen(scope, figure)
            freed = risen - now + self._base(scope, figure)
            out[name] = _values(now, self.peak(scope, figure), risen, freed)
        return out

    def _active(self, figure: int) -> Scopes:
        out = {}
        for scope, name in enumerate(_SCOPES):
            now, risen = self.active(scope, figure), self._risen(scope, figure)
            base = self._base(scope, figure) + self.base_waiting[scope][figure]
            # Without waiting blocks active is allocated, so the larger peak is the peak.
            peak = max(self.active_peaks[scope][figure], self.peak(scope, figure))
            out[name] = _values(now, peak, risen, risen - now + base)
        return out


class Kind:
    """What a request of one size does to the lanes, computed once.

    Args:
        request_bytes: what is asked for.
        block_bytes: size of the block handed out: the rounded request, or more where a cached
            block is used without a split.
        scope: `SMALL` or `LARGE`, the pool that serves it.
        tail_bytes: the largest rest of a cached block that is left unsplit.
        oversize: whether the block counts among the oversize allocations.

    """

    __slots__ = (
        "block_bytes",
        "give",
        "give_part",
        "key",
        "oversize",
        "request_bytes",
        "scope",
        "shrink",
        "tail_bytes",
        "take",
        "take_part",
    )

    def __init__(
        self,
        *,
        request_bytes: int,
        block_bytes: int,
        scope: int,
        tail_bytes: int,
        oversize: bool,
    ) -> None:
        self.request_bytes = request_bytes
        self.block_bytes = block_bytes
        self.scope = scope
        self.tail_bytes = tail_bytes
        self.oversize = oversize
        #: First key of the free index that can serve the request, see `blocks`.
        self.key = block_bytes << 64
        rise, fall = RISE[scope - 1], FALL[scope - 1]
        #: Hand out a block that was no free part of a split segment.
        self.take = rise[COUNT] + block_bytes * rise[BYTES] + request_bytes * rise[REQUESTED]
        #: Hand out a free part whole.
        self.take_part = self.take - fall[SPLITS] - block_bytes * fall[SPLIT_BYTES]
        #: Hand out the front of a free part.
        self.shrink = self.take - block_bytes * fall[SPLIT_BYTES]
        #: Take back a block that fills its segment, or is expandable memory.
        self.give = -(fall[COUNT] + block_bytes * fall[BYTES] + request_bytes * fall[REQUESTED])
        #: Take back a block that stays a part, after merging 0, 1 or 2 free neighbours: their
        #: bytes were counted already, so only the block's own are new.
        kept = self.give + block_bytes * rise[SPLIT_BYTES]
        self.give_part = (kept + rise[SPLITS], kept, kept - fall[SPLITS])


#: Kind of a block that served no request yet.
NO_KIND: Final = Kind(request_bytes=0, block_bytes=0, scope=SMALL, tail_bytes=0, oversize=False)

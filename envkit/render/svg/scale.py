"""From values to pixels, and where the ticks of an axis stand."""

from __future__ import annotations

import math
from typing import Final

import msgspec

_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_MOST_TICKS: Final = 6


class Scale(msgspec.Struct, frozen=True, kw_only=True):
    """A linear scale from `low`..`high` to the pixels `start`..`end`."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Return the pixel of a value; the middle if all values are the same."""
        if self.high <= self.low:
            return (self.start + self.end) / 2
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)


def byte_ticks(high: float) -> list[int]:
    """Return at most six ticks from 0 on, a power of two of bytes apart; the last is >= `high`."""
    step = 1
    while high > step * (_MOST_TICKS - 1):
        step *= 2
    return [step * at for at in range(int(-(-high // step)) + 1)] if high > 0 else [0, 1]


def count_ticks(low: float, high: float) -> list[float]:
    """Return at most seven ticks between two numbers, 1, 2 or 5 times a power of ten apart."""
    if high <= low:
        return [low]
    power = 10.0 ** math.floor(math.log10((high - low) / _MOST_TICKS))
    step = next(power * by for by in (1, 2, 5, 10) if (high - low) / (power * by) <= _MOST_TICKS)
    first = -(-low // step)
    return [(first + at) * step for at in range(int(high // step - first) + 1)]


def short_bytes(size: float) -> str:
    """Return a size as short as it can be read: `512 MiB`, `1.5 GiB`."""
    at = 0
    while abs(size) >= 1 << 10 and at < len(_UNITS) - 1:
        size /= 1 << 10
        at += 1
    return f"{size:.3g} {_UNITS[at]}" if abs(size) < 1000 else f"{size:.0f} {_UNITS[at]}"  # noqa: PLR2004


def short_count(value: float) -> str:
    """Return a number with its thousands apart."""
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.3g}"

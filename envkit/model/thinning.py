"""Which points of a long series are enough to draw it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence


def thin(xs: Sequence[float], ys: Sequence[float], columns: int) -> list[int]:
    """Return the places of the points that draw the same picture in so many columns of pixels.

    Of each column the first, the lowest, the highest and the last point stay (the first of equal
    ones), so a peak keeps its height and its place however short it is.

    Args:
        xs: ascending.
        ys: as many.
        columns: at least 1; at most four points of each stay.

    """
    count = len(ys)
    if count <= 4 * columns:
        return list(range(count))
    low, span = xs[0], xs[-1] - xs[0]
    edges = [bisect_left(xs, low + span * column / columns) for column in range(columns)]
    kept: list[int] = []
    for begin, end in zip(edges, [*edges[1:], count], strict=True):
        if begin < end:
            part = ys[begin:end]
            lowest, highest = begin + part.index(min(part)), begin + part.index(max(part))
            kept += sorted({begin, lowest, highest, end - 1})
    return kept

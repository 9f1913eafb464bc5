"""Whether a series of measurements grows, and how fast: statistics that outliers do not move.

Slope: the median of the slopes between all pairs (Theil and Sen). Certainty: by how many standard
deviations more pairs rise than fall (Mann and Kendall), 0 for a constant series.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from typing import Final, NamedTuple

#: With fewer points chance alone could look like growth.
FEWEST: Final = 12
#: A series without a trend passes this in 3 of 100,000 cases.
SURE: Final = 4.0


class Trend(NamedTuple):
    """How a series moves."""

    slope: float
    """Units a step."""
    certainty: float
    """Standard deviations; negative for a series that falls."""

    @property
    def grows(self) -> bool:
        """Whether growth is certain."""
        return self.certainty >= SURE and self.slope > 0


def trend(points: Sequence[tuple[int, int]]) -> Trend | None:
    """Return the trend of (step, value) pairs in the order of the steps; None for too few.

    Takes time in the square of their number.
    """
    if len(points) < FEWEST:
        return None
    pairs = list(itertools.combinations(points, 2))
    slopes = [(later[1] - early[1]) / (later[0] - early[0]) for early, later in pairs]
    rising = sum(slope > 0 for slope in slopes) - sum(slope < 0 for slope in slopes)
    count = len(points)
    deviation = math.sqrt(count * (count - 1) * (2 * count + 5) / 18)
    return Trend(statistics.median(slopes), rising / deviation)

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envkit.monitor.trend import FEWEST, trend

COUNTS = st.integers(FEWEST, 40)


@given(COUNTS, st.integers(0, 1 << 40))
def test_a_constant_series_has_no_trend(count: int, value: int) -> None:
    found = trend([(step, value) for step in range(count)])
    assert found is not None
    assert (found.slope, found.certainty, found.grows) == (0, 0, False)


@given(COUNTS, st.integers(1, 1 << 30), st.integers(1, 100))
def test_a_line_has_its_slope(count: int, slope: int, every: int) -> None:
    found = trend([(step * every, step * every * slope) for step in range(count)])
    assert found is not None
    assert found.slope == slope
    assert found.grows


@given(st.integers(FEWEST, 40), st.integers(0, 11), st.integers(-(1 << 40), 1 << 40))
def test_one_outlier_does_not_make_a_trend(count: int, where: int, value: int) -> None:
    points = [(step, 1000) for step in range(count)]
    points[where] = (where, value)
    found = trend(points)
    assert found is not None
    assert found.slope == 0
    assert not found.grows


def test_noise_is_no_growth_and_growth_is_found_in_noise() -> None:
    noise = random.Random(7)  # noqa: S311 (no secret)
    flat = [(step, noise.randrange(1000)) for step in range(40)]
    rising = [(step, 100 * step + value) for step, value in flat]
    found = trend(flat), trend(rising)
    assert found[0] is not None
    assert not found[0].grows
    assert found[1] is not None
    assert found[1].grows
    assert found[1].slope == pytest.approx(100, rel=0.2)


def test_few_points_say_nothing() -> None:
    assert trend([(step, step) for step in range(FEWEST - 1)]) is None

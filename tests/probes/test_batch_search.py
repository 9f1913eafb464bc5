from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from envkit.probes.child.strategies.batch_search import (
    EXACT_BELOW,
    MOST_TRIALS,
    Search,
    Trial,
    search,
)

SLOPES = st.integers(1, 1 << 28)
CONSTANTS = st.integers(0, 1 << 32)
LARGEST = st.integers(0, 5000)
FIRST = st.integers(1, 2000)


def tried(largest: int, slope: int, constant: int, first: int) -> Search:
    """Search on a device where peaks are a line and batches up to `largest` fit."""
    limit = constant + slope * largest + slope // 2

    def trial(batch: int) -> int | None:
        peak = constant + slope * batch
        return peak if peak <= limit else None

    return search(trial, first, limit)


@given(LARGEST, SLOPES, CONSTANTS, FIRST)
def test_the_answer_is_the_largest_batch_that_fits(
    largest: int, slope: int, constant: int, first: int
) -> None:
    found = tried(largest, slope, constant, first)
    assert found.largest <= largest
    assert largest - found.largest <= largest // EXACT_BELOW
    assert len(found.trials) < MOST_TRIALS
    batches = [trial.batch for trial in found.trials]
    assert len(set(batches)) == len(batches)


@given(st.integers(8, 5000), SLOPES, CONSTANTS)
def test_a_line_needs_few_trials(largest: int, slope: int, constant: int) -> None:
    assert len(tried(largest, slope, constant, first=4).trials) <= 9


@given(LARGEST, st.integers(2, 40), FIRST)
def test_memory_that_is_lost_to_fragmentation_costs_some_trials_more(
    largest: int, lost_percent: int, first: int
) -> None:
    """The limit is reached at a part of what the slope promises."""
    limit = (largest * 1000 + 500) * 100 // (100 - lost_percent)
    found = search(lambda batch: batch * 1000 if batch <= largest else None, first, limit)
    assert 0 <= largest - found.largest <= largest // EXACT_BELOW
    assert len(found.trials) < MOST_TRIALS


@given(st.lists(st.booleans(), min_size=MOST_TRIALS, max_size=MOST_TRIALS), FIRST)
def test_whatever_trials_say_the_search_ends_inside_its_bracket(
    outcomes: list[bool], first: int
) -> None:
    found = Search(first, 1 << 40)
    for fits in outcomes:
        batch = found.next_batch()
        if batch is None:
            break
        assert batch > found.largest
        assert found.smallest_failed is None or batch < found.smallest_failed
        found.add(Trial(batch, batch << 20 if fits else None))
    assert found.next_batch() is None or len(found.trials) == MOST_TRIALS


def test_one_that_never_fits_is_known_at_one() -> None:
    found = search(lambda _: None, 64, 1 << 30)
    assert found.largest == 0
    assert found.smallest_failed == 1

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st


@pytest.fixture(scope="module")
def streams(child: Any) -> Any:
    return child("streams")


def history(streams: Any, *rows: tuple[str, int, int]) -> Any:
    return streams.canonical([streams.Event(*row) for row in rows])


def test_allocations_are_numbered_in_order_and_frees_name_them(streams: Any) -> None:
    found = history(
        streams,
        ("alloc", 100, 7),
        ("alloc", 200, 8),
        ("free", 100, 7),
        ("alloc", 100, 9),
        ("free", 100, 9),
    )
    assert found.requests == [7, 8, -1, 9, -3]
    assert found.peak_bytes() == 17


def test_a_run_of_frees_is_sorted_and_an_allocation_ends_it(streams: Any) -> None:
    found = history(
        streams,
        ("alloc", 1, 10),
        ("alloc", 2, 20),
        ("alloc", 3, 30),
        ("free", 3, 30),
        ("free", 1, 10),
        ("alloc", 4, 40),
        ("free", 4, 40),
        ("free", 2, 20),
    )
    assert found.requests == [10, 20, 30, -1, -3, 40, -2, -4]


def test_frees_of_older_allocations_are_counted_and_left_out(streams: Any) -> None:
    found = history(streams, ("free", 5, 1), ("alloc", 5, 2), ("free", 5, 2), ("free", 6, 1))
    assert (found.requests, found.foreign_frees) == ([2, -1], 2)


def test_only_other_streams_are_named_by_first_use(streams: Any) -> None:
    rows = [
        streams.Event("alloc", 1, 10),
        streams.Event("alloc", 2, 20, 777),
        streams.Event("alloc", 3, 30, 555),
        streams.Event("alloc", 4, 40, 777),
    ]
    assert streams.canonical(rows).streams == {"2": 1, "3": 2, "4": 1}


def test_a_segment_names_the_allocation_that_needed_it(streams: Any) -> None:
    found = history(streams, ("segment", 1 << 21, 2097152), ("alloc", 1 << 21, 512))
    assert found.segments == [[1, 1 << 21, 2097152]]
    assert found.requests == [512]


@given(st.lists(st.integers(1, 1 << 30), min_size=1, max_size=40), st.integers(0, 1 << 30))
def test_the_order_within_a_run_of_frees_never_counts(
    streams: Any, sizes: list[int], seed: int
) -> None:
    events = [streams.Event("alloc", number, size) for number, size in enumerate(sizes)]
    frees = [streams.Event("free", number, size) for number, size in enumerate(sizes)]
    mixed = random.Random(seed).sample(frees, len(frees))  # noqa: S311  (not for secrets)
    assert streams.canonical(events + frees).values() == streams.canonical(events + mixed).values()


def test_a_split_numbers_each_side_afresh_and_places_workspaces(streams: Any) -> None:
    whole = history(
        streams,
        ("alloc", 1, 100),
        ("alloc", 2, 33),  # a workspace
        ("alloc", 3, 200),
        ("free", 2, 33),
        ("free", 1, 100),
    )
    tensors, workspaces = streams.split(whole, [True, False, True])
    assert tensors == {"requests": [100, 200, -1], "streams": {}}
    assert workspaces == {"requests": [33, -1], "streams": {}, "after_tensors": [1, 2]}


def test_a_workspace_between_two_frees_does_not_move_the_tensors(streams: Any) -> None:
    plain = history(streams, ("alloc", 1, 10), ("alloc", 2, 20), ("free", 2, 20), ("free", 1, 10))
    between = history(
        streams,
        ("alloc", 1, 10),
        ("alloc", 2, 20),
        ("free", 2, 20),
        ("alloc", 9, 5),
        ("free", 9, 5),
        ("free", 1, 10),
    )
    assert (
        streams.split(plain, [True, True]).tensors
        == streams.split(between, [True, True, False]).tensors
    )


def test_an_allocation_is_a_tensor_if_a_result_lies_there(streams: Any) -> None:
    addresses = [10, 20, 10, 30]
    # First operation: a temporary at 10, then the result; second: the place of 10 taken again.
    steps = [[2, [20]], [3, [10]], [4, []]]
    assert streams.label(addresses, steps) == [False, True, True, False]


def test_a_view_of_an_older_result_marks_nothing(streams: Any) -> None:
    assert streams.label([10, 20], [[1, [10]], [2, [10]]]) == [True, False]


def test_of_two_allocations_at_one_address_the_later_is_the_result(streams: Any) -> None:
    assert streams.label([10, 10], [[2, [10]]]) == [False, True]


def test_labels_pass_over_what_only_the_watched_run_allocated(streams: Any) -> None:
    found = streams.transfer([5, 6, 7], [5, 9, 6, 9, 7], [True, True, False, True, True])
    assert found == ([True, False, True], 0)


def test_a_label_that_could_be_read_both_ways_is_counted(streams: Any) -> None:
    found = streams.transfer([5, 6], [5, 5, 6], [True, False, True])
    assert found == ([True, True], 1)


def test_streams_that_do_not_fit_are_refused(streams: Any) -> None:
    with pytest.raises(streams.Unlike, match=r"allocation 2 of 2 \(8 bytes\)"):
        streams.transfer([5, 8], [5, 6, 7], [True, True, True])

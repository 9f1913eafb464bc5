from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from envkit.model.conda_version import (
    compare,
    parse_conda_version,
    parse_constraint,
    starts_with,
)

#: Oldest first. The order of conda's documentation of version ordering, and of well-known builds.
ORDERED = (
    "0.4",
    "0.4.1.rc",
    "0.4.1",
    "0.5a1",
    "0.5b3",
    "0.5",
    "0.9.6",
    "0.960923",
    "1.0",
    "1.1dev1",
    "1.1a1",
    "1.1.0dev1",
    "1.1.0",
    "1.1.0post1",
    "1.1.1a",
    "1.1.1w",
    "1996.07.12",
    "1!0.4.1",
    "1!3.1.1.6",
    "2!0.4.1",
)
SAME = (("0.4", "0.4.0"), ("1.1.0dev1", "1.1.dev1"), ("1.1.0post1", "1.1.post1"), ("1_0", "1.0"))

versions = st.from_regex(
    r"(?:[0-9]!)?[0-9]{1,3}(?:[._-]?(?:[0-9]{1,3}|a|rc|dev|post)){0,4}", fullmatch=True
)


def order(one: str, other: str) -> int:
    return compare(parse_conda_version(one), parse_conda_version(other))


@pytest.mark.parametrize(("older", "newer"), list(itertools.combinations(ORDERED, 2)))
def test_versions_order_as_conda_orders_them(older: str, newer: str) -> None:
    assert order(older, newer) == -1
    assert order(newer, older) == 1


@pytest.mark.parametrize(("one", "other"), SAME)
def test_missing_parts_count_as_zero(one: str, other: str) -> None:
    assert order(one, other) == 0


@given(versions, versions, versions)
def test_the_order_is_total(one: str, other: str, third: str) -> None:
    a, b, c = (parse_conda_version(text) for text in (one, other, third))
    assert compare(a, a) == 0
    assert compare(a, b) == -compare(b, a)
    if compare(a, b) <= 0 and compare(b, c) <= 0:
        assert compare(a, c) <= 0


@pytest.mark.parametrize(
    ("version", "prefix", "expected"),
    [
        ("2.5.1", "2.5", True),
        ("2.50", "2.5", False),
        ("2.5", "2.5.0", True),
        ("11.7", "11.7.0", True),
        ("2.5.1", "2.5.0", False),
        ("1.1.1w", "1.1.1", True),
        ("3.12.0rc1", "3.12", True),
        ("1!2.5", "2.5", False),
        ("2.5.1+cu121", "2.5.1+cu12", False),
        ("2.5.1+cu121", "2.5.1+cu121", True),
    ],
)
def test_series(version: str, prefix: str, *, expected: bool) -> None:
    assert starts_with(parse_conda_version(version), parse_conda_version(prefix)) is expected


@pytest.mark.parametrize(
    ("constraint", "admitted", "refused"),
    [
        ("2.5.1", ["2.5.1", "2.5.1.0"], ["2.5", "2.5.1.1", "2.5.10"]),
        ("==2.5", ["2.5", "2.5.0"], ["2.5.1"]),
        ("=2.5", ["2.5", "2.5.1", "2.5.99"], ["2.50", "2.6", "2.4"]),
        ("2.5.*", ["2.5.1"], ["2.6.0"]),
        ("==11.3.*", ["11.3.1"], ["11.4"]),
        (">=1.26,<2", ["1.26.0", "1.99"], ["2.0.0", "1.25"]),
        (">= 1.26 , < 2", ["1.26.0"], ["2.0.0"]),
        ("<2.0a0", ["1.26.4"], ["2.0.0", "2.0.0rc1"]),
        ("~=2.0.1", ["2.0.1", "2.0.9"], ["2.0.0", "2.1"]),
        ("~=2.0", ["2.0", "2.9"], ["3.0", "1.9"]),
        ("!=1.5", ["1.5.1"], ["1.5", "1.5.0"]),
        ("!=1.5.*", ["1.6"], ["1.5.1"]),
        ("1.7|>=2", ["1.7.0", "2.1"], ["1.8"]),
        ("*", ["0.1", "99"], []),
        ("3.*.1", ["3.4.1"], ["3.4.2"]),
        (">=2.1.*", ["2.1", "2.2"], ["2.0"]),
    ],
)
def test_constraints(constraint: str, admitted: list[str], refused: list[str]) -> None:
    parsed = parse_constraint(constraint)
    assert [one for one in admitted if not parsed.admits(one)] == []
    assert [one for one in refused if parsed.admits(one)] == []


@pytest.mark.parametrize("text", ["", "^1.*$", "(>=1)", ">=", ">=1,", "1..2", "=>1", ">*", "|1"])
def test_what_is_no_constraint_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"version|compare|pattern"):
        parse_constraint(text)


@pytest.mark.parametrize(
    ("constraint", "first", "last"),
    [
        ("=3.12", (3, 12), (3, 12)),
        ("==3.8.18", (3, 8), (3, 8)),
        (">=3.8,<3.10", (3, 8), (3, 9)),
        (">=3.8,<=3.10", (3, 8), (3, 10)),
        ("<3.10.1", None, (3, 10)),
        (">=3.8", (3, 8), None),
        ("2.*", (2, 0), (2, 9999)),
        ("<3", None, (2, 9999)),
        ("~=2.0.1", (2, 0), (2, 0)),
        ("~=2.1", (2, 1), (2, 9999)),
        ("1.7|1.8", (1, 7), (1, 8)),
        ("1.7|>=2", (1, 7), None),
        ("*", None, None),
        ("!=1.5", None, None),
        (">=1.1,>=1.2,<2.0,<=1.9", (1, 2), (1, 9)),
    ],
)
def test_ends_of_a_constraint(
    constraint: str, first: tuple[int, int] | None, last: tuple[int, int] | None
) -> None:
    bounds = parse_constraint(constraint).bounds
    assert (bounds.first_series, bounds.last_series) == (first, last)
    assert bounds.one_series == (first if first == last else None)


numbers = st.lists(st.integers(0, 4), min_size=1, max_size=4).map(tuple)


def dotted(parts: tuple[int, ...]) -> str:
    return ".".join(map(str, parts))


def padded(parts: tuple[int, ...]) -> tuple[int, ...]:
    return (*parts, 0, 0, 0, 0)[:4]


@given(
    st.lists(
        st.lists(
            st.tuples(st.sampled_from(["==", "=", ">=", "<", "<=", "~="]), numbers),
            min_size=1,
            max_size=2,
        ),
        min_size=1,
        max_size=2,
    ),
    numbers,
)
def test_what_is_admitted_lies_within_the_ends(
    alternatives: list[list[tuple[str, tuple[int, ...]]]], version: tuple[int, ...]
) -> None:
    text = "|".join(",".join(op + dotted(parts) for op, parts in terms) for terms in alternatives)
    constraint = parse_constraint(text)
    assume(constraint.admits(dotted(version)))
    bounds = constraint.bounds
    assert bounds.low is None or padded(version) >= padded(bounds.low)
    if bounds.high is not None:
        low_enough = padded(version) < padded(bounds.high)
        assert low_enough or (bounds.high_included and padded(version) == padded(bounds.high))


@pytest.mark.parametrize("read", [parse_conda_version, parse_constraint])
@given(text=st.text(max_size=40))
def test_reading_is_total(read: Callable[[str], object], text: str) -> None:
    with contextlib.suppress(ValueError):
        read(text)

"""cuDNN's version integer, the GPUs it supports, and what PyTorch accepts."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envkit.compat.answers import Unknown
from envkit.compat.cudnn import (
    CudnnVersion,
    cudnn_accepted,
    cudnn_decode,
    cudnn_encode,
    cudnn_row,
    cudnn_supports,
    parse_cudnn,
    table,
)
from envkit.compat.torch_builds import table as torch_table

CAPABILITIES = ("3.5", "5.0", "6.1", "7.0", "7.5", "8.6", "9.0", "12.0")
old = st.tuples(st.integers(1, 8), st.integers(0, 9), st.integers(0, 99))
new = st.tuples(st.integers(9, 99), st.integers(0, 99), st.integers(0, 99))


@pytest.mark.parametrize(
    ("integer", "version"),
    [
        (7605, (7, 6, 5)),
        (8302, (8, 3, 2)),
        (8500, (8, 5, 0)),
        (8902, (8, 9, 2)),
        (90100, (9, 1, 0)),
        (91002, (9, 10, 2)),
        (92000, (9, 20, 0)),
        (92600, (9, 26, 0)),
    ],
)
def test_version_integer(integer: int, version: CudnnVersion) -> None:
    assert cudnn_decode(integer) == version
    assert cudnn_encode(version) == integer


@given(old | new)
def test_decode_undoes_encode(version: CudnnVersion) -> None:
    assert cudnn_decode(cudnn_encode(version)) == version


@given(old | new, old | new)
def test_integers_order_as_versions_do(one: CudnnVersion, other: CudnnVersion) -> None:
    assert (cudnn_encode(one) < cudnn_encode(other)) is (one < other)


@pytest.mark.parametrize("integer", [-1, 0, 999, 1_000_000])
def test_an_integer_that_is_no_cudnn_version_is_refused(integer: int) -> None:
    with pytest.raises(ValueError, match="is not a cuDNN version integer"):
        cudnn_decode(integer)


@pytest.mark.parametrize("version", [(8, 10, 0), (9, 100, 0), (9, 1, 100), (0, 1, 1)])
def test_a_version_without_an_integer_is_refused(version: CudnnVersion) -> None:
    with pytest.raises(ValueError, match="has no version integer"):
        cudnn_encode(version)


def test_the_build_number_of_a_wheel_is_not_part_of_the_version() -> None:
    assert parse_cudnn("9.10.2.21") == (9, 10, 2)
    assert parse_cudnn("8.9") == (8, 9, 0)
    with pytest.raises(ValueError, match="is not a cuDNN version"):
        parse_cudnn("nine")


@given(st.text(max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        parse_cudnn(text)
    except ValueError as error:
        assert "is not a cuDNN version" in str(error)  # noqa: PT017  (either outcome is fine)


@pytest.mark.parametrize(
    ("version", "capability", "cuda", "answer"),
    [
        ((9, 10, 2), "6.1", 12, True),
        ((9, 11, 0), "6.1", 12, False),
        ((9, 13, 0), "7.0", 12, False),
        ((9, 20, 0), "7.5", 13, True),
        ((9, 20, 0), "7.0", 13, False),
        ((8, 9, 7), "3.7", 11, False),
        ((8, 1, 0), "3.5", 11, True),
        ((8, 1, 0), "3.0", 11, False),
        ((8, 1, 0), "3.0", 10, True),
    ],
)
def test_gpus_of_a_version(
    version: CudnnVersion,
    capability: str,
    cuda: int,
    answer: bool,  # noqa: FBT001
) -> None:
    assert cudnn_supports(version, capability, cuda) is answer


@pytest.mark.parametrize(
    ("version", "capability", "newer"),
    [((9, 40, 0), "9.0", True), ((8, 5, 0), "7.0", False), ((7, 0, 0), "7.0", False)],
)
def test_what_no_source_says_is_unknown(
    version: CudnnVersion,
    capability: str,
    newer: bool,  # noqa: FBT001
) -> None:
    found = cudnn_supports(version, capability, 12)
    assert isinstance(found, Unknown)
    assert found.newer is newer


def test_support_that_was_dropped_stays_dropped_in_newer_versions() -> None:
    assert cudnn_supports((9, 40, 0), "7.0", 13) is False


def test_ranges_are_ordered_without_gaps() -> None:
    for older, newer in pairwise(table().versions):
        last, first = parse_cudnn(older.last)[:2], parse_cudnn(newer.first)[:2]
        follows = first == (last[0], last[1] + 1)
        assert follows or first == (last[0] + 1, 0), newer.first
        assert parse_cudnn(newer.first) <= parse_cudnn(newer.last)


def test_a_newer_cudnn_never_supports_an_older_gpu() -> None:
    for capability in CAPABILITIES:
        for cuda in (11, 12, 13):
            answers = [
                cudnn_supports(parse_cudnn(row.first), capability, cuda)
                for row in table().versions
                if cuda in row.cuda_majors
            ]
            known = [answer for answer in answers if not isinstance(answer, Unknown)]
            assert known == sorted(known, reverse=True), (capability, cuda)


def test_every_cudnn_of_a_build_is_in_the_table_with_its_cuda() -> None:
    for release in torch_table().releases:
        for build in release.builds:
            if build.cudnn is None:
                continue
            row = cudnn_row(parse_cudnn(build.cudnn))
            assert not isinstance(row, Unknown), build.cudnn
            assert int(build.cuda.partition(".")[0]) in row.cuda_majors


@pytest.mark.parametrize(
    ("compiled", "loaded", "answer"),
    [
        ((9, 1, 0), (9, 1, 0), True),
        ((9, 1, 0), (9, 5, 1), True),
        ((9, 5, 1), (9, 5, 0), True),
        ((9, 5, 1), (9, 1, 0), False),
        ((8, 9, 2), (9, 1, 0), False),
        ((9, 1, 0), (8, 9, 7), False),
    ],
)
def test_what_torch_accepts(compiled: CudnnVersion, loaded: CudnnVersion, answer: bool) -> None:  # noqa: FBT001
    assert cudnn_accepted(compiled, loaded) is answer

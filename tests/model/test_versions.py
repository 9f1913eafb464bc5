"""Versions of drivers, CUDA, GPUs and PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envkit.model.versions import (
    Arch,
    cuda_from_integer,
    cuda_tag,
    parse_arch,
    parse_capability,
    parse_cuda,
    parse_cuda_tag,
    parse_driver,
    parse_torch,
)

PARSERS: list[Callable[[str], Any]] = [
    parse_arch,
    parse_capability,
    parse_cuda,
    parse_cuda_tag,
    parse_driver,
    parse_torch,
]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("535.146.02", (535, 146, 2)),
        ("570.26", (570, 26, 0)),
        (" 580.65.06\n", (580, 65, 6)),
        ("440.33", (440, 33, 0)),
    ],
)
def test_driver(text: str, expected: tuple[int, int, int]) -> None:
    assert parse_driver(text) == expected


def test_drivers_order_by_number_not_by_text() -> None:
    assert parse_driver("570.124.06") > parse_driver("570.26")
    assert parse_driver("535.54.03") < parse_driver("535.146.02")


@pytest.mark.parametrize(
    "text", ["", "535", "R535", "535.x", "535.1.2.3", "535.-1", "\u0665\u0663.\u0661"]
)
def test_what_is_no_driver_version_is_said(text: str) -> None:
    with pytest.raises(ValueError, match="is not a driver version"):
        parse_driver(text)


def test_cuda() -> None:
    assert parse_cuda("12.4") == (12, 4)
    assert parse_cuda("12.4.131") == (12, 4)
    assert parse_cuda("13.10") > parse_cuda("13.9")
    assert cuda_from_integer(12040) == (12, 4)
    assert cuda_from_integer(13000) == (13, 0)
    with pytest.raises(ValueError, match="is not a CUDA version"):
        parse_cuda("12")
    with pytest.raises(ValueError, match="0 is not a CUDA version integer"):
        cuda_from_integer(0)


def test_capability_and_architecture() -> None:
    assert parse_capability("9.0") == (9, 0)
    assert parse_capability("12.1") > parse_capability("9.0")
    assert parse_arch("sm_90a") == Arch(kind="sm", capability=(9, 0), suffix="a")
    assert parse_arch("compute_120") == Arch(kind="compute", capability=(12, 0), suffix="")
    with pytest.raises(ValueError, match="GPU architecture"):
        parse_arch("gfx90a")


@pytest.mark.parametrize(
    ("text", "base", "kind", "cuda"),
    [
        ("2.6.0+cu124", "2.6.0", "cuda", (12, 4)),
        ("2.11.0+cu130", "2.11.0", "cuda", (13, 0)),
        ("1.7.1+cu92", "1.7.1", "cuda", (9, 2)),
        ("2.0.1+cu117.with.pypi.cudnn", "2.0.1", "cuda", (11, 7)),
        ("2.13.0", "2.13.0", "unstated", None),
        ("2.13.0+cpu", "2.13.0", "cpu", None),
        ("2.5.1+cpu.cxx11.abi", "2.5.1", "cpu", None),
        ("2.5.1.post200", "2.5.1", "unstated", None),
        ("2.6.0+rocm6.2.4", "2.6.0", "rocm", None),
        ("2.8.0+xpu", "2.8.0", "xpu", None),
        ("1.13", "1.13.0", "unstated", None),
    ],
)
def test_torch_releases(text: str, base: str, kind: str, cuda: tuple[int, int] | None) -> None:
    version = parse_torch(text)
    assert (version.base, version.kind, version.cuda) == (base, kind, cuda)
    assert version.is_release
    assert version.commit is None


@pytest.mark.parametrize(
    ("text", "base", "commit"),
    [
        ("2.6.0a0+git1234567", "2.6.0", "1234567"),
        ("2.6.0a0+ecf3bae40a.nv25.01", "2.6.0", "ecf3bae40a"),
        ("2.5.1+gitfb421dd", "2.5.1", "fb421dd"),
        ("2.9.0.dev20250801+cu128", "2.9.0", None),
        ("2.7.0rc1", "2.7.0", None),
    ],
)
def test_builds_that_are_no_release(text: str, base: str, commit: str | None) -> None:
    version = parse_torch(text)
    assert (version.base, version.commit, version.is_release) == (base, commit, False)


def test_conda_post_number_and_series() -> None:
    version = parse_torch("2.5.1.post200")
    assert (version.post, version.minor) == (200, "2.5")
    assert parse_torch("2.10.0").release > parse_torch("2.9.1").release


@pytest.mark.parametrize("text", ["", "nonsense", "2.5.1+", "9" * 5000])
def test_what_is_no_torch_version_is_said(text: str) -> None:
    with pytest.raises(ValueError, match="is not a PyTorch version"):
        parse_torch(text)


@pytest.mark.parametrize("parser", PARSERS)
@given(text=st.text() | st.from_regex(r"[0-9.+a-z_]{0,20}"))
def test_any_text_is_read_or_refused_with_a_sentence(
    parser: Callable[[str], Any], text: str
) -> None:
    try:
        parser(text)
    except ValueError as error:
        assert "is not a" in str(error)  # noqa: PT017  (either outcome is fine)


@given(st.integers(1, 9999), st.integers(0, 9999), st.integers(0, 9999))
def test_a_driver_version_survives_being_written(branch: int, minor: int, patch: int) -> None:
    assert parse_driver(f"{branch:02}.{minor:02}.{patch:02}") == (branch, minor, patch)


@given(st.integers(1, 99), st.integers(0, 9))
def test_a_cuda_tag_survives_being_written(major: int, minor: int) -> None:
    assert parse_cuda_tag(cuda_tag((major, minor))) == (major, minor)


@given(st.integers(1, 400), st.integers(0, 99))
def test_the_cuda_integer_survives_being_written(major: int, minor: int) -> None:
    assert cuda_from_integer(major * 1000 + minor * 10) == (major, minor)


def test_a_version_without_a_tag_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot be written as a wheel tag"):
        cuda_tag((12, 10))

"""The newest build that a machine can run."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envkit.compat import advice, tables
from envkit.compat.advice import (
    Choice,
    MachineLimits,
    NoBuild,
    newest_torch,
    newest_torch_for_driver,
)
from envkit.compat.answers import Fit
from envkit.model.versions import parse_torch


@pytest.mark.parametrize(
    ("driver", "asked", "torch", "tag"),
    [
        ("595.71.05", {}, "2.15.0", "cu132"),
        # PyPI's default, by minor-version compatibility.
        ("580.159.04", {}, "2.15.0", "cu132"),
        ("535.146.02", {"capability": "8.0"}, "2.14.1", "cu126"),
        ("535.146.02", {"capability": "6.1"}, "2.14.1", "cu126"),
        ("535.146.02", {"capability": "12.0"}, "2.13.0", "cu129"),
        ("580.159.04", {"capability": "7.0"}, "2.14.1", "cu126"),
        ("470.256.02", {"capability": "7.5"}, "2.7.1", "cu118"),
        ("470.256.02", {"capability": "7.5", "glibc": "2.17"}, "2.6.0", "cu118"),
        ("580.159.04", {"python": "3.9.18"}, "2.8.0", "cu128"),
        ("580.159.04", {"python": "3.10"}, "2.14.1", "cu130"),
        ("560.35.03", {"glibc": "2.17"}, "2.6.0", "cu124"),  # its cu126 wheel needs glibc 2.28
        ("450.80.02", {"capability": "3.7", "python": "3.8"}, "2.4.1", "cu118"),
    ],
)
def test_best_build(driver: str, asked: dict[str, Any], torch: str, tag: str) -> None:
    found = newest_torch_for_driver(driver, **asked)
    assert isinstance(found, Choice)
    assert (found.torch, found.build.tag) == (torch, tag)
    assert found.index_url == f"https://download.pytorch.org/whl/{tag}"


def test_an_old_driver_gets_the_build_nearest_to_it() -> None:
    found = newest_torch_for_driver("525.60.13")
    assert isinstance(found, Choice)
    assert found.needs_minor_compatibility
    assert not found.is_pypi_default
    assert found.build.tag == "cu126"


def test_windows_never_gets_cuda_from_pypi() -> None:
    found = newest_torch_for_driver("581.42", "windows", capability="8.9")
    assert isinstance(found, Choice)
    assert not found.is_pypi_default
    assert (found.torch, found.build.tag) == ("2.14.1", "cu130")


@pytest.mark.parametrize(
    ("driver", "asked"),
    [
        ("390.157", {}),
        ("470.256.02", {"capability": "9.9"}),
        ("525.60.13", {"capability": "3.5"}),
        ("535.146.02", {"python": "3.6"}),
        ("535.146.02", {"glibc": "2.12"}),
    ],
)
def test_where_nothing_runs_it_says_so(driver: str, asked: dict[str, Any]) -> None:
    found = newest_torch_for_driver(driver, **asked)
    assert isinstance(found, NoBuild)
    assert tables.newest_release() in found.why


def test_a_build_must_have_code_for_every_gpu() -> None:
    both = MachineLimits(driver="580.159.04", capabilities=("6.1", "12.0"))
    assert isinstance(newest_torch(both), NoBuild)
    one = MachineLimits(driver="580.159.04", capabilities=("8.0", "12.0"))
    assert isinstance(newest_torch(one), Choice)


def test_a_build_that_needs_a_newer_glibc_than_its_release_is_left_out() -> None:
    release = tables.release_of("2.6.0")
    assert isinstance(release, tables.Release)
    tags = {
        glibc: [
            choice.build.tag
            for choice in advice._choices(release, MachineLimits(driver="560.35.03", glibc=glibc))
        ]
        for glibc in ("2.17", "2.28")
    }
    assert tags == {"2.17": ["cu118", "cu124"], "2.28": ["cu118", "cu124", "cu126"]}


def test_of_builds_newer_than_the_driver_the_one_nearest_to_it_is_preferred() -> None:
    release = tables.release_of("2.13.0")
    assert isinstance(release, tables.Release)
    choices = list(advice._choices(release, MachineLimits(driver="525.60.13")))
    assert [choice.build.tag for choice in choices] == ["cu126", "cu129"]
    assert max(choices, key=advice._preference).build.tag == "cu126"
    choices = list(advice._choices(release, MachineLimits(driver="575.57.08")))
    assert max(choices, key=advice._preference).build.tag == "cu129"


def test_input_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(ValueError, match="is not a driver version"):
        newest_torch_for_driver("unknown")
    with pytest.raises(ValueError, match="is not a compute capability"):
        newest_torch_for_driver("535.146.02", capability="ninety")


drivers = st.builds("{}.{}.{}".format, st.integers(440, 640), st.integers(0, 200), st.just("01"))


@settings(max_examples=60)
@given(drivers, drivers, st.sampled_from(["6.1", "7.5", "8.0", "9.0", "12.0"]))
def test_a_newer_driver_never_gets_an_older_torch(one: str, other: str, capability: str) -> None:
    low, high = sorted((one, other), key=lambda text: [int(part) for part in text.split(".")])
    before = newest_torch_for_driver(low, capability=capability)
    after = newest_torch_for_driver(high, capability=capability)
    if isinstance(before, Choice):
        assert isinstance(after, Choice)
        assert parse_torch(after.torch).release >= parse_torch(before.torch).release


@settings(max_examples=60)
@given(drivers, st.sampled_from(["6.1", "7.5", "8.0", "9.0", "12.0"]))
def test_what_is_advised_runs_by_the_tables(driver: str, capability: str) -> None:
    found = newest_torch_for_driver(driver, capability=capability)
    if isinstance(found, Choice):
        tag = found.build.tag
        assert tables.driver_fit(found.build.cuda, driver, "linux").level in {"full", "minor"}
        assert tables.runs_on(found.torch, tag, "linux_x86_64", capability).fit is Fit.NATIVE
        assert "published" not in found.build.unsure

"""What a solver is told about the machine."""

from __future__ import annotations

import pytest
from spec_texts import spec_of, spec_text

from envkit.specs.virtual_packages import PLATFORMS, virtual_packages

PLAIN = spec_of(spec_text("python=3.12"))
REGISTERED = {"__cuda": "12.6", "__glibc": "2.31", "__archspec": "1 x86_64_v3"}


def test_the_registry_decides() -> None:
    found = virtual_packages("linux-64", PLAIN, REGISTERED)
    assert found == {"__linux": "5.10", "__unix": "0", **REGISTERED}


def test_what_makes_no_sense_on_a_platform_is_left_out() -> None:
    assert "__cuda" not in virtual_packages("osx-arm64", PLAIN, REGISTERED)
    arm = virtual_packages("linux-aarch64", PLAIN, REGISTERED)
    assert (arm["__archspec"], arm["__cuda"]) == ("1 aarch64", "12.6")
    assert "__glibc" not in virtual_packages("win-64", PLAIN, REGISTERED)


@pytest.mark.parametrize(
    ("dependency", "cuda"),
    [
        ("cuda-version=12.6", "12.6"),
        ("cuda-version>=12.4,<13", "12.4"),
        ("pytorch-cuda=12.1", "12.1"),
        ("pytorch::pytorch-cuda=12.4", "12.4"),
        ("cudatoolkit=11.8", "11.8"),
    ],
)
def test_without_the_registry_the_cuda_that_is_pinned_counts(dependency: str, cuda: str) -> None:
    spec = spec_of(spec_text("python=3.12", dependency))
    assert virtual_packages("linux-64", spec, None)["__cuda"] == cuda


def test_a_spec_without_cuda_is_solved_without_a_gpu() -> None:
    # Never conda-lock's own default, 11.4.
    assert all("__cuda" not in virtual_packages(one, PLAIN, None) for one in PLATFORMS)


def test_a_registered_spec_without_cuda_has_none() -> None:
    spec = spec_of(spec_text("cuda-version=12.6"))
    assert "__cuda" not in virtual_packages("linux-64", spec, {"__glibc": "2.28"})

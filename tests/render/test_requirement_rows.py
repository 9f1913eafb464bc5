from __future__ import annotations

from typing import Any

import pytest

from envkit.model.documents import Machine
from envkit.render.requirement_rows import requirement_rows
from envkit.sources.machine_profile import facts_of


def rows(**profile: Any) -> dict[str, str]:
    import msgspec  # noqa: PLC0415 (only to build the profile)

    document = {"schema": "envkit.machine/1", **profile}
    return dict(requirement_rows(facts_of(msgspec.convert(document, Machine))))


@pytest.mark.parametrize(
    ("profile", "expected"),
    [
        ({"driver": "535.146.02"}, {"CONDA_OVERRIDE_CUDA": "12.2"}),
        ({"driver": "580.65.06", "os": "linux"}, {"CONDA_OVERRIDE_CUDA": "13.0"}),
        ({"driver": "527.41", "os": "wsl"}, {"CONDA_OVERRIDE_CUDA": "12.0"}),
        (
            {"torch": {"version": "2.6.0+cu124", "cuda": "12.4", "arch_list": ["sm_50", "sm_90"]}},
            {"NVIDIA_REQUIRE_CUDA": "cuda>=12.0", "NVIDIA_REQUIRE_ARCH": "arch>=5.0"},
        ),
        ({"torch": {"version": "1.4.0", "cuda": "10.1"}}, {"NVIDIA_REQUIRE_CUDA": "cuda>=10.1"}),
        ({"torch": {"version": "2.6.0+cpu"}}, {}),
        ({"os": "linux"}, {}),
    ],
)
def test_what_other_tools_are_told(profile: dict[str, Any], expected: dict[str, str]) -> None:
    assert rows(**profile) == expected


def test_a_driver_newer_than_the_tables_is_no_guess() -> None:
    said = rows(driver="9999.10")["CONDA_OVERRIDE_CUDA"]
    assert said.startswith("(unknown: ")


def test_an_architecture_that_is_none_says_nothing() -> None:
    torch = {"version": "2.6.0", "cuda": "12.4", "arch_list": ["banana"]}
    assert rows(torch=torch) == {"NVIDIA_REQUIRE_CUDA": "cuda>=12.0"}

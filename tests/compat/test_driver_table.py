"""Drivers against CUDA: floors, toolkits, branches, cuda-compat, error codes."""

from __future__ import annotations

from itertools import pairwise
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envkit.compat.answers import System, Unknown
from envkit.compat.driver import (
    DriverCuda,
    Requirement,
    cuda_error,
    driver_fit,
    forward_compat,
    least_driver,
    newest_cuda_for,
    runtime_floor,
    table,
    toolkit_driver,
)
from envkit.model.versions import parse_cuda, parse_driver

SYSTEMS: tuple[System, ...] = get_args(System)
CUDAS = sorted({row.cuda.rpartition(".")[0] for row in table().toolkits}, key=parse_cuda)
LEVELS = {"too_old": 0, "unknown": 0, "minor": 1, "full": 2}

drivers = st.tuples(st.integers(400, 700), st.integers(0, 200), st.integers(0, 20))


def written(driver: tuple[int, int, int]) -> str:
    return ".".join(str(part) for part in driver)


@pytest.mark.parametrize(
    ("major", "linux", "windows"),
    [(11, "450.80.02", "452.39"), (12, "525.60.13", "527.41"), (13, "580.65.06", "580.88")],
)
def test_floors(major: int, linux: str, windows: str) -> None:
    for system, expected in (("linux", linux), ("windows", windows)):
        floor = runtime_floor(major, system)  # type: ignore[arg-type]
        assert isinstance(floor, Requirement)
        assert floor.driver == expected
        assert floor.number == parse_driver(expected)
        assert floor.row.source


def test_majors_outside_the_tables_have_no_floor() -> None:
    newer, older = runtime_floor(14, "linux"), runtime_floor(10, "linux")
    assert isinstance(newer, Unknown)
    assert newer.newer
    assert isinstance(older, Unknown)
    assert not older.newer


@pytest.mark.parametrize(
    ("cuda", "system", "expected"),
    [
        ("12.4", "linux", "550.54.14"),
        ("12.4.1", "linux", "550.54.15"),
        ("12.8", "windows", "570.65"),
        ("11.0", "linux", "450.51.05"),
        ("10.2", "linux", "440.33"),
        ("13.0", "linux", "580.65.06"),
    ],
)
def test_the_driver_of_a_toolkit(cuda: str, system: System, expected: str) -> None:
    found = toolkit_driver(cuda, system)
    assert isinstance(found, Requirement)
    assert found.driver == expected


@pytest.mark.parametrize("cuda", ["13.5", "13.4", "12.7", "14.0", "9.0"])
def test_toolkits_without_a_known_driver_are_unknown(cuda: str) -> None:
    found = toolkit_driver(cuda, "linux")
    assert isinstance(found, Unknown)
    assert found.newer is (cuda == "14.0")


def test_least_driver_is_the_floor_from_cuda_11_and_the_toolkits_before() -> None:
    modern, old = least_driver("12.9", "linux"), least_driver("10.2", "linux")
    assert isinstance(modern, Requirement)
    assert modern.driver == "525.60.13"
    assert isinstance(old, Requirement)
    assert old.driver == "440.33"


@pytest.mark.parametrize(
    ("driver", "system", "cuda"),
    [
        ("535.146.02", "linux", (12, 2)),
        ("580.159.04", "linux", (13, 0)),
        ("565.57.01", "linux", (12, 7)),
        ("470.256.02", "linux", (11, 4)),
        ("615.31", "linux", (13, 4)),
        ("551.61", "windows", (12, 4)),
        ("537.13", "windows", (12, 2)),
        ("472.50", "windows", (11, 4)),
    ],
)
def test_newest_cuda_of_a_driver(driver: str, system: System, cuda: tuple[int, int]) -> None:
    found = newest_cuda_for(driver, system)
    assert isinstance(found, DriverCuda)
    assert found.cuda == cuda
    assert found.exact


def test_a_driver_between_branches_is_judged_by_the_older_one_and_says_so() -> None:
    found = newest_cuda_for("541.10", "windows")
    assert isinstance(found, DriverCuda)
    assert (found.cuda, found.branch, found.exact) == ((12, 2), 535, False)


def test_a_driver_newer_than_the_tables_is_not_guessed() -> None:
    found = newest_cuda_for("640.10", "linux")
    assert isinstance(found, Unknown)
    assert found.newer
    assert driver_fit("13.4", "640.10", "linux").level == "full"
    assert driver_fit("13.5", "640.10", "linux").level == "minor"
    assert driver_fit("14.0", "640.10", "linux").level == "unknown"


def test_a_driver_older_than_the_tables() -> None:
    found = newest_cuda_for("390.157", "linux")
    assert isinstance(found, Unknown)
    assert not found.newer
    assert driver_fit("11.8", "390.157", "linux").level == "too_old"


@pytest.mark.parametrize(
    ("cuda", "driver", "level"),
    [
        ("12.4", "535.146.02", "minor"),  # runs: over the floor of CUDA 12
        ("12.4", "550.54.14", "full"),
        ("13.0", "570.124.06", "too_old"),
        ("12.8", "525.60.12", "too_old"),
        ("12.8", "525.60.13", "minor"),
        ("11.8", "580.159.04", "full"),
        ("10.2", "430.50", "too_old"),
        ("10.2", "440.33.01", "full"),
    ],
)
def test_a_driver_against_a_build(cuda: str, driver: str, level: str) -> None:
    assert driver_fit(cuda, driver, "linux").level == level


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_toolkit_runs_fully_on_its_own_driver(system: System) -> None:
    for row in table().toolkits:
        own = toolkit_driver(row.cuda, system)
        if isinstance(own, Unknown) or row.release == "RC":
            continue
        fit = driver_fit(row.cuda, own.driver, system)
        assert fit.level == "full", row.cuda
        found = newest_cuda_for(own.driver, system)
        assert isinstance(found, DriverCuda)
        assert found.cuda == parse_cuda(row.cuda)
        assert found.branch == row.branch


@settings(max_examples=500)
@given(cuda=st.sampled_from(CUDAS), system=st.sampled_from(SYSTEMS), one=drivers, other=drivers)
def test_raising_a_driver_never_turns_pass_into_fail(
    cuda: str, system: System, one: tuple[int, int, int], other: tuple[int, int, int]
) -> None:
    low, high = sorted((one, other))
    before, after = (driver_fit(cuda, written(driver), system).level for driver in (low, high))
    assert LEVELS[before] <= LEVELS[after]


@given(one=drivers, other=drivers, system=st.sampled_from(SYSTEMS))
def test_a_newer_driver_supports_all_that_an_older_one_does(
    one: tuple[int, int, int], other: tuple[int, int, int], system: System
) -> None:
    low, high = (newest_cuda_for(written(driver), system) for driver in sorted((one, other)))
    if isinstance(low, DriverCuda) and isinstance(high, DriverCuda):
        assert low.cuda <= high.cuda
    elif isinstance(low, Unknown) and low.newer:
        assert isinstance(high, Unknown)
        assert high.newer


def test_the_tables_are_ordered_and_nest() -> None:
    rows = table()
    for newer, older in pairwise(rows.toolkits):
        assert _parts(newer.cuda) > _parts(older.cuda)
        for system in SYSTEMS:
            above, below = getattr(newer, system), getattr(older, system)
            if above and below:
                assert parse_driver(above) >= parse_driver(below)
    for first, second in pairwise(rows.branches):
        assert first.branch < second.branch
        assert parse_cuda(first.cuda) < parse_cuda(second.cuda)
    for low, high in pairwise(rows.floors):
        assert high.cuda_major == low.cuda_major + 1
        assert parse_driver(low.linux) < parse_driver(high.linux)
        assert parse_driver(low.windows) < parse_driver(high.windows)


def test_there_are_no_gaps() -> None:
    rows = table()
    known = {parse_cuda(row.cuda) for row in rows.branches}
    by_major = {major: sorted(minor for m, minor in known if m == major) for major, _ in known}
    assert by_major[11] == list(range(9))
    assert by_major[12] == list(range(10))
    assert by_major[13] == list(range(5))
    branches = {row.branch for row in rows.branches}
    assert {row.branch for row in rows.toolkits} - {None} <= branches
    assert {row.cuda_major for row in rows.floors} == {11, 12, 13}


def _parts(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


@pytest.mark.parametrize(
    ("cuda", "driver", "answer"),
    [
        ("13.0", "535.146.02", "works"),
        ("13.0", "580.65.06", "needless"),
        ("12.8", "580.65.06", "fails"),
        ("13.4", "595.71.05", "works"),
    ],
)
def test_forward_compatibility(cuda: str, driver: str, answer: str) -> None:
    assert forward_compat(cuda, driver) == answer


@pytest.mark.parametrize(
    ("cuda", "driver"), [("13.0", "550.54.14"), ("13.5", "535.1"), ("11.8", "535.1")]
)
def test_forward_compatibility_outside_nvidias_table_is_unknown(cuda: str, driver: str) -> None:
    found = forward_compat(cuda, driver)
    assert isinstance(found, Unknown)
    assert found.newer is (cuda == "13.5")


def test_cuda_compat_names_each_branch_once() -> None:
    for row in table().forward_matrix:
        named = [*row.works_on, *row.needless_on, *row.fails_on]
        assert sorted(named) == [535, 570, 580, 590, 595, 610, 615]


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (222, "cudaErrorUnsupportedPtxVersion"),
        (802, "cudaErrorSystemNotReady"),
        (803, "cudaErrorSystemDriverMismatch"),
        (804, "cudaErrorCompatNotSupportedOnDevice"),
        (999, "cudaErrorUnknown"),
    ],
)
def test_error_codes(code: int, name: str) -> None:
    found = cuda_error(code)
    assert not isinstance(found, Unknown)
    assert found.name == name
    assert found.hint_verified is (code not in {802, 999})


def test_an_error_code_outside_the_tables_is_unknown() -> None:
    assert isinstance(cuda_error(12345), Unknown)


@pytest.mark.parametrize(
    "call", [newest_cuda_for, lambda text, system: driver_fit("12.4", text, system)]
)
def test_text_that_is_no_driver_is_refused(call: object) -> None:
    assert callable(call)
    with pytest.raises(ValueError, match="is not a driver version"):
        call("N/A", "linux")

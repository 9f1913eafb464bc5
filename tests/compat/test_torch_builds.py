"""PyTorch releases, their builds and what goes with them."""

from __future__ import annotations

import datetime as dt
from itertools import pairwise
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from envkit.compat.answers import Unknown
from envkit.compat.torch_builds import (
    build_of,
    builds_for,
    companion_fits,
    companions,
    compatible_vision,
    newest_release,
    numpy_generation,
    python_fits,
    release_of,
    table,
    wheel_index,
)
from envkit.model.versions import cuda_tag, parse_cuda, parse_torch


def test_releases_are_ordered_by_version_and_date() -> None:
    for older, newer in pairwise(table().releases):
        assert parse_torch(older.version).release < parse_torch(newer.version).release
        assert dt.date.fromisoformat(older.date) < dt.date.fromisoformat(newer.date)
    assert table().releases[-1].version == newest_release()


def test_no_minor_release_is_missing() -> None:
    minors = {parse_torch(row.version).release[:2] for row in table().releases}
    assert minors == {(1, 12), (1, 13), *((2, minor) for minor in range(16))}


def test_every_build_says_its_cuda_twice_and_has_one_default() -> None:
    for release in table().releases:
        cudas = [parse_cuda(build.cuda) for build in release.builds]
        assert cudas == sorted(set(cudas)), release.version
        for build in release.builds:
            assert build.tag == cuda_tag(parse_cuda(build.cuda))
        default = [build.tag for build in release.builds if build.pypi_default]
        assert default == [release.pypi_default["linux_x86_64"]], release.version


def test_pins_are_requirements_and_agree_with_the_versions() -> None:
    for release in table().releases:
        for build in release.builds:
            for package, spec in build.pins.items():
                Requirement(package + spec)
            major = parse_cuda(build.cuda)[0]
            for name in ("cudnn", "nccl"):
                pin = build.pins.get(f"nvidia-{name}-cu{major}")
                if pin is not None:
                    assert pin == f"=={getattr(build, name)}", (release.version, build.tag)
        default = next(build for build in release.builds if build.pypi_default)
        if "triton" in default.pins:
            assert default.pins["triton"] == release.triton


def test_python_versions_are_ordered_and_within_requires_python() -> None:
    for release in table().releases:
        minors = [int(text.removeprefix("3.")) for text in release.python]
        assert minors == list(range(minors[0], minors[-1] + 1))
        allowed = SpecifierSet(release.requires_python)
        assert all(allowed.contains(f"{text}.0") for text in release.python)


def test_glibc_never_falls() -> None:
    floors = [parse_cuda(release.wheel.glibc_min) for release in table().releases]
    assert floors == sorted(floors)
    assert {row.version: row.wheel.glibc_min for row in table().releases}["2.7.0"] == "2.28"


def test_cxx11_abi_changed_with_2_7() -> None:
    for release in table().releases:
        is_new = parse_torch(release.version).release >= (2, 7, 0)
        assert release.wheel.cxx11_abi is is_new


@pytest.mark.parametrize(
    ("version", "default"),
    [("2.5.1", "cu124"), ("2.10.0", "cu128"), ("2.11.0", "cu130"), ("2.15.0", "cu132")],
)
def test_pypi_defaults(version: str, default: str) -> None:
    release = release_of(version)
    assert not isinstance(release, Unknown)
    assert release.pypi_default["linux_x86_64"] == default
    assert release.pypi_default["windows"] == "cpu"


def test_a_local_part_or_a_conda_post_number_names_the_same_release() -> None:
    for text in ("2.5.1", "2.5.1+cu121", "2.5.1+cpu", "2.5.1.post200"):
        release = release_of(text)
        assert not isinstance(release, Unknown)
        assert release.version == "2.5.1"


@pytest.mark.parametrize(
    ("text", "newer"),
    [
        ("2.16.0", True),
        ("3.0.0+cu140", True),
        ("1.11.0", False),
        ("2.6.0a0+ecf3bae40a.nv25.01", False),
        ("2.9.0.dev20250801+cu128", False),
        ("2.6.1", False),
    ],
)
def test_what_is_not_a_release_of_the_tables_is_unknown(text: str, newer: bool) -> None:  # noqa: FBT001
    for ask in (release_of, builds_for):
        found = ask(text)
        assert isinstance(found, Unknown)
        assert found.newer is newer
        assert found.why


def test_a_build_and_its_libraries() -> None:
    found = build_of("2.11.0", "cu130")
    assert not isinstance(found, Unknown)
    # The wheel's pin, not RELEASE.md, which says 9.17.1.4.
    assert found.cudnn == "9.19.0.56"
    assert isinstance(build_of("2.11.0", "cu121"), Unknown)
    assert isinstance(build_of("2.16.0", "cu130"), Unknown)


def test_what_is_not_verified_says_which_field() -> None:
    newest, older, cudnn = (
        build_of("2.15.0", "cu130"),
        build_of("2.5.1", "cu121"),
        build_of("2.11.0", "cu128"),
    )
    assert not isinstance(newest, Unknown)
    assert "published" in newest.unsure
    assert not isinstance(older, Unknown)
    assert older.unsure == ("nccl",)
    assert not isinstance(cudnn, Unknown)
    assert cudnn.unsure == ("cudnn",)


def test_every_unverified_build_names_what_is_unsure() -> None:
    for release in table().releases:
        for build in release.builds:
            assert build.verified or build.unsure, (release.version, build.tag)


@pytest.mark.parametrize(
    ("version", "state", "cuda"),
    [("2.5.1", "published", ("11.8", "12.1", "12.4")), ("2.6.0", "absent", ())],
)
def test_the_pytorch_channel_ends_with_2_5_1(
    version: str, state: str, cuda: tuple[str, ...]
) -> None:
    release = release_of(version)
    assert not isinstance(release, Unknown)
    assert (release.conda_pytorch.state, release.conda_pytorch.cuda) == (state, cuda)


def test_conda_forge_after_the_snapshot_is_unknown_not_absent() -> None:
    release = release_of("2.15.0")
    assert not isinstance(release, Unknown)
    assert release.conda_forge.state == "unknown"


def test_wheel_index() -> None:
    assert wheel_index("cu126") == "https://download.pytorch.org/whl/cu126"
    assert wheel_index("cpu") == "https://download.pytorch.org/whl/cpu"
    with pytest.raises(ValueError, match="is not a CUDA wheel tag"):
        wheel_index("../evil")


@pytest.mark.parametrize(
    ("version", "python", "fits"),
    [("2.2.0", "3.12", True), ("2.2.0", "3.13.1", False), ("2.15.0", "3.10", False)],
)
def test_python(version: str, python: str, fits: bool) -> None:  # noqa: FBT001
    assert python_fits(version, python) is fits


def test_python_of_an_unknown_release_is_unknown() -> None:
    assert isinstance(python_fits("2.16.0", "3.13"), Unknown)


@pytest.mark.parametrize(
    ("torch", "vision"),
    [("2.5.1+cu124", ("0.20.1",)), ("2.0.1", ("0.15.2",)), ("1.12.1", ("0.13.1",))],
)
def test_torchvision_of_a_release(torch: str, vision: tuple[str, ...]) -> None:
    assert compatible_vision(torch) == vision


def test_torchaudio_and_conda_forge() -> None:
    assert companions("torchaudio", "2.0.1") == ("2.0.2",)
    assert companions("torchvision", "2.7.1", origin="conda-forge") == (
        "0.22.0",
        "0.22.1",
        "0.24.0",
    )


@pytest.mark.parametrize("torch", ["2.15.0", "2.6.0a0+git1234567"])
def test_pairs_that_no_source_names_are_unknown(torch: str) -> None:
    assert isinstance(compatible_vision(torch), Unknown)


@pytest.mark.parametrize(
    ("vision", "torch", "origin", "answer"),
    [
        ("0.20.1+cu124", "2.5.1+cu124", "pytorch", True),
        ("0.20.1+cu124", "2.6.0+cu124", "pytorch", False),
        ("0.15.2", "2.1.0", "pytorch", False),
        ("0.22.0", "2.7.1", "conda-forge", True),
    ],
)
def test_a_companion_belongs_or_does_not(
    vision: str,
    torch: str,
    origin: Any,
    answer: bool,  # noqa: FBT001
) -> None:
    assert companion_fits("torchvision", vision, torch, origin=origin) is answer


@pytest.mark.parametrize(
    ("vision", "torch", "origin"),
    [
        ("0.27.0", "2.12.0", "pytorch"),  # no source names the torch of 0.27.0
        ("0.24.0", "2.9.0", "conda-forge"),  # conda-forge builds one version for several torches
        ("0.20.1", "2.5.1a0+git1234567", "pytorch"),
    ],
)
def test_a_companion_is_never_accused_without_a_source(
    vision: str, torch: str, origin: Any
) -> None:
    assert isinstance(companion_fits("torchvision", vision, torch, origin=origin), Unknown)


@pytest.mark.parametrize(
    ("version", "platform", "generation"),
    [
        ("2.2.2", "linux", 1),
        ("2.3.0", "linux", 2),
        ("2.4.0", "windows", 1),
        ("2.4.1", "windows", 2),
        ("2.1.2", "conda-forge", 1),
        ("2.15.0", "linux", 2),
    ],
)
def test_numpy_generation(version: str, platform: Any, generation: int) -> None:
    found = numpy_generation(version, platform)
    assert not isinstance(found, Unknown)
    assert found.numpy == generation


def test_numpy_generation_outside_the_tables_is_unknown() -> None:
    assert isinstance(numpy_generation("2.16.0", "linux"), Unknown)

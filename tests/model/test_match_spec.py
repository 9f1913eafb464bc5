from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from envkit.model.conda_channel import channel_name
from envkit.model.match_spec import MatchSpec, parse_match_spec


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("python", ("python", None, None, None)),
        ("python=3.11", ("python", "=3.11", None, None)),
        ("python =3.11", ("python", "=3.11", None, None)),
        ("python 3.11.*", ("python", "3.11.*", None, None)),
        ("python >= 3.8, < 3.10", ("python", ">=3.8,<3.10", None, None)),
        ("pytorch=2.7.1=*cuda126*", ("pytorch", "2.7.1", "*cuda126*", None)),
        ("pytorch 2.6.0 *cuda126*", ("pytorch", "2.6.0", "*cuda126*", None)),
        ("pytorch=*=*cpu*", ("pytorch", None, "*cpu*", None)),
        ("pytorch>=2.1.0=cuda120*", ("pytorch", ">=2.1.0", "cuda120*", None)),
        ("pytorch::pytorch-cuda=12.4", ("pytorch-cuda", "=12.4", None, "pytorch")),
        ("_libgcc_mutex=0.1=main", ("_libgcc_mutex", "0.1", "main", None)),
        ("numpy[version='>=1.26,<2', build=py*]", ("numpy", ">=1.26,<2", "py*", None)),
        ("numpy=1[build_number=3]", ("numpy", "=1", None, None)),
        ("Jinja2", ("jinja2", None, None, None)),
        ("conda-forge/linux-64::zlib", ("zlib", None, None, "conda-forge")),
        ("ruamel.yaml~=0.18.0", ("ruamel.yaml", "~=0.18.0", None, None)),
    ],
)
def test_dependencies_as_conda_writes_them(text: str, expected: tuple[str | None, ...]) -> None:
    """Name, version, build, channel."""
    found = parse_match_spec(text)
    version = found.version.text if found.version else None
    assert (found.name, version, found.build, found.channel) == expected


def test_a_package_by_its_address() -> None:
    address = "https://conda.anaconda.org/conda-forge/linux-64/zlib-1.2.13-h4ab18f5_6.conda#md5"
    found = parse_match_spec(address)
    assert (found.name, found.build, found.url) == ("zlib", "h4ab18f5_6", address)
    assert found.version is not None
    assert found.version.text == "1.2.13"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "=3.11",
        "a::b::c",
        "::zlib",
        "a[version=1",
        "a[b]",
        "a==",
        "https://x/y",
        "a 1 b c",
        "a (>=1)",
    ],
)
def test_what_conda_would_not_understand_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_match_spec(text)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("python=3.11", "python 3.11.*"),
        ("python>=3.8,<3.10", "python <3.10, >=3.8"),
        ("pytorch=2.7.1=*cuda*", "pytorch 2.7.1 *cuda*"),
        ("numpy=1", "numpy[version='=1']"),
        ("zlib=*", "zlib"),
    ],
)
def test_equal_dependencies_share_a_canonical_form(one: str, other: str) -> None:
    assert parse_match_spec(one).canonical() == parse_match_spec(other).canonical()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("python=3.11", "python==3.11"),
        ("python=3.11", "python=3.12"),
        ("pytorch=2.7.1=*cuda126*", "pytorch=2.7.1=*cuda129*"),
        ("pytorch::pytorch", "pytorch"),
        ("pytorch::pytorch", "conda-forge::pytorch"),
    ],
)
def test_different_dependencies_do_not(one: str, other: str) -> None:
    assert parse_match_spec(one).canonical() != parse_match_spec(other).canonical()


@pytest.mark.parametrize(
    ("channel", "name"),
    [
        ("conda-forge", "conda-forge"),
        ("https://conda.anaconda.org/conda-forge/linux-64", "conda-forge"),
        ("https://conda.anaconda.org/conda-forge/noarch/", "conda-forge"),
        ("https://repo.anaconda.com/pkgs/main", "defaults"),
        ("pkgs/main", "defaults"),
        ("conda-forge/label/dev", "conda-forge/label/dev"),
        ("https://mirror.example/anaconda/cloud/conda-forge/", "conda-forge"),
        ("", ""),
    ],
)
def test_name_of_a_channel(channel: str, name: str) -> None:
    assert channel_name(channel) == name


def _admits(match: MatchSpec, package: dict[str, Any]) -> bool:
    url = package["url"]
    channel, _, file = url.rpartition("/")
    stem = file.removesuffix(".conda").removesuffix(".tar.bz2")
    name, version, build = stem.rsplit("-", 2)
    return match.admits(name=name, version=version, build=build, channel=channel)


def test_every_dependency_of_the_recorded_specs_admits_what_was_locked_for_it(
    shared: Path,
) -> None:
    """conda-lock and a real solver chose these packages for these dependencies."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    checked = 0
    for folder in sorted((shared / "facts" / "conda" / "examples").glob("*/")):
        spec = yaml.load((folder / "environment.yml").read_bytes(), Loader=loader)  # noqa: S506
        lock = yaml.load((folder / "conda-lock.yml").read_bytes(), Loader=loader)  # noqa: S506
        packages = {one["name"]: one for one in lock["package"]}
        for text in spec["dependencies"]:
            match = parse_match_spec(text)
            assert _admits(match, packages[match.name]), f"{folder.name}: {text}"
            checked += 1
    assert checked > 150


def test_every_dependency_of_every_recorded_package_can_be_read_and_is_met(shared: Path) -> None:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    folder = shared / "facts" / "conda" / "examples" / "vit-pytorch271-cu126-py312"
    lock = yaml.load((folder / "conda-lock.yml").read_bytes(), Loader=loader)  # noqa: S506
    packages = {one["name"]: one for one in lock["package"]}
    met = 0
    for package in packages.values():
        for name, constraint in package["dependencies"].items():
            if name in packages:
                match = parse_match_spec(f"{name} {constraint}".strip())
                assert _admits(match, packages[name]), f"{package['name']}: {name} {constraint}"
                met += 1
    assert met > 500


@given(
    st.text(max_size=60)
    | st.from_regex(r"[a-z:]{1,8}[ =<>!~]{0,3}[0-9.*|,a]{0,8}[ =]?[a-z_*]{0,6}", fullmatch=True)
)
def test_reading_is_total_and_the_canonical_form_is_stable(text: str) -> None:
    with contextlib.suppress(ValueError):
        found = parse_match_spec(text)
        assert found.canonical() == parse_match_spec(text.strip()).canonical()

"""Records of a conda prefix, good ones and every kind of bad one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from envkit.model.facts import CondaPackage
from envkit.model.observed import Known, NotApplicable, Unreadable
from envkit.sources.conda_prefix import read_conda

from .trees import conda_record, known, plant


def test_packages_are_read_and_sorted(tmp_path: Path) -> None:
    plant(tmp_path, conda_record("zlib", "1.3.1", "h0_2"))
    plant(tmp_path, conda_record("numpy", "1.26.4", "py311_0", requested_spec="numpy"))
    plant(tmp_path, {"conda-meta/history": "==> 2026-01-01 <==\n", "conda-meta/pinned": ""})
    found = read_conda(tmp_path)
    assert found.packages == Known(
        value=(
            CondaPackage(
                name="numpy",
                version="1.26.4",
                build="py311_0",
                channel="conda-forge",
                subdir="linux-64",
                url="https://conda.anaconda.org/conda-forge/linux-64/numpy-1.26.4-py311_0.conda",
                md5="0" * 32,
                sha256="f" * 64,
                requested=True,
            ),
            known(found.packages)[1],
        ),
        source="conda-meta",
    )
    assert known(found.packages)[1].name == "zlib"
    assert known(found.packages)[1].requested is False
    assert known(found.prefix) == str(tmp_path)


@pytest.mark.parametrize(
    ("more", "requested"),
    [
        ({"requested_spec": "None"}, False),  # written so by some versions of conda
        ({"requested_spec": None}, False),
        ({"requested_specs": ["a", "a>=1"]}, True),
        ({"requested_specs": []}, False),
    ],
)
def test_who_asked_for_it(tmp_path: Path, more: dict[str, object], *, requested: bool) -> None:
    plant(tmp_path, conda_record("a", "1", "0", **more))
    assert known(read_conda(tmp_path).packages)[0].requested is requested


def test_fields_that_are_null_or_of_an_old_layout(tmp_path: Path) -> None:
    old = {"name": "a", "version": "1", "build_string": "b_0", "url": None, "channel": "pkgs/main"}
    plant(tmp_path, {"conda-meta/a-1-b_0.json": json.dumps(old)})
    (found,) = known(read_conda(tmp_path).packages)
    assert (found.build, found.channel, found.md5) == ("b_0", "defaults", "")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[1, 2]",
        b"\xff\xfe\x00",
        b'{"name": "b", "version": 5, "build": "0"}',
        b'{"name": "b"}',
        b"[" * 200_000,
        b'{"name": "b", "x": ' + b'{"a":' * 100_000,
    ],
    ids=lambda content: repr(content[:20]),
)
def test_a_broken_record_is_known_by_its_name_and_said(tmp_path: Path, content: bytes) -> None:
    plant(tmp_path, conda_record("a", "1", "0"))
    plant(tmp_path, {"conda-meta/my-b-2.0-h1_3.json": content})
    packages = read_conda(tmp_path).packages
    assert isinstance(packages, Known)
    assert [(p.name, p.version, p.build) for p in packages.value][1] == ("my-b", "2.0", "h1_3")
    assert "1 of 2 records known by file name only" in packages.source
    assert "my-b-2.0-h1_3.json" in packages.source


def test_a_folder_a_loop_and_a_dead_link_in_place_of_records(tmp_path: Path) -> None:
    plant(tmp_path, conda_record("a", "1", "0"))
    plant(tmp_path, {"conda-meta/b-1-0.json/": ""})
    meta = tmp_path / "conda-meta"
    (meta / "c-1-0.json").symlink_to(meta / "c-1-0.json")
    (meta / "d-1-0.json").symlink_to(meta / "nowhere")
    (meta / "unnamed.json").symlink_to(meta / "nowhere")
    packages = read_conda(tmp_path).packages
    assert isinstance(packages, Known)
    assert [package.name for package in packages.value] == ["a", "b", "c", "d"]
    assert "4 of 4 records" in packages.source


def test_when_no_record_can_be_read_the_packages_are_unreadable(tmp_path: Path) -> None:
    plant(tmp_path, {"conda-meta/b-1-0.json": "{", "conda-meta/c-1-0.json": ""})
    packages = read_conda(tmp_path).packages
    assert isinstance(packages, Unreadable)
    assert "none of the 2 records" in packages.reason


def test_an_empty_environment_is_known_to_be_empty(tmp_path: Path) -> None:
    plant(tmp_path, {"conda-meta/history": ""})
    assert known(read_conda(tmp_path).packages) == ()


def test_what_is_no_conda_prefix(tmp_path: Path) -> None:
    assert isinstance(read_conda(tmp_path).packages, NotApplicable)
    assert isinstance(read_conda(tmp_path / "nothing").prefix, NotApplicable)
    assert isinstance(read_conda(None).packages, NotApplicable)
    plant(tmp_path, {"conda-meta": "a file"})
    assert isinstance(read_conda(tmp_path).packages, NotApplicable)


def test_a_loop_in_place_of_the_folder_is_unreadable(tmp_path: Path) -> None:
    (tmp_path / "conda-meta").symlink_to(tmp_path / "conda-meta")
    assert isinstance(read_conda(tmp_path).packages, Unreadable)


def test_credentials_and_control_characters_are_removed(tmp_path: Path) -> None:
    url = "https://me:secret@host.example/t/tk-1/chan/linux-64/a-1-0.conda?token=x"
    plant(tmp_path, conda_record("a", "1\x1b[31m", "0", url=url))
    (found,) = known(read_conda(tmp_path).packages)
    assert found.url == "https://host.example/chan/linux-64/a-1-0.conda"
    assert found.channel == "https://host.example/chan"
    assert found.version == "1\\x1b[31m"


def test_the_home_folder_is_shortened(tmp_path: Path) -> None:
    plant(tmp_path, {"envs/vit/conda-meta/history": ""})
    found = read_conda(tmp_path / "envs/vit", homes=(str(tmp_path),))
    assert known(found.prefix) == "~/envs/vit"

"""Layouts of Python installations and what lies on their search path."""

from __future__ import annotations

from pathlib import Path

import pytest

from envkit.sources.site_folders import pyvenv_settings, site_folders, version_folder

from .trees import plant


def shown(root: Path, prefix: str, environ: dict[str, str] | None = None) -> list[str]:
    found = site_folders(root / prefix, environ or {})
    return [path.relative_to(root).as_posix() for path in found]


@pytest.mark.parametrize(
    ("tree", "folders"),
    [
        (["lib/python3.11/site-packages/"], ["env/lib/python3.11/site-packages"]),
        (["lib/python3.13t/site-packages/"], ["env/lib/python3.13t/site-packages"]),
        (["Lib/site-packages/"], ["env/Lib/site-packages"]),
        (
            ["lib/python3.12/site-packages/", "lib64/python3.12/site-packages/"],
            ["env/lib/python3.12/site-packages", "env/lib64/python3.12/site-packages"],
        ),
        (
            [
                "lib/python3.11/",
                "lib/python3/dist-packages/",
                "local/lib/python3.11/dist-packages/",
            ],
            ["env/local/lib/python3.11/dist-packages", "env/lib/python3/dist-packages"],
        ),
        (["bin/"], []),
    ],
)
def test_layouts(tmp_path: Path, tree: list[str], folders: list[str]) -> None:
    plant(tmp_path, {f"env/{name}": "" for name in tree})
    assert shown(tmp_path, "env") == folders


def test_lib64_as_a_link_is_listed_once(tmp_path: Path) -> None:
    plant(tmp_path, {"env/lib/python3.11/site-packages/": ""})
    (tmp_path / "env/lib64").symlink_to("lib")
    assert shown(tmp_path, "env") == ["env/lib/python3.11/site-packages"]


def test_of_several_versions_the_interpreters_counts(tmp_path: Path) -> None:
    plant(
        tmp_path,
        {
            "env/lib/python3.9/site-packages/": "",
            "env/lib/python3.11/site-packages/": "",
            "env/bin/python3.9": "",
        },
    )
    assert version_folder(tmp_path / "env", {}) == "python3.11"
    assert version_folder(tmp_path / "env", {"version": "3.9.1"}) == "python3.9"
    (tmp_path / "env/bin/python").symlink_to("python3.9")
    assert version_folder(tmp_path / "env", {}) == "python3.9"


VENV = {
    "base/lib/python3.11/site-packages/": "",
    "base/bin/": "",
    "env/lib/python3.11/site-packages/": "",
    "home/.local/lib/python3.11/site-packages/": "",
}


@pytest.mark.parametrize("shares", ["true", "True", "TRUE"])
def test_a_venv_can_share_the_installation_it_was_made_from(tmp_path: Path, shares: str) -> None:
    settings = f"home = {tmp_path}/base/bin\ninclude-system-site-packages = {shares}\n"
    plant(tmp_path, {**VENV, "env/pyvenv.cfg": settings})
    assert shown(tmp_path, "env", {"HOME": str(tmp_path / "home")}) == [
        "home/.local/lib/python3.11/site-packages",
        "env/lib/python3.11/site-packages",
        "base/lib/python3.11/site-packages",
    ]


def test_an_ordinary_venv_shares_nothing(tmp_path: Path) -> None:
    settings = f"home = {tmp_path}/base/bin\ninclude-system-site-packages = false\n"
    plant(tmp_path, {**VENV, "env/pyvenv.cfg": settings})
    environ = {"HOME": str(tmp_path / "home")}
    assert shown(tmp_path, "env", environ) == ["env/lib/python3.11/site-packages"]


def test_a_conda_environment_uses_the_users_folder_unless_told_not_to(tmp_path: Path) -> None:
    plant(tmp_path, {**VENV, "env/conda-meta/": ""})
    environ = {"HOME": str(tmp_path / "home")}
    assert shown(tmp_path, "env", environ)[0] == "home/.local/lib/python3.11/site-packages"
    environ["PYTHONNOUSERSITE"] = "1"
    assert shown(tmp_path, "env", environ) == ["env/lib/python3.11/site-packages"]


def test_pythonpath_comes_first(tmp_path: Path) -> None:
    plant(tmp_path, {**VENV, "env/pyvenv.cfg": "home = x\n", "mine/": ""})
    environ = {"PYTHONPATH": f"{tmp_path}/mine:relative::{tmp_path}/nothing"}
    assert shown(tmp_path, "env", environ) == ["mine", "env/lib/python3.11/site-packages"]


def test_broken_settings_are_none(tmp_path: Path) -> None:
    plant(tmp_path, {"a/pyvenv.cfg/": "", "b/pyvenv.cfg": b"\xff\x00 no pairs here"})
    assert pyvenv_settings(tmp_path / "a") == {}
    assert pyvenv_settings(tmp_path / "b") == {}
    assert pyvenv_settings(tmp_path / "nothing") == {}

"""Distributions of a target, good metadata and every kind of bad one."""

from __future__ import annotations

from pathlib import Path

import pytest

from envkit.model.facts import PipDistribution, PipFacts
from envkit.model.observed import Known, NotApplicable
from envkit.sources.pip_packages import read_pip

from .trees import dist_info, known, plant

SITE = "lib/python3.11/site-packages"


def read(root: Path, environ: dict[str, str] | None = None) -> PipFacts:
    return read_pip(root, environ or {})


def names(facts: PipFacts) -> list[tuple[str, str]]:
    return [(one.name, one.version) for one in known(facts.distributions)]


def test_a_distribution(tmp_path: Path) -> None:
    headers = (
        "Requires-Dist: filelock\nRequires-Dist: torch==2.6.0\n"
        "Requires-Dist: NVIDIA_nccl-cu12==2.21.5; platform_system == 'Linux'\n"
    )
    plant(tmp_path, dist_info(SITE, "Torch_Vision", "0.21.0+cu124", headers=headers))
    assert known(read(tmp_path).distributions) == (
        PipDistribution(
            name="torch-vision",
            version="0.21.0+cu124",
            installer="pip",
            location=SITE,
            requires=(
                "torch==2.6.0",
                "NVIDIA_nccl-cu12==2.21.5; platform_system == 'Linux'",
            ),
        ),
    )


def test_names_are_normalised(tmp_path: Path) -> None:
    plant(tmp_path, {f"{SITE}/x-1.dist-info/METADATA": "Name: A__b-.C\nVersion: 1\n\n"})
    assert names(read(tmp_path)) == [("a-b-c", "1")]


def test_windows_line_ends_and_folded_headers(tmp_path: Path) -> None:
    text = "Name: a\r\nVersion: 1\r\nLicense: one\r\n  Version: 9\r\n\r\nVersion: 8\r\n"
    plant(tmp_path, {f"{SITE}/a-1.dist-info/METADATA": text})
    assert names(read(tmp_path)) == [("a", "1")]


def test_old_layouts(tmp_path: Path) -> None:
    header = "Metadata-Version: 1.2\nName: {}\nVersion: {}\n"
    plant(
        tmp_path,
        {
            f"{SITE}/folder-1.0-py3.11.egg-info/PKG-INFO": header.format("folder", "1.0"),
            f"{SITE}/folder-1.0-py3.11.egg-info/requires.txt": "numpy>=1\nsix\n\n[extra]\ntorch\n",
            f"{SITE}/file-2.0.egg-info": header.format("file", "2.0"),
            f"{SITE}/egg-3.0-py3.11.egg/EGG-INFO/PKG-INFO": header.format("egg", "3.0"),
            f"{SITE}/linked.egg-link": f"{tmp_path}/checkout\n.\n",
            "checkout/linked.egg-info/PKG-INFO": header.format("linked", "4.0"),
            f"{SITE}/dead.egg-link": "/nothing/is/here\n",
            f"{SITE}/odd.egg-link": "",
        },
    )
    found = read(tmp_path)
    assert names(found) == [("egg", "3.0"), ("file", "2.0"), ("folder", "1.0"), ("linked", "4.0")]
    assert known(found.distributions)[2].requires == ("numpy>=1",)


@pytest.mark.parametrize(
    "files",
    [
        {"b-2.0.dist-info/RECORD": ""},  # METADATA is not there
        {"b-2.0.dist-info/METADATA/": ""},
        {"b-2.0.dist-info/METADATA": b"\x00\xff" * 1000},
        {"b-2.0.dist-info/METADATA": ""},
        {"b-2.0.dist-info/METADATA": "Version: 2.0\n"},
        {"b-2.0.dist-info": "a file"},
    ],
)
def test_broken_metadata_are_known_by_the_folder_and_said(
    tmp_path: Path, files: dict[str, str]
) -> None:
    plant(tmp_path, dist_info(SITE, "a", "1"))
    plant(tmp_path, {f"{SITE}/{name}": content for name, content in files.items()})
    found = read(tmp_path)
    assert names(found) == [("a", "1"), ("b", "2.0")]
    assert isinstance(found.distributions, Known)
    assert "1 known by the name of the folder only: b-2.0.dist-info" in found.distributions.source


def test_leftovers_and_nameless_folders_are_passed_over(tmp_path: Path) -> None:
    plant(tmp_path, dist_info(SITE, "a", "1"))
    plant(tmp_path, dist_info(SITE, "~umpy", "1"))
    plant(tmp_path, {f"{SITE}/.dist-info/": "", f"{SITE}/nothing.dist-info/": ""})
    assert names(read(tmp_path)) == [("a", "1")]


def test_a_loop_of_links_is_no_distribution(tmp_path: Path) -> None:
    plant(tmp_path, dist_info(SITE, "a", "1"))
    place = tmp_path / SITE / "b-1.dist-info"
    place.symlink_to(place)
    assert names(read(tmp_path)) == [("a", "1"), ("b", "1")]


def test_a_long_description_is_not_read(tmp_path: Path) -> None:
    text = "Name: a\nVersion: 1\n\n" + "Requires-Dist: no\n" * 300_000
    plant(tmp_path, {f"{SITE}/a-1.dist-info/METADATA": text})
    assert known(read(tmp_path).distributions)[0].requires == ()


def test_two_of_one_name_are_both_kept_the_first_on_the_path_first(tmp_path: Path) -> None:
    plant(tmp_path, dist_info("home/.local/lib/python3.11/site-packages", "torch", "2.0"))
    plant(tmp_path, dist_info(f"env/{SITE}", "torch", "1.0", installer="conda"))
    found = known(read_pip(tmp_path / "env", {"HOME": str(tmp_path / "home")}).distributions)
    assert [(one.version, one.installer, one.location) for one in found] == [
        ("2.0", "pip", "~/.local/lib/python3.11/site-packages"),
        ("1.0", "conda", SITE),
    ]


def test_hostile_metadata_are_escaped(tmp_path: Path) -> None:
    text = "Name: a\x1b[31m\nVersion: " + "9" * 100_000 + "\n"
    plant(tmp_path, {f"{SITE}/a-1.dist-info/METADATA": text})
    (found,) = known(read(tmp_path).distributions)
    assert "\x1b" not in found.name
    assert len(found.version) < 400


def test_no_prefix_and_no_python(tmp_path: Path) -> None:
    assert isinstance(read_pip(None, {}).distributions, NotApplicable)
    assert isinstance(read(tmp_path).distributions, NotApplicable)
    plant(tmp_path, {f"{SITE}/": ""})
    assert known(read(tmp_path).distributions) == ()


# --- envkit itself ------------------------------------------------------------------------------

OWN = {
    **dist_info(
        SITE, "envkit-torch", "1", headers="Requires-Dist: click>=8\nRequires-Dist: rich\n"
    ),
    **dist_info(SITE, "click", "8"),
    **dist_info(SITE, "rich", "13", headers="Requires-Dist: pygments\n"),
    **dist_info(SITE, "pygments", "2"),
}


def test_envkit_and_what_came_only_with_it_are_left_out(tmp_path: Path) -> None:
    plant(tmp_path, {**OWN, **dist_info(SITE, "torch", "2")})
    assert names(read(tmp_path)) == [("torch", "2")]


def test_what_others_need_too_stays(tmp_path: Path) -> None:
    plant(tmp_path, {**OWN, **dist_info(SITE, "other", "1", headers="Requires-Dist: rich\n")})
    assert names(read(tmp_path)) == [("other", "1"), ("pygments", "2"), ("rich", "13")]


def test_what_the_user_asked_for_stays(tmp_path: Path) -> None:
    plant(tmp_path, {**OWN, **dist_info(SITE, "click", "8", REQUESTED="")})
    assert names(read(tmp_path)) == [("click", "8")]


def test_a_requirement_of_an_extra_does_not_hold_a_package(tmp_path: Path) -> None:
    headers = 'Requires-Dist: rich; extra == "pretty"\n'
    plant(tmp_path, {**OWN, **dist_info(SITE, "other", "1", headers=headers)})
    assert names(read(tmp_path)) == [("other", "1")]


def test_distributions_that_need_each_other_are_no_endless_loop(tmp_path: Path) -> None:
    plant(tmp_path, OWN)
    plant(tmp_path, dist_info(SITE, "a", "1", headers="Requires-Dist: b\n"))
    plant(tmp_path, dist_info(SITE, "b", "1", headers="Requires-Dist: a\n"))
    assert names(read(tmp_path)) == [("a", "1"), ("b", "1")]


def test_requirements_lose_their_credentials_before_they_are_cut(tmp_path: Path) -> None:
    address = f"https://user:{'s3cret' * 60}@host.example/torch.whl"
    headers = f"Requires-Dist: torch @ {address}\n"
    plant(tmp_path, dist_info(SITE, "x", "1", headers=headers))
    (only,) = known(read(tmp_path).distributions)
    assert only.requires == ("torch @ https://host.example/torch.whl",)

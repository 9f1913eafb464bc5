from __future__ import annotations

from pathlib import Path

import pytest

from envkit.render.outcome import Place
from envkit.workflows.places import PlaceFinder, line_of_package

LOCK = """\
package:
- name: numpy
  version: 1.0
  manager: conda
  platform: linux-64
- name: numpy-base
  platform: linux-64
- name: numpy
  version: 1.0
  manager: conda
  platform: osx-arm64
"""
SPEC = "dependencies:\n  - numpy-base\n  - 'conda-forge::numpy>=2'  # why\n  - pip:\n    - einops\n"
EXPLICIT = """\
@EXPLICIT
https://c.example/linux-64/numpy-base-1-h0_0.conda
https://c.example/linux-64/numpy-2.0-py312_0.conda#0123
"""


@pytest.mark.parametrize(
    ("text", "package", "platform", "line"),
    [
        (LOCK, "numpy", "linux-64", 2),
        (LOCK, "numpy", "osx-arm64", 8),
        (LOCK, "numpy", "win-64", 2),
        (LOCK, "numpy", "", 2),
        (LOCK, "nothing", "linux-64", 1),
        (LOCK, "", "", 1),
        (LOCK, "num.y", "", 1),
        (SPEC, "numpy", "", 3),
        (SPEC, "einops", "", 5),
        (EXPLICIT, "numpy", "", 3),
    ],
)
def test_the_line_of_a_package(
    tmp_path: Path, text: str, package: str, *, platform: str, line: int
) -> None:
    (tmp_path / "file").write_text(text)
    assert line_of_package(tmp_path / "file", package, platform) == line


def test_a_path_is_seen_from_the_root_of_the_checkout(tmp_path: Path) -> None:
    (tmp_path / "envs").mkdir()
    (tmp_path / "envs" / "a.yml").write_text(SPEC)
    root = {"GITHUB_WORKSPACE": str(tmp_path)}
    find = PlaceFinder(root, tmp_path / "envs").find
    assert find(Place(file="a.yml", line=4)) == Place(file="envs/a.yml", line=4)
    absolute = str(tmp_path / "envs" / "a.yml")
    assert find(Place(file=absolute, package="numpy")) == Place(file="envs/a.yml", line=3)
    without = PlaceFinder({}, tmp_path / "envs").find
    assert without(Place(file="a.yml")) == Place(file="a.yml", line=1)


def test_what_is_no_file_of_the_checkout_has_no_place(tmp_path: Path) -> None:
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    (tmp_path / "outside.yml").write_text(SPEC)
    (checkout / "link.yml").symlink_to(tmp_path / "outside.yml")
    find = PlaceFinder({}, checkout).find
    for name in ("../outside.yml", "link.yml", "vit@1.0.0", "missing.yml", ".", "a\0b", "~/x"):
        assert find(Place(file=name)) is None

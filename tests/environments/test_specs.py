"""The specs in environments/ are plain conda: what `conda env create` reads without a word."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

FOLDER = Path(__file__).parent.parent.parent / "environments"
SPECS = sorted(path for path in FOLDER.glob("*.yml") if ".conda-lock" not in path.name)


def _read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def test_there_are_specs() -> None:
    assert {"vit.yml", "cpu.yml"} <= {path.name for path in SPECS}


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_spec_is_plain_conda(path: Path) -> None:
    spec = _read(path)
    assert set(spec) <= {"name", "channels", "dependencies", "variables"}
    assert spec["name"] == path.stem
    # New conda takes "nodefaults" for a channel and stops.
    assert set(spec["channels"]) <= {"conda-forge", "pytorch", "nvidia"}
    assert all(isinstance(entry, str) for entry in spec["dependencies"]), "no pip section"


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_python_and_the_build_of_torch_are_chosen(path: Path) -> None:
    entries = [entry.rpartition("::")[2] for entry in _read(path)["dependencies"]]
    pinned = dict(entry.split("=", 1) for entry in entries if "=" in entry)
    assert pinned["python"].startswith("3.")
    assert any(word in pinned["pytorch"] for word in ("cuda", "cpu"))


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_page_lists_the_spec(path: Path) -> None:
    assert f"]({path.name})" in (FOLDER / "README.md").read_text(encoding="utf-8")

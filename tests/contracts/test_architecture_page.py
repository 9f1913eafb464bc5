"""The architecture's page names every part of the package, and none that is not there."""

from __future__ import annotations

import re
from pathlib import Path

import envkit

PACKAGE = Path(envkit.__file__).parent
PAGE = Path(__file__).parent.parent.parent / "docs" / "ARCHITECTURE.md"


def test_table_has_every_part() -> None:
    page = PAGE.read_text(encoding="utf-8")
    named = set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))
    folders = {folder.name for folder in PACKAGE.iterdir() if folder.is_dir()}
    modules = {file.stem for file in PACKAGE.glob("*.py")}
    carried = {"__pycache__", "_baselines", "_environments"}  # what a wheel has beside
    assert named == folders - carried | modules - {"__init__", "__main__"}

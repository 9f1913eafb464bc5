"""The page about the suites names every member, and in the suite that it is in."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from envkit.probes.child import members

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "suites.md"


def rows(suite: str, column: int) -> set[str]:
    """Return the names in a column of the rows of a suite."""
    found = set()
    for line in PAGE.read_text("utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if suite in cells[:2]:
            found |= set(re.findall(r"`([\w.]+)`", cells[column]))
    return found


@pytest.mark.parametrize(
    ("suite", "workloads", "numerics"),
    [
        ("quick", members.QUICK_WORKLOADS, members.QUICK_NUMERICS),
        (
            "standard",
            {*members.WORKLOADS} - {*members.QUICK_WORKLOADS},
            {*members.ALL_NUMERICS} - {*members.QUICK_NUMERICS},
        ),
        (
            "full",
            {*members.FULL_WORKLOADS} - {*members.WORKLOADS},
            {*members.FULL_NUMERICS} - {*members.ALL_NUMERICS},
        ),
    ],
)
def test_every_member_is_on_the_page(suite: str, workloads: set[str], numerics: set[str]) -> None:
    families = {name.split(".")[0] for name in members.FULL_WORKLOADS}
    named = rows(suite, 0)
    assert {name for name in named if name.split(".")[0] in families} == {*workloads}
    assert rows(suite, 1) == {*numerics}


def test_the_version_is_the_suites() -> None:
    assert f"`standard/{members.VERSION}`" in PAGE.read_text("utf-8")

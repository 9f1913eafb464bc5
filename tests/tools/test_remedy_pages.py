from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

import msgspec
import pytest

import envkit
from envkit.model.strategies import Strategies
from envkit.probes.child.strategies.catalogue import STRATEGIES

EXAMPLE = Path(envkit.__file__).parent / "schemas" / "examples" / "strategies-1.json"
PAGE = (
    "# A remedy\n\n<!-- measured: baseline channels-last -->\n\nold\n\n"
    "<!-- end of what was measured -->\n\nmore\n"
)


@pytest.fixture
def documents(remedy_pages: ModuleType, tmp_path: Path) -> list[Strategies]:
    path = tmp_path / "figures.json"
    path.write_text(json.dumps([json.loads(EXAMPLE.read_text())]))
    found: list[Strategies] = remedy_pages.read_figures(path)
    return found


def test_figures_are_filled_in(remedy_pages: ModuleType, documents: list[Strategies]) -> None:
    page = remedy_pages.page_with(PAGE, documents)
    assert "**vit-b16**, batch 16, NVIDIA Example, torch 2.11.0+cu130, 2026-11-30:" in page
    assert "| channels-last |" in page
    assert "3.91 GiB (+0%)" in page
    assert "lazy-dataset" not in page
    assert "old" not in page
    assert page.endswith("\nmore\n")
    assert remedy_pages.page_with(page, documents) == page


def test_without_figures_a_page_says_so(remedy_pages: ModuleType, tmp_path: Path) -> None:
    assert remedy_pages.read_figures(tmp_path / "none.json") == []
    assert "Not measured yet." in remedy_pages.page_with(PAGE, [])


def test_what_a_document_lacks_is_not_measured(
    remedy_pages: ModuleType, documents: list[Strategies]
) -> None:
    page = PAGE.replace("baseline channels-last", "compile")
    assert "Not measured yet." in remedy_pages.page_with(page, documents)


def test_the_largest_batch_is_said(remedy_pages: ModuleType, documents: list[Strategies]) -> None:
    page = remedy_pages.page_with(
        PAGE.replace("baseline channels-last", "largest-batch"), documents
    )
    assert "37, held for 50 steps" in page
    without = [msgspec.structs.replace(documents[0], largest_batch=None)]
    page = PAGE.replace("baseline channels-last", "largest-batch")
    assert "Not measured yet." in remedy_pages.page_with(page, without)


def test_a_page_without_a_marker_is_refused(remedy_pages: ModuleType) -> None:
    with pytest.raises(ValueError, match="no marker"):
        remedy_pages.page_with("# A page\n", [])


def test_every_strategy_has_a_page(remedy_pages: ModuleType) -> None:
    named: set[str] = set()
    for page in remedy_pages.FOLDER.glob("*.md"):
        for block in remedy_pages.BLOCK.finditer(page.read_text()):
            named |= set(block[2].split())
    assert named == {row.name for row in STRATEGIES} | {remedy_pages.LARGEST}

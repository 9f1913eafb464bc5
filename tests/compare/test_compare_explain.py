from __future__ import annotations

import re
from pathlib import Path

import pytest

from envkit.compare.cause import CauseRule
from envkit.compare.causes import CAUSES
from envkit.compare.explain import PAGES, cause_page
from envkit.compare.layer import ORDER

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.parametrize("cause", CAUSES, ids=lambda cause: cause.code)
def test_every_cause_has_a_page_that_is_complete(cause: CauseRule) -> None:
    text = cause_page(cause.code.lower())
    assert text is not None
    assert text.startswith(f"# {cause.code}: {cause.title}\n")
    headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert headings == ["What it is", "How it shows", "What to do", "Sources"]
    assert f"<{cause.source}>" in text


@pytest.mark.parametrize("cause", CAUSES, ids=lambda cause: cause.code)
def test_every_cause_names_layers_that_there_are(cause: CauseRule) -> None:
    assert cause.moves <= set(ORDER)
    assert cause.measured <= cause.moves
    assert cause.known_from


def test_there_is_no_page_without_a_cause() -> None:
    assert {path.stem for path in PAGES.glob("*")} == {cause.code for cause in CAUSES}
    assert cause_page("DRV002") is None


def test_the_reference_lists_every_cause() -> None:
    text = (ROOT / "docs/reference/diff.md").read_text(encoding="utf-8")
    for cause in CAUSES:
        assert f"| {cause.code} | {cause.title} |" in text

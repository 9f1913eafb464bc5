"""The page of a cause: what it is, how it shows, what to do, and what that rests on."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from envkit.compare.cause import CauseRule
from envkit.compare.causes import BY_CODE
from envkit.compare.layer import ORDER

PAGES: Final = Path(__file__).parent / "pages"


def page(cause: CauseRule) -> str:
    """Return the page of a cause as Markdown: its heading and sources from the data."""
    text = (PAGES / f"{cause.code}.md").read_text(encoding="utf-8").strip()
    moves = ", ".join(layer for layer in ORDER if layer in cause.moves)
    facts = [f"A cause of differences (`envkit diff`). Can move: {moves}."]
    watched = [*cause.flags, *cause.variables, *cause.facts, *cause.key]
    if watched:
        facts.append(f"Recorded by: {', '.join(f'`{name}`' for name in watched)}.")
    sources = f"## Sources\n\nPattern: {cause.known_from}.\n\n<{cause.source}>"
    return f"# {cause.code}: {cause.title}\n\n{' '.join(facts)}\n\n{text}\n\n{sources}\n"


def cause_page(code: str) -> str | None:
    """Return the page of a code; None where there is no such cause."""
    cause = BY_CODE.get(code.strip().upper())
    return None if cause is None else page(cause)

"""Markdown of our own pages with its paragraphs and lists filled to a width; still Markdown."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from typing import Final

_FENCE: Final = re.compile(r"\s*(```|~~~)")
#: What begins a block of its own: a heading, a row of a table, an entry of a list.
_HEADING: Final = re.compile(r"#{1,6} ")
_ENTRY: Final = re.compile(r"(?P<lead>\s*(?:[-*]|\d+\.) )(?P<rest>.*)")


def reflow(page: str, width: int) -> str:
    """Fill paragraphs and entries of lists; headings, tables and code stay as they are."""
    return "".join(f"{line}\n" for block in _blocks(page) for line in _filled(block, width))


def _blocks(page: str) -> Iterator[list[str]]:
    """Yield what belongs together: the lines of a paragraph, an entry, a piece of code."""
    block: list[str] = []
    fenced = False
    for line in page.splitlines():
        fence = _FENCE.match(line) is not None
        # A line that goes on with the block before it.
        same = bool(block) and (fenced or _goes_on(block, line, fence=fence))
        if block and not same:
            yield block
            block = []
        block.append(line)
        fenced ^= fence
    if block:
        yield block


def _goes_on(block: list[str], line: str, *, fence: bool) -> bool:
    if fence or _FENCE.match(block[0]) or not line.strip() or not block[-1].strip():
        return False
    return not _stands_alone(line) and not _stands_alone(block[0]) and not _ENTRY.match(line)


def _stands_alone(line: str) -> bool:
    return _HEADING.match(line) is not None or line.lstrip().startswith("|")


def _filled(block: list[str], width: int) -> list[str]:
    first = block[0]
    if not first.strip() or _stands_alone(first) or _FENCE.match(first):
        return block
    entry = _ENTRY.match(first)
    lead = entry["lead"] if entry is not None else ""
    rest = entry["rest"] if entry is not None else first
    return textwrap.wrap(
        " ".join([rest, *block[1:]]),
        width,
        initial_indent=lead,
        subsequent_indent=" " * len(lead),
        break_long_words=False,
        break_on_hyphens=False,
    )

"""Explained out-of-memory messages as text for a terminal."""

from __future__ import annotations

from typing import Final

from envkit.model.documents import Oom, OomEvent
from envkit.render.page import Page
from envkit.render.style import Style

#: Events that are shown without -v.
MOST_SHOWN: Final = 5
TITLES: Final = {
    "capacity": "the card is too small for what was asked of it",
    "fragmentation": "memory is there, but in pieces",
    "other_process": "somebody else holds the card",
    "non_torch_memory": "memory outside torch's allocator",
    "memory_limit": "a limit below the size of the memory",
    "shared_memory_fallback": "more in use than the card has",
    "impossible_request": "one request larger than the card",
    "free_but_failed": "free, and yet refused",
    "driver_oom": "the driver itself, without numbers",
    "unknown": "not enough of the message",
}


def render_oom_text(found: Oom, style: Style) -> str:
    """Draw the events: class, explanation, remedies; the first few, or all with -v."""
    page = Page(style)
    shown = found.events if style.verbosity > 0 else found.events[:MOST_SHOWN]
    for index, event in enumerate(shown):
        if index:
            page.blank()
        _draw(page, event)
    more = len(found.events) - len(shown)
    if more:
        page.blank()
        page.line("", _others(found.events[len(shown) :]))
    if found.events_left_out:
        page.blank()
        page.line("", f"{found.events_left_out} further messages were counted only.")
    return page.text()


def _draw(page: Page, event: OomEvent) -> None:
    title = TITLES.get(event.kind, "")
    page.paragraph((event.kind, "bold red"), (f"  {title}", "bold"))
    page.line("  ", place_of(event), style="dim")
    if page.style.verbosity < 0:
        return
    page.line("  ", event.explanation)
    page.line("  ", "What to do, most likely first:", style="bold")
    for number, remedy in enumerate(event.remedies, 1):
        page.line(f"  {number}. ", remedy, lead_style="green")
    if page.style.verbosity > 0:
        page.table("  Numbers", ((name, f"{size}") for name, size in event.numbers.items()))


def place_of(event: OomEvent) -> str:
    """Say where in the log an event was, how often, on what, and in which release's words."""
    parts = [f"line {event.line}"]
    if event.times > 1:
        parts.append(f"{event.times} times")
    if event.source:
        parts.append(event.source)
    if event.device is not None:
        parts.append(f"GPU {event.device}")
    if event.torch:
        parts.append(f"worded as torch {event.torch} does")
    return ", ".join(parts)


def _others(events: tuple[OomEvent, ...]) -> str:
    counts: dict[str, int] = {}
    for event in events:
        counts[event.kind] = counts.get(event.kind, 0) + 1
    said = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
    return f"and {len(events)} more ({said}): use -v or --json"

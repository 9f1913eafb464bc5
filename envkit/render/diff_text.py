"""A comparison as text: one sentence, the layers, the differences, the causes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from envkit.model.counted import counted
from envkit.model.documents import Cause, Diff, Difference
from envkit.model.fingerprint import LAYERS
from envkit.model.package_change import count_changes
from envkit.render import diff_words as words
from envkit.render.page import Page
from envkit.render.style import Style

#: Differences of a layer that are shown without -v.
MOST_DIFFERENCES: Final = 8
#: Of measured layers: what moved one probe moved the others.
MOST_MEASURED: Final = 4
MOST_INPUTS: Final = 6
MOST_MEMBERS: Final = 8
_VERDICTS: Final = {
    "same": ("✔", "+", "SAME", "bold green"),
    "different": ("✘", "x", "DIFFERENT", "bold red"),
    "incomplete": ("?", "?", "INCOMPLETE", "bold yellow"),
}
_NEVER_RECORDED: Final = frozenset({"", "not recorded", "no fingerprint"})
_STYLES: Final = {"same": "green", "different": "red", "not_comparable": "yellow"}


def render_diff(diff: Diff, notes: Sequence[str], style: Style) -> str:
    """Draw a comparison.

    Args:
        diff: the document.
        notes: sentences about memory that the machines have room for.
        style: width, colour, how much.

    """
    page = Page(style)
    good, plain, word, colour = _VERDICTS[diff.verdict.status]
    page.paragraph((f"{page.symbol((good, plain))} {word}  ", colour), (diff.verdict.headline, ""))
    if style.verbosity < 0:
        return page.text()
    _draw_inputs(page, diff)
    _draw_layers(page, diff)
    _draw_differences(page, diff)
    _draw_notes(page, notes)
    _draw_causes(page, diff.causes)
    _draw_groups(page, diff)
    return page.text()


def _draw_inputs(page: Page, diff: Diff) -> None:
    shown = diff.inputs if page.style.verbosity > 0 else diff.inputs[:MOST_INPUTS]
    rows = [(one.label, f"{one.kind} {one.path}") for one in shown]
    if len(diff.inputs) > len(shown):
        rows.append(("", f"and {len(diff.inputs) - len(shown)} more"))
    page.table("Compared", rows)


def _draw_layers(page: Page, diff: Diff) -> None:
    page.blank()
    page.line("", "Layers", style="bold")
    for name, agreement in diff.agreement.items():
        comparable = diff.comparable[name]
        if comparable.answer == "no" and page.style.verbosity < 1 and _says_nothing(diff, name):
            continue
        mark = page.symbol(words.MARKS[agreement])
        lead = f"  {mark} {name:<11} {agreement.replace('_', ' '):<15} "
        said = f"comparable: {comparable.answer}, {comparable.why}"
        page.line(lead, said, lead_style=_STYLES[agreement], style="dim")


def _says_nothing(diff: Diff, layer: str) -> bool:
    """Whether no input has this layer at all: six lines about fingerprints say nothing of locks."""
    return diff.comparable[layer].why.startswith(("no input", "only one input"))


def _draw_differences(page: Page, diff: Diff) -> None:
    for layer in (*diff.agreement, words.MACHINE):
        found = words.ordered(diff, layer)
        if found:
            _draw_layer(
                page, layer, found, count_changes(diff.differences) if layer == "packages" else ""
            )
    _draw_lost(page, diff)


def _draw_lost(page: Page, diff: Diff) -> None:
    """Show what could not be compared; what an input never records is only counted."""
    told, untold = [], 0
    for one in diff.cannot_compare:
        if set(one.reasons) <= _NEVER_RECORDED and page.style.verbosity < 1:
            untold += 1
        else:
            told.append((f"{one.layer} {one.key}", _reasons(diff, one.reasons)))
    most = len(told) if page.style.verbosity > 0 else MOST_DIFFERENCES
    rows = told[:most]
    if len(told) > most:
        rows.append(("", f"and {len(told) - most} more: use -v or --json"))
    if untold:
        rows.append((counted(untold, "value"), "recorded by some of the inputs only"))
    page.table("Cannot be compared", rows)


def _draw_layer(page: Page, layer: str, found: Sequence[Difference], counted: str) -> None:
    title = "Machine (shown, never compared)" if layer == words.MACHINE else layer.capitalize()
    page.blank()
    page.line("", f"{title}: {counted}" if counted else title, style="bold")
    few = MOST_MEASURED if layer in LAYERS else MOST_DIFFERENCES
    most = len(found) if page.style.verbosity > 0 else few
    for one in found[:most]:
        mark = "  " if layer == words.MACHINE or one.kind == "unexpected" else "~ "
        page.line(f"  {mark}{one.key}: ", words.line(one))
        part = words.sentence(one)
        if part:
            page.line("      ", part, style="dim")
    if len(found) > most:
        page.line("    ", f"and {len(found) - most} more: use -v or --json", style="dim")
    if layer != words.MACHINE and any(one.kind == "expected" for one in found[:most]):
        page.line("    ", "~ expected: given by hardware, driver or tolerance", style="dim")


def _reasons(diff: Diff, reasons: Sequence[str]) -> str:
    told = [
        f"{one.label}: {reason}" for one, reason in zip(diff.inputs, reasons, strict=True) if reason
    ]
    return "; ".join(told[:3]) + (f"; and {len(told) - 3} more" if len(told) > 3 else "")  # noqa: PLR2004


def _draw_notes(page: Page, notes: Sequence[str]) -> None:
    if notes:
        page.blank()
        page.line("", "Memory", style="bold")
    for note in notes:
        page.line("  ", note)


def _draw_causes(page: Page, causes: Sequence[Cause]) -> None:
    if not causes:
        return
    page.blank()
    page.line("", "Causes", style="bold")
    for cause in causes:
        first, *rest = cause.evidence
        confirmed = words.confirmation(cause)
        title = f"{cause.title} ({first.what}{', ' + confirmed if confirmed else ''})"
        page.line(f"  {cause.code}  ", title, style="bold" if first.what == "cause" else "")
        page.line("    - ", f"{first.seen} [{first.source}]", style="dim")
        if first.what != "cause" and page.style.verbosity < 1:
            rest = rest[:1]
        for one in rest:
            page.line("    - ", f"{one.what}: {one.seen} [{one.source}]", style="dim")


def _draw_groups(page: Page, diff: Diff) -> None:
    if not diff.groups:
        return
    page.blank()
    page.line("", "Groups", style="bold")
    most = len(diff.groups) if page.style.verbosity > 0 else MOST_DIFFERENCES
    for number, members in enumerate(diff.groups[:most]):
        named = ", ".join(members[:MOST_MEMBERS])
        more = f" and {len(members) - MOST_MEMBERS} more" if len(members) > MOST_MEMBERS else ""
        kind = "majority" if number == 0 and len(members) > 1 else "group"
        page.line(f"  {kind} of {len(members)}: ", named + more)
    if len(diff.groups) > most:
        page.line("  ", f"and {len(diff.groups) - most} more: use -v or --json", style="dim")

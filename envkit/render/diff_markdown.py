"""A comparison as Markdown for a pull request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from envkit.model.documents import Diff, Difference
from envkit.model.package_change import count_changes
from envkit.render import diff_words as words
from envkit.render.markdown import folded, plain, table

MOST_DIFFERENCES: Final = 20


def render_markdown(diff: Diff, notes: Sequence[str]) -> str:
    """Write the answer, the layers as a table, and the differences folded by layer."""
    word = {"same": "Same", "different": "Different", "incomplete": "Could not tell"}
    labels = " and ".join(f"**{plain(one.label)}**" for one in diff.inputs[:2])
    more = f" and {len(diff.inputs) - 2} more" if len(diff.inputs) > 2 else ""  # noqa: PLR2004
    parts = [f"### {word[diff.verdict.status]}: {labels}{more}", plain(diff.verdict.headline)]
    parts.append(_layer_table(diff))
    parts += [_folded(diff, layer) for layer in (*diff.agreement, words.MACHINE)]
    parts.append("\n".join(f"- {plain(note)}" for note in notes))
    parts.append("\n".join(_causes(diff)))
    return "\n\n".join(filter(None, parts)) + "\n"


def _layer_table(diff: Diff) -> str:
    rows = []
    for name, agreement in diff.agreement.items():
        comparable = diff.comparable[name]
        if not comparable.why.startswith("no input"):
            mark = words.MARKS[agreement][0]
            why = f"{comparable.answer}: {plain(comparable.why)}"
            rows.append((name, f"{mark} {agreement.replace('_', ' ')}", why))
    return table(("layer", "answer", "comparable"), rows)


def _folded(diff: Diff, layer: str) -> str:
    found = words.ordered(diff, layer)
    if not found:
        return ""
    counted = count_changes(diff.differences) if layer == "packages" else ""
    summary = f"{layer}: {len(found)} difference{'s' if len(found) > 1 else ''}"
    rows = [_row(one) for one in found[:MOST_DIFFERENCES]]
    if len(found) > MOST_DIFFERENCES:
        rows.append(f"- and {len(found) - MOST_DIFFERENCES} more")
    title = f"{summary} ({counted})" if counted else summary
    return folded(title, "\n".join(rows))


def _row(one: Difference) -> str:
    part = words.sentence(one)
    expected = " (expected)" if one.kind == "expected" else ""
    shown = f"- {plain(one.key)}: {plain(words.line(one))}{expected}"
    return f"{shown}; {plain(part)}" if part else shown


def _causes(diff: Diff) -> list[str]:
    lines = []
    for cause in diff.causes:
        first, *rest = cause.evidence
        confirmed = words.confirmation(cause)
        known = f"{first.what}{', ' + confirmed if confirmed else ''}"
        lines.append(f"- **{cause.code}** {plain(cause.title)} ({known}): {plain(first.seen)}")
        lines += [f"  - {plain(one.what)}: {plain(one.seen)}" for one in rest[:4]]
    return lines

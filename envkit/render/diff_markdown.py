"""A comparison as Markdown for a pull request, and as annotations of GitHub's log."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from envkit.model.documents import Diff, Difference
from envkit.model.package_change import count_changes
from envkit.render import diff_words as words
from envkit.render.escape import printable

MOST_DIFFERENCES: Final = 20
_SPECIAL: Final = re.compile(r"([\\`*_{}\[\]<>|#!~@])")


def render_markdown(diff: Diff, notes: Sequence[str]) -> str:
    """Write the answer, the layers as a table, and the differences folded by layer."""
    word = {"same": "Same", "different": "Different", "incomplete": "Could not tell"}
    labels = " and ".join(f"**{_plain(one.label)}**" for one in diff.inputs[:2])
    more = f" and {len(diff.inputs) - 2} more" if len(diff.inputs) > 2 else ""  # noqa: PLR2004
    parts = [f"### {word[diff.verdict.status]}: {labels}{more}", _plain(diff.verdict.headline)]
    parts.append("\n".join(_layer_table(diff)))
    parts += [_folded(diff, layer) for layer in (*diff.agreement, words.MACHINE)]
    parts.append("\n".join(f"- {_plain(note)}" for note in notes))
    parts.append("\n".join(_causes(diff)))
    return "\n\n".join(filter(None, parts)) + "\n"


def render_github(diff: Diff) -> str:
    """Write workflow commands: an error, a warning or a notice a difference, and one a cause."""
    level = {"same": "notice", "different": "error", "incomplete": "warning"}
    lines = [_command(level[diff.verdict.status], "envkit diff", diff.verdict.headline)]
    for cause in diff.causes:
        if cause.evidence and cause.evidence[0].what == "cause":
            seen = "; ".join(f"{one.what}: {one.seen}" for one in cause.evidence)
            lines.append(_command("warning", f"{cause.code} {cause.title}", seen))
    unexpected = [one for one in diff.differences if one.kind == "unexpected"]
    lines += [
        _command("warning", f"{one.layer} {one.key}", words.line(one))
        for one in unexpected[:MOST_DIFFERENCES]
    ]
    if len(unexpected) > MOST_DIFFERENCES:
        rest = f"{len(unexpected) - MOST_DIFFERENCES} more differences"
        lines.append(_command("notice", "envkit diff", rest))
    return "\n".join(lines) + "\n"


def _layer_table(diff: Diff) -> list[str]:
    rows = ["| layer | answer | comparable |", "| --- | --- | --- |"]
    for name, agreement in diff.agreement.items():
        comparable = diff.comparable[name]
        if not comparable.why.startswith("no input"):
            mark = words.MARKS[agreement][0]
            why = f"{comparable.answer}: {_plain(comparable.why)}"
            rows.append(f"| {name} | {mark} {agreement.replace('_', ' ')} | {why} |")
    return rows


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
    inner = "\n".join(rows)
    return f"<details><summary>{title}</summary>\n\n{inner}\n\n</details>"


def _row(one: Difference) -> str:
    part = words.sentence(one)
    expected = " (expected)" if one.kind == "expected" else ""
    shown = f"- {_plain(one.key)}: {_plain(words.line(one))}{expected}"
    return f"{shown}; {_plain(part)}" if part else shown


def _causes(diff: Diff) -> list[str]:
    lines = []
    for cause in diff.causes:
        first, *rest = cause.evidence
        confirmed = words.confirmation(cause.confirmed)
        known = f"{first.what}{', ' + confirmed if confirmed else ''}"
        lines.append(f"- **{cause.code}** {_plain(cause.title)} ({known}): {_plain(first.seen)}")
        lines += [f"  - {_plain(one.what)}: {_plain(one.seen)}" for one in rest[:4]]
    return lines


def _plain(text: str) -> str:
    """Return text that Markdown shows as it is, whatever an input put into it."""
    return _SPECIAL.sub(r"\\\1", printable(text))


def _command(level: str, title: str, message: str) -> str:
    return f"::{level} title={_escaped(title, property_=True)}::{_escaped(message)}"


def _escaped(text: str, *, property_: bool = False) -> str:
    plain = printable(text).replace("%", "%25")
    return plain.replace(":", "%3A").replace(",", "%2C") if property_ else plain

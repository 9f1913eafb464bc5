"""Outcomes as Markdown for an issue, a pull request or a step summary, and how it is escaped."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from typing import Final

from envkit.render.escape import printable
from envkit.render.outcome import Outcome, Remark

#: Remarks that are shown; an issue takes 65,536 characters.
MOST_REMARKS: Final = 30
_SPECIAL: Final = re.compile(r"([\\`*_{}\[\]<>|#!~&$])")
#: What GitHub makes a mention of a person or of an issue of, whatever backslash stands before it.
_MENTION: Final = re.compile(r"([@#])(?=\w)")
_MARKS: Final = {0: "✔", 3: "?"}
_SIGNS: Final = {"error": "✘ error", "warning": "! warning", "note": "· info"}


def plain(text: str) -> str:
    """Return text that Markdown shows as it is, whatever an input put into it."""
    escaped = _SPECIAL.sub(r"\\\1", printable(text))
    return _MENTION.sub(r"\1<!-- -->", escaped)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Write a table; the cells are escaped already."""
    lines = [_row(head), _row(["---"] * len(head)), *(_row(row) for row in rows)]
    return "\n".join(lines)


def folded(title: str, inner: str) -> str:
    """Write a part that is closed at first; the title is any text, for it stands in HTML."""
    shown = html.escape(printable(title), quote=False)
    return f"<details><summary>{shown}</summary>\n\n{inner}\n\n</details>"


def render_outcome(outcome: Outcome, *more: str) -> str:
    """Write the verdict and the remarks, and below them parts that a command has of its own."""
    mark = _MARKS.get(outcome.exit_code, "✘")
    parts = [f"### {mark} envkit {outcome.command}", plain(outcome.headline)]
    parts += [_remark(one) for one in outcome.remarks[:MOST_REMARKS]]
    rest = len(outcome.remarks) - MOST_REMARKS
    if rest > 0:
        parts.append(f"And {rest} more.")
    parts += [part for part in more if part]
    return "\n\n".join(parts) + "\n"


def _remark(one: Remark) -> str:
    where = ""
    if one.place is not None:
        where = f" ({plain(one.place.file)}:{one.place.line or 1})"
    lines = [f"- **{_SIGNS[one.level]} {plain(one.code)}** {plain(one.title)}{where}"]
    lines += [_line(line) for line in one.lines]
    return "\n".join(lines)


def _line(line: str) -> str:
    if line.startswith("$ "):
        return f"  - {code(line[2:])}"
    return f"  - {plain(line)}"


def code(text: str) -> str:
    """Write text as code on one line: between more backticks than it has in a row."""
    shown = printable(text)
    longest = max((len(run) for run in re.findall(r"`+", shown)), default=0)
    fence = "`" * (longest + 1)
    room = " " if longest else ""
    return f"{fence}{room}{shown}{room}{fence}"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"

"""Findings in specs as text: a block for each file, a line of totals at the end.

Drawn without rich, which would cost a pre-commit hook more time than the check itself.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from itertools import groupby
from typing import Final

from envkit.model.documents import Lint, LintFinding
from envkit.model.finding import Severity
from envkit.render.escape import ascii_only, printable
from envkit.render.style import Style

_WORDS: Final = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "info"}
_COLORS: Final = {Severity.ERROR: "31", Severity.WARNING: "33", Severity.INFO: "36"}
_BOLD: Final = "1"
_INDENT: Final = " " * 6


def render_lint(document: Lint, files: Sequence[str], style: Style) -> str:
    """Draw the findings.

    Args:
        document: what was found.
        files: everything that was looked at, to say of what nothing was found.
        style: how to draw.

    """
    lines: list[str] = []
    if style.verbosity >= 0:
        for file, group in groupby(document.findings, key=lambda one: one.file):
            lines += [_painted(_shown(file, style), _BOLD, style)]
            for finding in group:
                lines += _finding(finding, style)
            lines.append("")
    lines.append(totals(document, len(dict.fromkeys(files)), style))
    return "\n".join(lines) + "\n"


def _finding(finding: LintFinding, style: Style) -> list[str]:
    word = _painted(f"{_WORDS[finding.severity]:<7}", _COLORS[finding.severity], style)
    head = f"{finding.line:>4}  {word}  {finding.code}  {_shown(finding.title, style)}"
    evidence = "; ".join(f"{one.what}: {one.seen}" for one in finding.evidence)
    body = _wrapped(_shown(evidence, style), "", style)
    return [head, *body, *_wrapped(_shown(finding.fix.text, style), "fix: ", style)]


def _wrapped(text: str, lead: str, style: Style) -> list[str]:
    return textwrap.wrap(
        text,
        width=max(40, style.width),
        initial_indent=_INDENT + lead,
        subsequent_indent=_INDENT + " " * len(lead),
        break_on_hyphens=False,
    )


def totals(document: Lint, files: int, style: Style) -> str:
    """Say in one line how many specs were looked at, and what was found."""
    looked_at = f"{files} spec" + ("s" if files != 1 else "")
    unread = f"{len(document.unread)} not read"
    if not document.findings:
        looked_at += f": {unread}" if document.unread else ""
        return f"{looked_at}: nothing found"
    counts = [_painted(unread, "31", style)] if document.unread else []
    for severity, word in _WORDS.items():
        number = sum(one.severity is severity for one in document.findings)
        if number:
            plural = "s" if number != 1 and severity is not Severity.INFO else ""
            counts.append(_painted(f"{number} {word}{plural}", _COLORS[severity], style))
    return f"{looked_at}: {', '.join(counts)}"


def _painted(text: str, code: str, style: Style) -> str:
    return f"\x1b[{code}m{text}\x1b[0m" if style.color else text


def _shown(text: str, style: Style) -> str:
    return printable(text) if style.unicode else ascii_only(printable(text))

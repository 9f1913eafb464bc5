"""Findings in specs as text: a block for each file, a line of totals at the end.

Drawn without rich, which would cost a pre-commit hook more time than the check itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Final

from envkit.model.documents import Lint, LintFinding
from envkit.model.finding import Severity
from envkit.render.lines import BOLD, CYAN, RED, YELLOW, painted, shown, wrapped
from envkit.render.style import Style

_WORDS: Final = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "info"}
_COLORS: Final = {Severity.ERROR: RED, Severity.WARNING: YELLOW, Severity.INFO: CYAN}
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
            lines += [painted(shown(file, style), BOLD, style)]
            for finding in group:
                lines += _finding(finding, style)
            lines.append("")
    lines.append(totals(document, len(dict.fromkeys(files)), style))
    return "\n".join(lines) + "\n"


def _finding(finding: LintFinding, style: Style) -> list[str]:
    word = f"{_WORDS[finding.severity]:<7}"
    lead = f"{finding.line:>4}  {word}  {finding.code}  "
    head = wrapped(finding.title, lead, style)
    head[0] = head[0].replace(word, painted(word, _COLORS[finding.severity], style), 1)
    evidence = "; ".join(f"{one.what}: {one.seen}" for one in finding.evidence)
    body = wrapped(evidence, _INDENT, style)
    return [*head, *body, *wrapped(finding.fix.text, f"{_INDENT}fix: ", style)]


def totals(document: Lint, files: int, style: Style) -> str:
    """Say in one line how many specs were looked at, and what was found."""
    looked_at = f"{files} spec" + ("s" if files != 1 else "")
    unread = f"{len(document.unread)} not read"
    if not document.findings:
        looked_at += f": {unread}" if document.unread else ""
        return f"{looked_at}: nothing found"
    counts = [painted(unread, RED, style)] if document.unread else []
    for severity, word in _WORDS.items():
        number = sum(one.severity is severity for one in document.findings)
        if number:
            plural = "s" if number != 1 and severity is not Severity.INFO else ""
            counts.append(painted(f"{number} {word}{plural}", _COLORS[severity], style))
    return f"{looked_at}: {', '.join(counts)}"

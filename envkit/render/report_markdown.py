"""A report as Markdown: the verdict, the findings, and folded what was seen."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from envkit.model.finding import Status
from envkit.model.report import Report
from envkit.render import fact_rows, fingerprint_rows
from envkit.render.markdown import folded, plain, render_outcome, table
from envkit.render.outcome import Outcome
from envkit.render.requirement_rows import TITLE, requirement_rows

#: Characters of a value, and checks that could not be made: a page for people, not the document.
_MOST_CHARACTERS: Final = 400
_MOST_UNTOLD: Final = 50


def render_report_markdown(report: Report, outcome: Outcome) -> str:
    """Write a report; `outcome` is what was made of it, with its places found."""
    untold = [check for check in report.checks if check.status is Status.UNKNOWN]
    parts = [_target(report), _rows("Facts", fact_rows.rows(report.facts))]
    if report.fingerprint is not None:
        title = fingerprint_rows.title(report.fingerprint)
        parts.append(_rows(title, fingerprint_rows.rows(report.fingerprint)))
    parts.append(_rows(TITLE, requirement_rows(report.facts)))
    left_open = [(check.code, check.reason) for check in untold[:_MOST_UNTOLD]]
    parts.append(_rows("Could not be checked", left_open))
    return render_outcome(outcome, *parts)


def _target(report: Report) -> str:
    target = report.target
    label = f"**{plain(report.label)}**, " if report.label else ""
    where = plain(target.prefix or target.python or "a recorded machine")
    version = plain(report.envkit_version)
    return f"{label}{where}, chosen by {plain(target.chosen_by)}; envkit {version}"


def _rows(title: str, rows: Iterable[tuple[str, str]]) -> str:
    shown = [(plain(name), plain(value[:_MOST_CHARACTERS])) for name, value in rows]
    return folded(title, table(("what", "value"), shown)) if shown else ""

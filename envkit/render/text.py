"""A report as text for a terminal: verdict first, then findings, then what was seen."""

from __future__ import annotations

from typing import Final

from envkit.model.finding import Check, Finding, Severity, Status
from envkit.model.observed import NOT_RECORDED
from envkit.model.report import OUT_OF_TIME, Report
from envkit.render import fact_rows, fingerprint_rows, sibling_rows
from envkit.render.page import Page
from envkit.render.report_words import counted_checks, target_line
from envkit.render.requirement_rows import TITLE, requirement_rows
from envkit.render.style import Style

#: Findings of one severity that are shown without -v, and characters of one piece of evidence.
MOST_FINDINGS: Final = 12
MOST_CHARACTERS: Final = 400

_VERDICTS: Final = {
    "pass": ("✔", "+", "PASS", "bold green"),
    "fail": ("✘", "x", "FAIL", "bold red"),
    "incomplete": ("?", "?", "INCOMPLETE", "bold yellow"),
}
_SEVERITIES: Final = {
    Severity.ERROR: ("✘", "x", "error", "red"),
    Severity.WARNING: ("!", "!", "warning", "yellow"),
    Severity.INFO: ("·", "-", "info", "cyan"),
}
#: Of what a paste or a profile does not hold only the number is said.
_NOT_RECORDED: Final = NOT_RECORDED.reason


def render_text(report: Report, style: Style, *, saved: bool = False) -> str:
    """Draw a report; at most 30 lines when all is well.

    Args:
        report: what was found.
        style: how to draw.
        saved: it was read from a file, so that the reader is told of when it is.

    """
    page = Page(style)
    _draw_verdict(page, report)
    # A paste and a profile have no date: `created` is when they were judged.
    if saved and report.target.kind != "recorded":
        page.line("  ", f"recorded {report.created}", style="dim")
    if style.verbosity < 0:
        _draw_codes(page, report.findings)
        return page.text()
    _draw_findings(page, report.findings)
    page.table("Facts", fact_rows.rows(report.facts, everything=style.verbosity > 0))
    if report.fingerprint is not None:
        title = fingerprint_rows.title(report.fingerprint)
        page.table(title, fingerprint_rows.rows(report.fingerprint))
    page.table(sibling_rows.TITLE, sibling_rows.rows(report.facts.gpus))
    # Who describes a machine wants to know what to tell others of it.
    if style.verbosity > 0 or report.target.kind == "recorded":
        page.table(TITLE, requirement_rows(report.facts))
    _draw_checks(page, report.checks)
    return page.text()


def _draw_verdict(page: Page, report: Report) -> None:
    verdict = report.verdict
    good, plain, word, style = _VERDICTS[verdict.status]
    label = f"{report.label}: " if report.label else ""
    page.paragraph(
        (f"{page.symbol((good, plain))} {word}", style), (f"  {label}{target_line(report)}", "")
    )
    page.line("  ", verdict.headline, style="bold")
    if verdict.status == "incomplete" and OUT_OF_TIME in verdict.headline:
        page.line("  next: ", "Run it again with a larger --timeout; without it there are 300 s.")


def _draw_codes(page: Page, findings: tuple[Finding, ...]) -> None:
    for finding in findings:
        if finding.severity is not Severity.INFO:
            page.line(f"  {finding.code}  ", finding.title)


def _draw_findings(page: Page, findings: tuple[Finding, ...]) -> None:
    for severity in Severity:
        group = [finding for finding in findings if finding.severity is severity]
        most = len(group) if page.style.verbosity > 0 else MOST_FINDINGS
        for finding in group[:most]:
            _draw_finding(page, finding)
        if len(group) > most:
            page.blank()
            page.line("  ", f"and {len(group) - most} more of this severity: use -v or --json")


def _draw_finding(page: Page, finding: Finding) -> None:
    good, plain, word, style = _SEVERITIES[finding.severity]
    page.blank()
    lead = f"{page.symbol((good, plain))} {finding.code} {word}  "
    page.line(lead, finding.title, lead_style=style, style="bold")
    for evidence in finding.evidence:
        seen = _clipped(evidence.seen, page.style)
        source = _short_source(evidence.source, page.style)
        page.line("    - ", f"{evidence.what}: {seen} [{source}]", lead_style="dim")
    if finding.caused_by is not None:
        page.line("    ", f"follows from {finding.caused_by}")
    page.line("    fix: ", _clipped(finding.fix.text, page.style), lead_style="green")
    if finding.fix.command is not None:
        for command in finding.fix.command.splitlines():
            page.command(command)


def _draw_checks(page: Page, checks: tuple[Check, ...]) -> None:
    if not checks:
        return
    page.blank()
    page.line("Checks  ", counted_checks(checks), lead_style="bold")
    for check in checks:
        untold = check.status is Status.UNKNOWN and not check.reason.endswith(_NOT_RECORDED)
        if untold or page.style.verbosity > 0:
            page.line(f"  {check.code} {check.status.value}: ", check.reason, lead_style="dim")


def _short_source(source: str, style: Style) -> str:
    """Leave out the addresses that a table's row rests on, unless more was asked for."""
    return source if style.verbosity > 0 else source.split(": http", maxsplit=1)[0]


def _clipped(text: str, style: Style) -> str:
    if style.verbosity > 0 or len(text) <= MOST_CHARACTERS:
        return text
    return f"{text[:MOST_CHARACTERS]}... ({len(text)} characters, all with -v or --json)"

from __future__ import annotations

from pathlib import Path

from golden_text import assert_golden

from envkit.model.documents import Lint, LintFinding
from envkit.model.finding import Evidence, Fix, Severity
from envkit.render.lint_text import render_lint
from envkit.render.style import Style

GOLDEN = Path(__file__).parent / "golden"


def finding(code: str, severity: Severity, line: int, file: str = "a.yml") -> LintFinding:
    return LintFinding(
        code=code,
        severity=severity,
        title="What is wrong, in a few words",
        evidence=(
            Evidence(what="torch", seen="pytorch=2.6.0", source=f"{file}:{line}"),
            Evidence(what="last of the channel", seen="2.5.1", source="table"),
        ),
        fix=Fix(text="Do this, " + "and that, " * 10 + "and nothing else."),
        url="https://example.org/",
        file=file,
        line=line,
    )


DOCUMENT = Lint(
    findings=(
        finding("SPC004", Severity.ERROR, 3),
        finding("SPC008", Severity.WARNING, 120),
        finding("SPC014", Severity.INFO, 7, "b.yml"),
    )
)
FILES = ("a.yml", "b.yml", "c.yml", "b.yml")


def test_findings_by_file_with_totals() -> None:
    assert_golden(GOLDEN / "lint.txt", render_lint(DOCUMENT, FILES, Style()))


def test_quiet_is_the_totals_alone() -> None:
    text = render_lint(DOCUMENT, FILES, Style(verbosity=-1))
    assert text == "3 specs: 1 error, 1 warning, 1 info\n"


def test_nothing_found() -> None:
    assert render_lint(Lint(findings=()), ("a.yml",), Style()) == "1 spec: nothing found\n"


def test_colour_adds_escapes_and_nothing_else() -> None:
    import re  # noqa: PLC0415 (only here)

    colored = render_lint(DOCUMENT, FILES, Style(color=True))
    assert "\x1b[31m" in colored
    assert re.sub(r"\x1b\[\d+m", "", colored) == render_lint(DOCUMENT, FILES, Style())


def test_text_of_a_file_cannot_reach_the_terminal_raw() -> None:
    evil = finding("SPC010", Severity.WARNING, 1, "a\x1b[2J\u202e.yml")
    text = render_lint(Lint(findings=(evil,)), ("x",), Style())
    assert "\x1b" not in text
    assert "\u202e" not in text
    ascii_text = render_lint(Lint(findings=(evil,)), ("é",), Style(unicode=False))
    assert ascii_text.isascii()

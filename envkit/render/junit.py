"""Outcomes as JUnit's XML, which CI systems show as a list of tests."""

from __future__ import annotations

from itertools import groupby
from typing import Final
from xml.etree import ElementTree as ET

from envkit.render.escape import printable
from envkit.render.outcome import Case, Outcome

#: What could not be checked is an error of the test, not a failure of what it tests.
_ELEMENTS: Final = {"failed": "failure", "unknown": "error", "skipped": "skipped"}


def render_junit(outcome: Outcome) -> str:
    """Write a suite for each group of cases; times are left out, since none was taken."""
    suites = ET.Element("testsuites", {"name": f"envkit {outcome.command}"})
    suites.attrib |= _counts(outcome.cases)
    for group, members in groupby(outcome.cases, key=lambda case: case.group):
        cases = tuple(members)
        suite = ET.SubElement(suites, "testsuite", {"name": group, **_counts(cases)})
        if outcome.created:
            suite.set("timestamp", outcome.created.removesuffix("Z"))
        for case in cases:
            _write(suite, case)
    ET.indent(suites)
    body = ET.tostring(suites, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{body}\n'


def _counts(cases: tuple[Case, ...]) -> dict[str, str]:
    of = {status: sum(case.status == status for case in cases) for status in _ELEMENTS}
    return {
        "tests": str(len(cases)),
        "failures": str(of["failed"]),
        "errors": str(of["unknown"]),
        "skipped": str(of["skipped"]),
    }


def _write(suite: ET.Element, case: Case) -> None:
    written = ET.SubElement(
        suite, "testcase", {"classname": _text(f"envkit.{case.group}"), "name": _text(case.name)}
    )
    lines = "\n".join(_text(line) for line in (case.said, *case.lines) if line)
    name = _ELEMENTS.get(case.status)
    if name is None:
        if case.lines:  # a warning: shown, and no failure
            ET.SubElement(written, "system-out").text = lines
        return
    element = ET.SubElement(written, name, {"message": _text(case.said)})
    if case.lines:
        element.text = lines


def _text(text: str) -> str:
    """Return one line that XML 1.0 can hold: it has no way to write most control characters."""
    return printable(text)

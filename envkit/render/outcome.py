"""What a command found, in the form that reports for other programs share: JUnit, SARIF, GitHub."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

import msgspec

from envkit.model.documents import DiffVerdict
from envkit.model.finding import Finding, Severity
from envkit.model.report import Verdict

Level = Literal["error", "warning", "note"]
LEVELS: Final[tuple[Level, ...]] = ("error", "warning", "note")
_OF_SEVERITY: Final[dict[Severity, Level]] = {
    Severity.ERROR: "error",
    Severity.WARNING: "warning",
    Severity.INFO: "note",
}
_OF_VERDICT: Final[dict[str, Literal["passed", "failed", "unknown"]]] = {
    "pass": "passed",
    "same": "passed",
    "fail": "failed",
    "different": "failed",
    "incomplete": "unknown",
}
#: Characters of one piece of evidence: a report for people, not the document.
_MOST_CHARACTERS: Final = 400


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where in a file something stands; the file as the user named it."""

    file: str
    line: int | None = None
    """None: to be looked up, or of the whole file."""
    package: str = ""
    """Whose line is meant, where that is not known yet."""
    platform: str = ""


class Remark(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is to be told: a finding, a reason, a difference."""

    code: str
    level: Level
    title: str
    lines: tuple[str, ...] = ()
    """What was seen and what to do, a sentence each."""
    url: str = ""
    place: Place | None = None


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """Something that was checked, as test reports count it."""

    group: str
    name: str
    status: Literal["passed", "failed", "skipped", "unknown"]
    said: str = ""
    lines: tuple[str, ...] = ()


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of one command.

    Its cases have a failed one where the exit code is 1 and an unknown one where it is 3.
    """

    command: str
    """`verify`, `lint` ..."""
    headline: str
    exit_code: int
    remarks: tuple[Remark, ...]
    """Errors first."""
    cases: tuple[Case, ...]
    created: str = ""
    untold: tuple[str, ...] = ()
    """What could not be checked, a sentence each."""


def remark_of(finding: Finding, place: Place | None = None) -> Remark:
    """Turn a finding into a remark: its evidence, then its fix."""
    lines = [f"{one.what}: {_clipped(one.seen)} [{one.source}]" for one in finding.evidence]
    if finding.caused_by is not None:
        lines.append(f"follows from {finding.caused_by}")
    lines.append(f"fix: {_clipped(finding.fix.text)}")
    if finding.fix.command is not None:
        lines += [f"$ {command}" for command in finding.fix.command.splitlines()]
    return Remark(
        code=finding.code,
        level=_OF_SEVERITY[finding.severity],
        title=finding.title,
        lines=tuple(lines),
        url=finding.url,
        place=place,
    )


def verdict_case(group: str, verdict: Verdict | DiffVerdict) -> Case:
    """Turn the verdict itself into a case: it decides where no other case has failed."""
    status = _OF_VERDICT[verdict.status]
    return Case(group=group, name="verdict", status=status, said=verdict.headline)


def by_weight(remarks: tuple[Remark, ...]) -> tuple[Remark, ...]:
    """Put errors first, and leave the order within a level as it is."""
    return tuple(sorted(remarks, key=lambda one: LEVELS.index(one.level)))


def placed(outcome: Outcome, find: Callable[[Place], Place | None]) -> Outcome:
    """Return the outcome with every place as `find` has it: a path in the repository, a line."""
    remarks = tuple(
        one if one.place is None else msgspec.structs.replace(one, place=find(one.place))
        for one in outcome.remarks
    )
    return msgspec.structs.replace(outcome, remarks=remarks)


def _clipped(text: str) -> str:
    if len(text) <= _MOST_CHARACTERS:
        return text
    return f"{text[:_MOST_CHARACTERS]}... ({len(text)} characters, all in the JSON)"

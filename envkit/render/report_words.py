"""A report in words that every format shares: the environment, and how the checks ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from envkit.model.finding import Check, Status
from envkit.model.report import Report

_KINDS: Final = {
    "conda": "conda environment",
    "venv": "virtual environment",
    "python": "interpreter",
    "prefix": "prefix without an interpreter",
    "recorded": "recorded machine",
}
_COUNTED: Final = {
    Status.PASS: "passed",
    Status.FAIL: "fired",
    Status.UNKNOWN: "could not be told",
    Status.SKIP: "do not apply",
}


def target_line(report: Report) -> str:
    """Say which environment was judged, and why that one."""
    target = report.target
    where = target.prefix or target.python or ""
    return f"{_KINDS[target.kind]} {where}".rstrip() + f" (chosen by {target.chosen_by})"


def counted_checks(checks: Sequence[Check]) -> str:
    """Count the checks by how they ended."""
    counts = {status: sum(check.status is status for check in checks) for status in Status}
    return ", ".join(
        f"{counts[status]} {word}" for status, word in _COUNTED.items() if counts[status]
    )

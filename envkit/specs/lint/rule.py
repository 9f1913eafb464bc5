"""What a check of a spec gives back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

import msgspec

from envkit.model.documents import LintFinding
from envkit.model.finding import Evidence, Fix, Severity
from envkit.model.spec_codes import BY_CODE
from envkit.specs.lint.subject import Subject


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """One fault, at a line of the spec."""

    line: int
    seen: tuple[tuple[str, str], ...]
    """What was looked at, and what stands there."""
    fix: str
    known: tuple[tuple[str, str, str], ...] = ()
    """What it is held against: what, the value, and its source."""
    severity: Severity | None = None
    """Where it depends on the evidence; None: the code's own."""


Check: TypeAlias = Callable[[Subject], Iterator[Fault]]


def finding(code: str, fault: Fault, file: str) -> LintFinding:
    """Return a fault as a finding of its code."""
    known = BY_CODE[code]
    here = f"{file}:{fault.line}"
    evidence = [Evidence(what=what, seen=seen, source=here) for what, seen in fault.seen]
    evidence += [
        Evidence(what=what, seen=seen, source=source) for what, seen, source in fault.known
    ]
    return LintFinding(
        code=code,
        severity=fault.severity or known.severity,
        title=known.title,
        evidence=tuple(evidence),
        fix=Fix(text=fault.fix),
        url=known.url,
        file=file,
        line=fault.line,
    )

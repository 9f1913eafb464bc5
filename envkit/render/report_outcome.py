"""A report of `envkit verify` as an outcome: a case a rule, and one for the verdict."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from envkit.model.finding import Check, Finding, Status
from envkit.model.observed import Known
from envkit.model.report import Report
from envkit.render.outcome import Case, Outcome, Place, Remark, by_weight, remark_of, verdict_case

#: Rules that hold packages against the lock, whose evidence names packages; and against the spec.
_OF_LOCK: Final = frozenset({"CON001", "CON002", "CON003", "CON004", "CON005", "CON008", "CON011"})
_OF_SPEC: Final = frozenset({"CON009", "CON010"})


def report_outcome(report: Report) -> Outcome:
    """Turn a report into an outcome.

    A rule that found an error is a failed case where the verdict is a failure: a warning is not
    one, unless `--fail-on` made it so, and then the verdict's own case has failed.
    """
    findings = {finding.code: finding for finding in report.findings}
    remarks = tuple(_remark(finding, report) for finding in report.findings)
    untold = [check for check in report.checks if check.status is Status.UNKNOWN]
    return Outcome(
        command="verify",
        headline=report.verdict.headline,
        exit_code=report.verdict.exit_code,
        remarks=by_weight(remarks),
        cases=(
            *(_case(check, findings, report) for check in report.checks),
            verdict_case("verify", report.verdict),
        ),
        created=report.created,
        untold=tuple(f"{check.code}: {check.reason}" for check in untold),
    )


def _remark(finding: Finding, report: Report) -> Remark:
    return remark_of(finding, _place(finding, report))


def _place(finding: Finding, report: Report) -> Place | None:
    request = report.facts.request
    if finding.code in _OF_LOCK and isinstance(request.lock, Known):
        package = finding.evidence[0].what if finding.evidence else ""
        return Place(file=request.lock.value, package=package.removesuffix(" (pip)"))
    if finding.code in _OF_SPEC and isinstance(request.spec, Known):
        return Place(file=request.spec.value)
    return None


def _case(check: Check, findings: Mapping[str, Finding], report: Report) -> Case:
    finding = findings.get(check.code)
    remark = None if finding is None else remark_of(finding)
    failed = report.verdict.status == "fail" and remark is not None and remark.level == "error"
    status: Literal["passed", "failed", "skipped", "unknown"] = "passed"
    if check.status is Status.FAIL:
        status = "failed" if failed else "passed"
    elif check.status is Status.SKIP:
        status = "skipped"
    elif check.status is Status.UNKNOWN:
        # What the verdict could do without is no fault of a test run.
        status = "unknown" if report.verdict.status == "incomplete" else "skipped"
    title = check.reason if remark is None else f"{remark.level}: {remark.title}"
    lines = () if remark is None else remark.lines
    return Case(
        group=f"verify.{check.code[:3]}", name=check.code, status=status, said=title, lines=lines
    )

"""`envkit lint`: find the faults of specs, heed the waivers, and give the exit code."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence

from envkit.model.documents import Lint, LintFinding
from envkit.model.facts import FailOnName, Waiver
from envkit.model.finding import Severity
from envkit.specs.environment_yml import read_spec_file
from envkit.specs.lint.engine import lint
from envkit.specs.lint.surroundings import surroundings_of
from envkit.specs.registry import Registry
from envkit.specs.resolve import resolve_spec
from envkit.workflows.config import Configuration


def lint_specs(
    asked: Sequence[str],
    *,
    today: dt.date,
    configuration: Configuration | None = None,
    registry: Registry | None = None,
) -> Lint:
    """Return the findings of specs, in the order in which these were named.

    Args:
        asked: paths, names or `name@version`; one named twice is judged once.
        today: the day to judge by: ends of life, and last days of waivers.
        configuration: where waivers are.
        registry: where names are looked up; by default the registry that comes with envkit.

    Raises:
        UsageError: there is no such name or version.
        InputError: a file cannot be read or is no environment.yml.

    """
    settings = configuration or Configuration()
    found: list[LintFinding] = []
    for one in dict.fromkeys(asked):
        resolved = resolve_spec(one, registry=registry)
        spec = read_spec_file(resolved.path, origin=one)
        findings = lint(spec, surroundings_of(resolved, today=today))
        if settings.file.waivers:
            source = settings.path.name if settings.path else "configuration"
            findings = _waived(findings, settings.waivers(), today, source)
        found += findings
    return Lint(findings=tuple(found))


def exit_code(document: Lint, *, fail_on: FailOnName) -> int:
    """Return 1 if a finding weighs as much as `fail_on`, else 0; nothing here is ever unknown."""
    failing = {Severity.ERROR} if fail_on == "error" else {Severity.ERROR, Severity.WARNING}
    return int(any(finding.severity in failing for finding in document.findings))


def _waived(
    findings: Iterable[LintFinding], waivers: Iterable[Waiver], today: dt.date, source: str
) -> tuple[LintFinding, ...]:
    # Imported where there are waivers: every rule of `verify` comes with it.
    from envkit.rules import waivers as rules  # noqa: PLC0415

    dated = [
        rules.Waiver(code=one.code, reason=one.reason, last_day=dt.date.fromisoformat(one.until))
        for one in waivers
    ]
    judged = rules.apply_waivers(findings, dated, today=today, source=source).findings
    kept = [one for one in judged if isinstance(one, LintFinding)]
    return tuple(sorted(kept, key=lambda one: (one.line, one.code)))

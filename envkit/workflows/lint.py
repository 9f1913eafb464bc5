"""`envkit lint`: find the faults of specs, heed the waivers, and give the exit code."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence

from envkit.errors import InputError, UsageError
from envkit.model.documents import Lint, LintFinding, UnreadFile
from envkit.model.facts import FailOnName, Waiver
from envkit.model.finding import Severity
from envkit.specs.environment_yml import read_spec_file, refuse_other_file
from envkit.specs.lint.engine import lint
from envkit.specs.lint.surroundings import surroundings_of
from envkit.specs.registry import Registry
from envkit.specs.resolve import is_lock_name, resolve_spec
from envkit.workflows.config import Configuration


def lint_specs(
    asked: Sequence[str],
    *,
    today: dt.date,
    configuration: Configuration | None = None,
    registry: Registry | None = None,
) -> Lint:
    """Return the findings of specs, in the order in which these were named.

    One of several that cannot be read hides nothing of the others: it is in `unread`.

    Args:
        asked: paths, names or `name@version`; one named twice is judged once.
        today: the day to judge by: ends of life, and last days of waivers.
        configuration: where waivers are.
        registry: where names are looked up; by default the registry that comes with envkit.

    Raises:
        UsageError: only one was asked for, and there is no such name or version.
        InputError: only one was asked for, and it cannot be read or is no environment.yml.

    """
    settings = configuration or Configuration()
    found: list[LintFinding] = []
    unread: list[UnreadFile] = []
    specs = tuple(dict.fromkeys(asked))
    for one in specs:
        try:
            findings = _lint_one(one, registry, today)
        except (InputError, UsageError) as error:
            if len(specs) == 1:
                raise
            unread.append(UnreadFile(file=one, message=error.message, next_step=error.next_step))
            continue
        if settings.file.waivers:
            source = settings.path.name if settings.path else "configuration"
            findings = _waived(findings, settings.waivers(), today, source)
        found += findings
    return Lint(findings=tuple(found), unread=tuple(unread))


def without_locks(asked: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Part what was named into specs and locks, which `*.yml` of a folder names too.

    Raises:
        UsageError: there are only locks.

    """
    specs = tuple(one for one in asked if not is_lock_name(one))
    if not specs:
        message = f"{asked[0]} is a lock, and no environment.yml."
        raise UsageError(message, next_step="Give the spec that it was made from.")
    return specs, tuple(one for one in asked if is_lock_name(one))


def exit_code(document: Lint, *, fail_on: FailOnName) -> int:
    """Return 2 if a file was not read, 1 if a finding weighs as much as `fail_on`, else 0."""
    if document.unread:
        return 2
    failing = {Severity.ERROR} if fail_on == "error" else {Severity.ERROR, Severity.WARNING}
    return int(any(finding.severity in failing for finding in document.findings))


def _lint_one(asked: str, registry: Registry | None, today: dt.date) -> tuple[LintFinding, ...]:
    resolved = resolve_spec(asked, registry=registry)
    spec = read_spec_file(resolved.path, origin=asked)
    refuse_other_file(spec)
    return lint(spec, surroundings_of(resolved, today=today))


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

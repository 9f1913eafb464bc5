"""Runs the rules over the facts: prerequisites, missing facts, and which finding causes which."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from envkit.model.facts import Facts
from envkit.model.finding import Check, Finding, Fix, Severity, Status
from envkit.model.observed import NotApplicable, Unreadable
from envkit.rules.outcome import Fired, Outcome, Passed, Skipped, Undecided, missing
from envkit.rules.registry import RULES
from envkit.rules.rule import Rule
from envkit.rules.subject import Subject

_WEIGHT = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.INFO: 2}


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """What the rules say of some facts."""

    findings: tuple[Finding, ...]
    """Gravest first; a cause stands directly before its consequences."""
    checks: tuple[Check, ...]
    """Every rule that was run, in the order of the registry."""


def judge(facts: Facts, rules: Sequence[Rule] = RULES) -> Judgement:
    """Run rules over facts.

    Args:
        facts: what was read, of this machine or of any other.
        rules: in an order in which prerequisites come first, as the registry has them.

    """
    subject = Subject(facts)
    outcomes: dict[str, Outcome] = {}
    for rule in rules:
        outcomes[rule.code] = _run(rule, subject, outcomes)
    checks = tuple(_check(rule, outcomes[rule.code]) for rule in rules)
    fired = {code: found for code, found in outcomes.items() if isinstance(found, Fired)}
    findings = [_finding(rule, fired) for rule in rules if rule.code in fired]
    return Judgement(findings=order(findings), checks=checks)


def _run(rule: Rule, subject: Subject, earlier: dict[str, Outcome]) -> Outcome:
    for code in rule.requires:
        if isinstance(earlier.get(code), Fired):
            return Skipped(reason=f"{code} says it")
    if rule.gate is not None and (settled := rule.gate(subject)) is not None:
        return settled
    for path in rule.reads:
        fact = observed(subject.facts, path)
        if isinstance(fact, (Unreadable, NotApplicable)):
            return missing(path, fact)
    return rule.check(subject)


def observed(facts: Facts, path: str) -> Any:
    """Return the fact at `family.name`."""
    family, _, name = path.partition(".")
    return getattr(getattr(facts, family), name)


def _check(rule: Rule, outcome: Outcome) -> Check:
    match outcome:
        case Passed():
            status = Status.PASS
        case Skipped():
            status = Status.SKIP
        case Undecided():
            status = Status.UNKNOWN
        case Fired():
            status = Status.FAIL
    against = isinstance(outcome, Undecided) and outcome.against
    return Check(code=rule.code, status=status, reason=outcome.reason, against=against)


def _finding(rule: Rule, fired: dict[str, Fired]) -> Finding:
    found = fired[rule.code]
    return Finding(
        code=rule.code,
        severity=found.severity or rule.severity,
        title=found.title or rule.title,
        evidence=found.evidence,
        fix=_fix(rule, fired),
        url=rule.url,
        caused_by=next((code for code in rule.follows if code in fired), None),
    )


def _fix(rule: Rule, fired: dict[str, Fired]) -> Fix:
    """Return the rule's own fix, or refer to the finding that puts another torch in place."""
    own = fired[rule.code].fix
    first = next((code for code in rule.mended_by if code in fired), None)
    if first is None or own.command is None:
        return own
    if fired[first].fix.command is None:
        return Fix(text=f"First mend {first}: it decides which torch stays here.")
    return Fix(text=f"Do what {first} says: it puts another torch here, with what belongs to it.")


def order(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Sort findings: groups of one cause by their gravest member, in a group the cause first."""
    found = tuple(findings)
    by_code = {finding.code: finding for finding in found}
    chains = {finding.code: _chain(finding, by_code) for finding in found}
    gravest: dict[str, int] = {}
    for finding in found:
        root = chains[finding.code][0]
        weight = _WEIGHT[finding.severity]
        gravest[root] = min(weight, gravest.get(root, weight))
    place = {finding.code: at for at, finding in enumerate(found)}

    def key(finding: Finding) -> tuple[int, tuple[int, ...]]:
        chain = chains[finding.code]
        return gravest[chain[0]], tuple(place[code] for code in chain)

    return tuple(sorted(found, key=key))


def _chain(finding: Finding, by_code: dict[str, Finding]) -> tuple[str, ...]:
    """Codes from the first cause down to this finding."""
    chain = [finding.code]
    cause = finding.caused_by
    while cause is not None and cause in by_code and cause not in chain:
        chain.insert(0, cause)
        cause = by_code[cause].caused_by
    return tuple(chain)

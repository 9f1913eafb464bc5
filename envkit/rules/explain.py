"""The page of a rule: what it checks, why it matters, how to mend it, what it rests on."""

from __future__ import annotations

import difflib
from pathlib import Path

from envkit.errors import UsageError
from envkit.model.rule_entry import RuleEntry
from envkit.rules.registry import ENTRIES
from envkit.rules.rule import FAMILIES

PAGES = Path(__file__).parent / "pages"


def explain(code: str) -> str:
    """Return the page of a code as Markdown.

    Raises:
        UsageError: there is no such code; the message has the nearest ones.

    """
    rule = ENTRIES.get(code.strip().upper())
    if rule is None:
        near = difflib.get_close_matches(code.strip().upper(), ENTRIES, n=3, cutoff=0.5)
        hint = f" Did you mean {', '.join(near)}?" if near else ""
        message = f"There is no rule {code!r}.{hint}"
        raise UsageError(message, next_step="`envkit rules` lists every code.")
    return page(rule)


def page(rule: RuleEntry) -> str:
    """Return the page of a rule as Markdown: its heading from the rule, its text from `pages/`."""
    text = (PAGES / f"{rule.code}.md").read_text(encoding="utf-8").strip()
    facts = [
        f"Family: {FAMILIES[rule.family]}.",
        f"Severity: {rule.severity.value}{f' ({rule.varies})' if rule.varies else ''}.",
    ]
    if rule.reads:
        facts.append(f"Needs: {', '.join(f'`{path}`' for path in rule.reads)}.")
    if rule.requires:
        facts.append(f"Not asked when {', '.join(rule.requires)} fired.")
    if rule.follows:
        facts.append(f"A consequence of {', '.join(rule.follows)} where that fired too.")
    return f"# {rule.code}: {rule.title}\n\n{' '.join(facts)}\n\n{text}\n"

"""`envkit rules`: every rule in one line each."""

from __future__ import annotations

from itertools import groupby

import click

from envkit.cli.command import EnvkitCommand, terminal_options
from envkit.cli.output import emit
from envkit.model.rule_entry import RuleEntry
from envkit.rules.registry import listing
from envkit.rules.rule import FAMILIES

EXAMPLES = """\
envkit rules
envkit rules | grep error"""


@click.command(cls=EnvkitCommand, name="rules", examples=EXAMPLES)
@terminal_options
def command(**_: object) -> int:
    """List every rule: its code, how much it weighs, and what it says when it fires."""
    emit(list_rules(listing()))
    return 0


def list_rules(rules: tuple[RuleEntry, ...]) -> str:
    """Return the list as text, by family."""
    parts = []
    for family, members in groupby(rules, key=lambda rule: rule.family):
        lines = [f"{FAMILIES[family]}"]
        lines += [f"  {rule.code}  {rule.severity.value:<7}  {rule.title}" for rule in members]
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n\n`envkit explain CODE` shows a rule's page.\n"

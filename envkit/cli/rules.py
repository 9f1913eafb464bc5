"""`envkit rules`: every rule in one line each."""

from __future__ import annotations

import textwrap
from itertools import groupby

import click

from envkit.cli.command import EnvkitCommand, Terminal, terminal_options
from envkit.cli.output import emit, style_of
from envkit.model.rule_entry import RuleEntry
from envkit.rules.registry import listing
from envkit.rules.rule import FAMILIES

EXAMPLES = """\
envkit rules
envkit rules | grep error"""


@click.command(cls=EnvkitCommand, name="rules", examples=EXAMPLES)
@terminal_options
def command(**options: object) -> int:
    """List every rule: its code, how much it weighs, and what it says when it fires."""
    emit(list_rules(listing(), style_of(Terminal.of(options)).width))
    return 0


def list_rules(rules: tuple[RuleEntry, ...], width: int) -> str:
    """Return the list as text, by family."""
    parts = []
    for family, members in groupby(rules, key=lambda rule: rule.family):
        lines = [f"{FAMILIES[family]}"]
        for rule in members:
            lead = f"  {rule.code}  {rule.severity.value:<7}  "
            lines += textwrap.wrap(
                rule.title, width, initial_indent=lead, subsequent_indent=" " * len(lead)
            )
        parts.append("\n".join(lines))
    parts.append(textwrap.fill("`envkit explain CODE` shows a rule's page.", width))
    return "\n\n".join(parts) + "\n"

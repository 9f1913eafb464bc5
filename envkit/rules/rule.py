"""What a rule is: a code, what it needs to know, and a small pure check."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from envkit.model.rule_entry import RuleEntry
from envkit.rules.outcome import Outcome
from envkit.rules.subject import Subject

Check: TypeAlias = Callable[[Subject], Outcome]
Gate: TypeAlias = Callable[[Subject], Outcome | None]

#: Families in the order in which they are listed, with their names.
FAMILIES = {
    "DRV": "NVIDIA driver",
    "GPU": "GPU devices",
    "TOR": "torch",
    "LIB": "libraries",
    "ALC": "CUDA caching allocator",
    "CON": "environment against lock and spec",
    "SPC": "environment.yml",
}


class Rule(RuleEntry, frozen=True, kw_only=True):
    """One thing that can be wrong with a machine or an environment, and how to see it."""

    check: Check
    gate: Gate | None = None
    """Asked before `reads` is looked at: what is settled without those facts."""
    mended_by: tuple[str, ...] = ()
    """Codes that put another torch in place, companions too: a command for this torch would undo
    theirs."""

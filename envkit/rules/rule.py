"""What a rule is: a code, what it needs to know, and a small pure check."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import msgspec

from envkit.model.finding import Severity
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
}


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that can be wrong, and how to see it."""

    code: str
    title: str
    severity: Severity
    """Its usual weight; a finding may weigh more or less by its evidence (`varies`)."""
    check: Check
    reads: tuple[str, ...] = ()
    """Facts without which there is no answer, as `family.name`. One that is unreadable makes the
    check unknown, one that is not applicable skips it; absent ones reach the check."""
    gate: Gate | None = None
    """Asked before `reads` is looked at: what is settled without those facts."""
    requires: tuple[str, ...] = ()
    """Codes that skip this rule when they fire: their finding says all there is to say."""
    follows: tuple[str, ...] = ()
    """Codes that are the cause of this finding when they fire too, likeliest first."""
    varies: str = ""
    """On what the severity depends, if it does."""
    url: str
    """The source that the rule rests on."""

    @property
    def family(self) -> str:
        """The three letters in front of the number."""
        return self.code[:3]

"""A code as people meet it: title, weight and source, without the check behind it."""

from __future__ import annotations

import msgspec

from envkit.model.finding import Severity


class RuleEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that can be wrong, as lists and pages show it."""

    code: str
    title: str
    severity: Severity
    """Its usual weight; a finding may weigh more or less by its evidence (`varies`)."""
    reads: tuple[str, ...] = ()
    """Facts without which there is no answer, as `family.name`. One that is unreadable makes the
    check unknown, one that is not applicable skips it; absent ones reach the check."""
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

"""How text is to be drawn: everything about the terminal that a renderer may know."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Style:
    """Width, colour and character set, decided by the caller."""

    width: int = 80
    color: bool = False
    unicode: bool = True
    """False where the output's encoding is not UTF-8: then only ASCII is written."""
    verbosity: int = 0
    """-1 verdict and codes only, 0 normal, 1 and more: every check and every fact."""

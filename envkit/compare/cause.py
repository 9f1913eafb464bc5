"""What a cause is: what must be recorded otherwise, and which layers it can move."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from envkit.compare.contrast import Contrast
from envkit.model.finding import Evidence

Find = Callable[[Contrast], Iterator[Evidence]]

ON_ONE_MODEL: Final = "measured on one GPU model (NVIDIA H200, torch 2.11.0+cu130)"
FROM_SOURCES: Final = "from the sources of torch and its libraries, not measured"


class CauseRule(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that makes two machines differ, as data; `find` is for what data cannot say."""

    code: str
    title: str
    moves: frozenset[str]
    """Layers that it can move."""
    measured: frozenset[str] = frozenset()
    """Of these, the layers that a planted difference was measured to move."""
    known_from: str
    """Where the pattern is from: measured where, or which source."""
    source: str
    """Address of the documentation or file that says what it does."""
    flags: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()
    key: tuple[str, ...] = ()
    all_settings: bool = False
    """Whether every allocator setting counts."""
    find: Find | None = None
    proof: Callable[[Contrast], Evidence | None] | None = None
    numerics: str = ""
    """Pattern of the probes whose numbers it can move; empty: any."""

    def recorded(self, contrast: Contrast) -> list[Evidence]:
        """Return what is recorded otherwise on the two sides and can be this cause."""
        found = [
            *contrast.table("torch.flags", self.flags),
            *contrast.variables(self.variables),
            *contrast.facts(self.facts),
            *contrast.key(self.key),
        ]
        if self.all_settings:
            found += contrast.table("torch.allocator_settings")
        if self.find is not None:
            found += self.find(contrast)
        return _once(found)


def _once(found: list[Evidence]) -> list[Evidence]:
    """Leave out what says the same as an entry before it under another name."""
    kept: dict[str, Evidence] = {}
    for one in found:
        name = one.what.rpartition(".")[2] if one.source == "facts" else one.what
        kept.setdefault(f"{name}: {one.seen}", one)
    return list(kept.values())

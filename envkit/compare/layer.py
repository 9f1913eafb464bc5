"""What the comparison of one layer gives, and how its values are put side by side."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal

import msgspec

from envkit.model.documents import Comparable, Difference, NotCompared

#: Layers of a comparison in the order in which they are shown: those of a fingerprint, and before
#: them what surrounds it.
ORDER: Final = (
    "packages",
    "software",
    "allocator",
    "tensors",
    "workspaces",
    "peaks",
    "numerics",
    "context",
)
#: Shown and never compared: host, driver, GPU. It has no agreement.
MACHINE: Final = "machine"

Kind = Literal["expected", "unexpected"]
Agreement = Literal["same", "different", "not_comparable"]
Same = Callable[[Any, Any], bool]


class Lost(msgspec.Struct, frozen=True, kw_only=True):
    """A value that an input does not have, and why."""

    reason: str
    lawful: bool = False
    """Whether nothing went wrong: it need not repeat, or the other suite does not have it."""
    unsteady: bool = False
    """Whether it is there and may not be counted, because it does not or need not repeat."""


class LayerResult(msgspec.Struct, frozen=True, kw_only=True):
    """One layer, compared."""

    layer: str
    comparable: Comparable
    differences: tuple[Difference, ...] = ()
    cannot_compare: tuple[NotCompared, ...] = ()
    compared: int = 0
    """Values that two inputs or more could be compared in."""
    probes: tuple[str, ...] = ()
    """Of a layer of fingerprints: those that any input has."""
    left_out: tuple[str, ...] = ()
    """Of these, those of which nothing could be compared."""
    lost: bool = False
    """Whether a value is missing that the input should have had."""
    moved: bool = False
    """Whether a difference is beyond the tolerance."""

    @property
    def agreement(self) -> Agreement:
        """The layer in one word; what could not be compared at all never agrees."""
        if self.moved:
            return "different"
        if self.compared == 0 or self.comparable.answer == "no":
            return "not_comparable"
        return "same"


class Collector:
    """Takes the values of one layer key by key."""

    def __init__(self, layer: str) -> None:
        self._layer = layer
        self._differences: list[Difference] = []
        self._cannot: list[NotCompared] = []
        self._compared = 0
        self._lost = False
        self._moved = False

    def take(  # noqa: PLR0913  (keywords)
        self,
        key: str,
        values: Sequence[Any],
        *,
        kind: Kind = "unexpected",
        same: Same = operator.eq,
        shown: Callable[[Sequence[Any]], Sequence[Any]] | None = None,
        quiet: bool = False,
    ) -> None:
        """Compare the values of one key; a `Lost` one equals nothing and differs from nothing.

        Args:
            key: what the values are of.
            values: one for each input.
            kind: class of a difference.
            same: whether two values agree.
            shown: turns the values into those that the difference shows; lost ones are None.
            quiet: that a value is lost is not worth a line.

        """
        readable = [value for value in values if not isinstance(value, Lost)]
        if len(readable) < len(values) and not quiet:
            self._note_lost(key, values)
        if len(readable) < 2:  # noqa: PLR2004  (nothing to compare with)
            return
        self._compared += 1
        if all(same(readable[0], other) for other in readable[1:]):
            return
        plain = [None if isinstance(value, Lost) else value for value in values]
        self.differ(key, plain if shown is None else shown(plain), kind=kind)

    @property
    def moved(self) -> bool:
        """Whether a difference beyond the tolerance was noted."""
        return self._moved

    @property
    def compared(self) -> int:
        """How many values could be compared so far."""
        return self._compared

    def count(self) -> None:
        """Count a value as compared."""
        self._compared += 1

    def differ(
        self, key: str, values: Sequence[Any], *, kind: Kind, within_tolerance: bool = False
    ) -> None:
        """Note a difference."""
        self._moved = self._moved or not within_tolerance
        self._differences.append(
            Difference(layer=self._layer, key=key, values=tuple(values), kind=kind)
        )

    def drop_repeated(self) -> None:
        """Keep the first of several differences with the same values: one fact, two names."""
        kept: dict[str, Difference] = {}
        for one in self._differences:
            kept.setdefault(repr(one.values), one)
        self._differences = list(kept.values())

    def _note_lost(self, key: str, values: Sequence[Any]) -> None:
        reasons = tuple(value.reason if isinstance(value, Lost) else "" for value in values)
        self._cannot.append(NotCompared(layer=self._layer, key=key, reasons=reasons))
        self._lost = self._lost or any(
            isinstance(value, Lost) and not value.lawful for value in values
        )

    def finish(self, comparable: Comparable) -> LayerResult:
        """Return the layer."""
        return LayerResult(
            layer=self._layer,
            comparable=comparable,
            differences=tuple(self._differences),
            cannot_compare=tuple(self._cannot),
            compared=self._compared,
            lost=self._lost,
            moved=self._moved,
        )

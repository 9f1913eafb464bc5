"""Two inputs held against each other: what is recorded otherwise, and what moved."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from envkit.compare.facts import software_value, variables
from envkit.compare.layer import LayerResult
from envkit.compare.sides import Side
from envkit.model.documents import Difference
from envkit.model.finding import Evidence
from envkit.model.observed import Known


class Contrast(msgspec.Struct, frozen=True, kw_only=True):
    """Two inputs and the layers that were compared."""

    one: Side
    other: Side
    layers: dict[str, LayerResult]

    @property
    def moved(self) -> frozenset[str]:
        """Layers that differ beyond their tolerance."""
        return frozenset(name for name, layer in self.layers.items() if layer.moved)

    @property
    def unexpected(self) -> frozenset[str]:
        """Of these, layers that hardware and driver alone do not explain."""
        return frozenset(
            name
            for name in self.moved
            if any(one.kind == "unexpected" for one in self.layers[name].differences)
        )

    @property
    def lost(self) -> frozenset[str]:
        """Layers in which an input lacks a value that it should have had."""
        return frozenset(name for name, layer in self.layers.items() if layer.lost)

    @property
    def measured(self) -> bool:
        """Whether there are two fingerprints."""
        return self.one.fingerprint is not None and self.other.fingerprint is not None

    def differences(self, layer: str) -> tuple[Difference, ...]:
        """Return the differences of a layer."""
        found = self.layers.get(layer)
        return found.differences if found is not None else ()

    def evidence(self, what: str, left: Any, right: Any, source: str) -> Evidence:
        """Say that something is recorded otherwise."""
        seen = f"{self.one.label}: {_said(left)}; {self.other.label}: {_said(right)}"
        return Evidence(what=what, seen=seen, source=source)

    def facts(self, paths: Iterable[str]) -> Iterator[Evidence]:
        """Return the software facts that are known on both sides and differ."""
        for path in paths:
            left, right = software_value(self.one, path), software_value(self.other, path)
            if isinstance(left, Known) and isinstance(right, Known) and left.value != right.value:
                yield self.evidence(path, left.value, right.value, "facts")

    def table(self, name: str, only: Sequence[str] | None = None) -> Iterator[Evidence]:
        """Return the entries of a table of facts that differ, all or some."""
        left, right = software_value(self.one, name), software_value(self.other, name)
        if not (isinstance(left, Known) and isinstance(right, Known)):
            return
        yield from self._entries(name, left.value, right.value, only)

    def variables(self, names: Sequence[str]) -> Iterator[Evidence]:
        """Return the variables that differ, where both sides recorded theirs."""
        mine, theirs = variables(self.one), variables(self.other)
        if mine is not None and theirs is not None:
            yield from self._entries("variable", mine, theirs, names)

    def key(self, parts: Sequence[str]) -> Iterator[Evidence]:
        """Return the parts of the comparability keys that differ."""
        if self.one.fingerprint is None or self.other.fingerprint is None:
            return
        for part in parts:
            left = getattr(self.one.fingerprint.key, part)
            right = getattr(self.other.fingerprint.key, part)
            if left != right:
                yield self.evidence(part, left, right, "fingerprint key")

    def _entries(
        self,
        table: str,
        left: Mapping[str, Any],
        right: Mapping[str, Any],
        only: Sequence[str] | None,
    ) -> Iterator[Evidence]:
        names = sorted({*left, *right}) if only is None else only
        for name in names:
            if left.get(name) != right.get(name):
                shown = f"{table} {name}" if table == "variable" else f"{table}.{name}"
                source = "environment of the process" if table == "variable" else "facts"
                yield self.evidence(shown, left.get(name), right.get(name), source)


def _said(value: Any) -> str:
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, int):
        return f"{value:,}"
    if value == "":
        return "(empty)"
    plain = isinstance(value, str | float)
    return str(value) if plain else msgspec.json.encode(value).decode()

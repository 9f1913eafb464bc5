"""What a comparison says, as the parts that the page of a pair and of a team share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal

import msgspec

from envkit.model.documents import Cause, Diff, Difference
from envkit.model.package_change import change_of, count_changes
from envkit.render import diff_words as words
from envkit.render.html.table import Cell, Mark, Room, Table

VERDICTS: Final[Mapping[str, tuple[Mark, str, str]]] = {
    "same": ("good", "✔", "Same"),
    "different": ("bad", "✘", "Different"),
    "incomplete": ("unknown", "?", "Incomplete"),
}
Answer = Literal["same", "expected", "different", "not_comparable"]
ANSWERS: Final[Mapping[Answer, tuple[Mark, str]]] = {
    "same": ("good", "same"),
    "expected": ("warn", "different, as expected"),
    "different": ("bad", "different"),
    "not_comparable": ("unknown", "not comparable"),
}
_PAIR: Final = 2


class LayerAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """One layer of the answer."""

    name: str
    mark: Mark
    word: str
    why: str


def answer(
    agreement: Literal["same", "different", "not_comparable"], found: Iterable[Difference]
) -> Answer:
    """Return the answer of a layer, telling apart what hardware or driver explain."""
    if agreement == "different" and all(one.kind == "expected" for one in found):
        return "expected"
    return agreement


def vector(diff: Diff) -> Iterator[LayerAnswer]:
    """Yield the answer layer by layer; a layer that no input has says nothing."""
    for name, agreement in diff.agreement.items():
        comparable = diff.comparable[name]
        if not comparable.why.startswith("no input"):
            mark, word = ANSWERS[answer(agreement, words.ordered(diff, name))]
            why = f"comparable: {comparable.answer}, {comparable.why}"
            yield LayerAnswer(name=name, mark=mark, word=word, why=why)


def difference_tables(diff: Diff, room: Room) -> Iterator[Table]:
    """Yield a table for each layer in which something differs, the machine's own facts last."""
    for layer in (*diff.agreement, words.MACHINE):
        found = words.ordered(diff, layer)
        if found:
            yield (
                _packages(diff, found, room)
                if layer == "packages"
                else _layer(diff, layer, found, room)
            )


def _packages(diff: Diff, found: Sequence[Difference], room: Room) -> Table:
    counted = count_changes(diff.differences)
    caption = f"Packages: {counted}" if counted else "Packages"
    columns = ("package", *_columns(diff), "change")
    return room.table("differ-packages", caption, columns, [_package(diff, one) for one in found])


def _package(diff: Diff, one: Difference) -> list[Cell]:
    change = "differs"
    if len(one.values) == _PAIR and one.key != "platforms":
        change = change_of(*one.values)
    return [Cell(one.key), *_values(diff, one), Cell(change)]


def _layer(diff: Diff, layer: str, found: Sequence[Difference], room: Room) -> Table:
    if layer == words.MACHINE:
        caption = "Machine: shown, never compared"
        return room.table(
            "differ-machine",
            caption,
            ("fact", *_columns(diff)),
            [[Cell(one.key), *_values(diff, one)] for one in found],
        )
    columns = ("what", *_columns(diff), "class")
    rows = [[_key(one), *_values(diff, one), _class(one)] for one in found]
    return room.table(f"differ-{layer}", layer.capitalize(), columns, rows)


def _key(one: Difference) -> Cell:
    """Name what differs and, of a stream, where."""
    where = words.sentence(one)
    return Cell(f"{one.key}: {where}" if where else one.key)


def _class(one: Difference) -> Cell:
    return Cell("expected", "quiet") if one.kind == "expected" else Cell("unexpected", "bad")


def _columns(diff: Diff) -> tuple[str, ...]:
    return tuple(one.label for one in diff.inputs) if len(diff.inputs) == _PAIR else ("values",)


def _values(diff: Diff, one: Difference) -> Iterator[Cell]:
    if len(diff.inputs) != _PAIR:
        yield Cell(words.line(one))
        return
    for value in one.values:
        yield Cell(words.said(value))


def lost_table(diff: Diff, room: Room) -> Table:
    """Return what could not be compared, and why."""
    rows = [
        (Cell(one.layer), Cell(one.key), Cell(_reasons(diff, one.reasons)))
        for one in diff.cannot_compare
    ]
    return room.table("lost", "Could not be compared", ("layer", "what", "why"), rows)


def _reasons(diff: Diff, reasons: Sequence[str]) -> str:
    told = [
        f"{one.label}: {reason}" for one, reason in zip(diff.inputs, reasons, strict=True) if reason
    ]
    return "; ".join(told[:3]) + (f"; and {len(told) - 3} more" if len(told) > 3 else "")  # noqa: PLR2004


def is_claimed(cause: Cause) -> bool:
    """Whether it is said to be the cause, and not only named as possible."""
    return bool(cause.evidence) and cause.evidence[0].what == "cause"

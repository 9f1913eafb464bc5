"""The page of a team's machines: who agrees with whom, in what, and who is the outlier."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from envkit.model.documents import Cause, Diff
from envkit.render import diff_words as words
from envkit.render.html import differences
from envkit.render.html.engine import draw
from envkit.render.html.table import Cell, Room, Table

#: Worst last, so that sorting upwards ends with what to look at, and downwards begins with it.
_ORDER: Final = {"same": 0, "expected": 1, "not_comparable": 2, "different": 3}
#: Members of a group that are named.
MOST_MEMBERS: Final = 60
MOST_GROUPS: Final = 60
#: Causes of a group that are only possible.
MOST_POSSIBLE: Final = 2


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """One machine, held against the reference."""

    label: str
    device: str
    torch: str
    mem: str
    num: str
    group: int
    """1 is the largest."""
    answers: Mapping[str, differences.Answer]
    """By layer, against the reference."""


class Outlier(msgspec.Struct, frozen=True, kw_only=True):
    """A group that is not the largest, and what sets it apart."""

    number: int
    members: tuple[str, ...]
    layers: tuple[str, ...]
    """Layers in which it differs from the reference."""
    causes: tuple[Cause, ...]


def render_team(
    diff: Diff,
    notes: Sequence[str],
    *,
    members: Sequence[Member],
    outliers: Sequence[Outlier],
    reference: str,
) -> str:
    """Draw the page of three inputs or more.

    Args:
        diff: the document.
        notes: sentences about memory that the machines have room for.
        members: the inputs, in their order.
        outliers: groups beyond the first, and what sets them apart.
        reference: label of the machine that the others are held against, of the largest group.

    """
    room = Room()
    mark, sign, word = differences.VERDICTS[diff.verdict.status]
    return draw(
        "team.html",
        title=f"{word}: {len(members)} machines - envkit",
        sections=(("matrix", "Machines"), ("groups", "Groups"), ("differences", "Differences")),
        mark=mark,
        sign=sign,
        word=word,
        heading=f"{len(members)} machines",
        diff=diff,
        meta=(("held against", reference), ("groups", str(len(diff.groups)))),
        vector=tuple(differences.vector(diff)),
        matrix=_matrix(diff, members, room),
        reference=reference,
        majority=diff.groups[0] if diff.groups else (),
        outliers=[_most_telling(one) for one in outliers[:MOST_GROUPS]],
        more_outliers=max(0, len(outliers) - MOST_GROUPS),
        most_members=MOST_MEMBERS,
        is_claimed=differences.is_claimed,
        confirmation=words.confirmation,
        notes=notes,
        tables=tuple(differences.difference_tables(diff, room)),
        lost=differences.lost_table(diff, room),
    )


def _most_telling(outlier: Outlier) -> Outlier:
    """Keep what is claimed to be the cause; of what is only possible a few."""
    claimed = tuple(one for one in outlier.causes if differences.is_claimed(one))
    return msgspec.structs.replace(outlier, causes=claimed or outlier.causes[:MOST_POSSIBLE])


def _matrix(diff: Diff, members: Sequence[Member], room: Room) -> Table:
    layers = [one.name for one in differences.vector(diff)]
    columns = ("machine", "group", *layers, "device", "torch", "mem", "num")
    rows = [[*_named(one), *_answers(one, layers), *_described(one)] for one in members]
    return msgspec.structs.replace(
        room.table("matrix-table", "Machines and layers", columns, rows), is_filtered=True
    )


def _named(one: Member) -> Iterator[Cell]:
    yield Cell(one.label)
    yield Cell(str(one.group), sort=one.group)


def _described(one: Member) -> Iterator[Cell]:
    yield Cell(one.device)
    yield Cell(one.torch)
    yield Cell(one.mem, is_code=bool(one.mem))
    yield Cell(one.num, is_code=bool(one.num))


def _answers(one: Member, layers: Sequence[str]) -> Iterator[Cell]:
    for layer in layers:
        answer = one.answers[layer]
        mark, word = differences.ANSWERS[answer]
        yield Cell(word, mark, sort=_ORDER[answer], is_sign=True)

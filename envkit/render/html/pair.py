"""The page of two machines, or of any two things that can be compared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath, PureWindowsPath
from typing import Final

from envkit.allocator.workloads import workload_memory
from envkit.model.documents import Diff
from envkit.model.fingerprint import Fingerprint
from envkit.render import diff_words as words
from envkit.render.html import differences
from envkit.render.html.engine import draw
from envkit.render.html.figures import Drawing, overlaid_drawing
from envkit.render.html.table import Room

#: Workloads whose memory is drawn.
MOST_DRAWINGS: Final = 24


def render_pair(
    diff: Diff, notes: Sequence[str], fingerprints: Sequence[Fingerprint | None]
) -> str:
    """Draw the page of a comparison of two.

    Args:
        diff: the document.
        notes: sentences about memory that the machines have room for.
        fingerprints: those of the inputs, in their order.

    """
    mark, sign, word = differences.VERDICTS[diff.verdict.status]
    room = Room()
    labels = [one.label for one in diff.inputs]
    drawings = tuple(_drawings(labels, fingerprints))
    return draw(
        "pair.html",
        title=f"{word}: {' and '.join(labels)} - envkit",
        sections=tuple(_sections(diff, has_drawings=bool(drawings or notes))),
        mark=mark,
        sign=sign,
        word=word,
        heading=" and ".join(labels),
        diff=diff,
        meta=tuple((one.label, f"{one.kind} {_place(one.path)}") for one in diff.inputs),
        vector=tuple(differences.vector(diff)),
        is_claimed=differences.is_claimed,
        confirmation=words.confirmation,
        notes=notes,
        drawings=drawings,
        tables=tuple(differences.difference_tables(diff, room)),
        lost=differences.lost_table(diff, room),
    )


def _place(path: str) -> str:
    """Name an input; of a whole path the end only, for a page is passed on, folders are not."""
    place = next((p for p in (PurePosixPath(path), PureWindowsPath(path)) if p.is_absolute()), None)
    return path if place is None else place.name or path


def _sections(diff: Diff, *, has_drawings: bool) -> Iterator[tuple[str, str]]:
    yield "layers", "Answer"
    if diff.causes:
        yield "causes", "Causes"
    if has_drawings:
        yield "memory", "Memory"
    yield "differences", "Differences"


def _drawings(
    labels: Sequence[str], fingerprints: Sequence[Fingerprint | None]
) -> Iterator[Drawing]:
    measured = [
        {} if one is None else {memory.name: memory for memory in workload_memory(one)}
        for one in fingerprints
    ]
    common = [name for name in measured[0] if all(name in one for one in measured)]
    for number, name in enumerate(common[:MOST_DRAWINGS], 1):
        sides = [(label, one[name]) for label, one in zip(labels, measured, strict=True)]
        drawing = overlaid_drawing(name, sides, number)
        if drawing is not None:
            yield drawing

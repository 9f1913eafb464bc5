"""Segments of memory and what of them is used: every byte has its place in a block of rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final, Literal

import msgspec

from envkit.model.counted import counted
from envkit.render.svg.figure import WIDTH, Figure
from envkit.render.svg.markup import Markup, element, join, number
from envkit.render.svg.scale import short_bytes

ROWS: Final = 12
_LEFT: Final = 12
_COLUMNS: Final = WIDTH - 2 * _LEFT
_TOP: Final = 60
_ROW: Final = 20
_HEIGHT: Final = 16
#: Segments that are told one by one, largest first.
_MOST_NAMED: Final = 60

Shade = Literal["used", "mixed", "free"]


class MapSegment(msgspec.Struct, frozen=True, kw_only=True):
    """One segment; its blocks lie one behind the other."""

    label: str
    """What is said of it besides its sizes, such as its address."""
    blocks: tuple[tuple[int, bool], ...]
    """Bytes, and whether they are in use."""

    @property
    def size_bytes(self) -> int:
        """All of it."""
        return sum(size for size, _ in self.blocks)

    @property
    def used_bytes(self) -> int:
        """What is in use."""
        return sum(size for size, is_used in self.blocks if is_used)


def segment_map(
    segments: Sequence[MapSegment],
    *,
    name: str,
    title: str,
    description: str,
    row_bytes: int | None = None,
) -> Figure:
    """Draw the segments one behind the other, largest first, in rows of equally many bytes.

    Args:
        segments: all of one device.
        name: of the figure.
        title: of the figure.
        description: of the figure.
        row_bytes: bytes in a row; give the same to figures that are compared. By default such
            that everything fits into `ROWS` rows.

    """
    ordered = sorted(segments, key=lambda segment: -segment.size_bytes)
    total = sum(segment.size_bytes for segment in ordered)
    per_row = row_bytes or bytes_of_row(total)
    pixel = per_row / _COLUMNS
    rows = max(1, -(-total // per_row))
    shades = _shades(ordered, per_row)
    body = join(
        element("text", title, x=_LEFT, y=20, class_="head"),
        _key(per_row),
        *(_path(shade, runs) for shade, runs in _runs(shades).items()),
        _edges(ordered, pixel),
        *_hits(ordered[:_MOST_NAMED], pixel),
    )
    height = _TOP + _ROW * rows + 12
    return Figure(name=name, title=title, description=description, height=height, body=body)


def bytes_of_row(total: int) -> int:
    """Return how many bytes a row holds so that all fit into `ROWS` rows."""
    return max(1, -(-total // ROWS))


def _shades(segments: Sequence[MapSegment], per_row: int) -> list[Shade]:
    """Return for each pixel whether what falls into it is used, free, or some of both."""
    total = sum(segment.size_bytes for segment in segments)
    used = [0.0] * -(-total * _COLUMNS // per_row)
    filled = used.copy()
    done = 0
    for size, is_used in (block for segment in segments for block in segment.blocks):
        begin, done = done, done + size
        for column, share in _columns(begin * _COLUMNS / per_row, done * _COLUMNS / per_row):
            filled[column] += share
            used[column] += share if is_used else 0
    return [_shade(part / all_ if all_ else 0) for part, all_ in zip(used, filled, strict=True)]


def _columns(begin: float, end: float) -> Iterator[tuple[int, float]]:
    """Yield the columns that a stretch touches, and how much of each it covers."""
    column = int(begin)
    while column < end:
        yield column, min(end, column + 1) - max(begin, column)
        column += 1


def _shade(share: float) -> Shade:
    if share > 0.999:  # noqa: PLR2004  (sums of fractions)
        return "used"
    return "mixed" if share > 0.001 else "free"  # noqa: PLR2004


def _runs(shades: Sequence[Shade]) -> dict[Shade, list[tuple[int, int]]]:
    """Return, by shade, (first column, columns) of equal neighbours."""
    runs: dict[Shade, list[tuple[int, int]]] = {"free": [], "mixed": [], "used": []}
    at = 0
    for shade, group in groupby(shades):
        length = sum(1 for _ in group)
        runs[shade].append((at, length))
        at += length
    return runs


def _pieces(first: float, length: float) -> Iterator[tuple[float, int, float]]:
    """Yield (x, y, width) of a stretch, cut where a row ends."""
    while length > 1e-9:  # noqa: PLR2004
        row, column = divmod(first, _COLUMNS)
        width = min(length, _COLUMNS - column)
        yield _LEFT + column, _TOP + _ROW * int(row), width
        first, length = first + width, length - width


def _path(shade: Shade, runs: Sequence[tuple[int, int]]) -> Markup:
    pieces = (piece for first, length in runs for piece in _pieces(first, length))
    path = "".join(f"M{x:.0f} {y}h{width:.0f}v{_HEIGHT}h-{width:.0f}z" for x, y, width in pieces)
    return element("path", d=path, class_=shade)


def _edges(segments: Sequence[MapSegment], pixel: float) -> Markup:
    """Draw where a segment ends, as long as the ends can be told apart."""
    at, path = 0.0, []
    for segment in segments:
        width = segment.size_bytes / pixel
        at += width
        if width >= 3:  # noqa: PLR2004
            row, column = divmod(at - 0.01, _COLUMNS)  # at the end of its row, not before the next
            path.append(f"M{number(_LEFT + column)} {_TOP + _ROW * int(row) - 1}v{_HEIGHT + 2}")
    return element("path", d="".join(path), class_="edge")


def _hits(segments: Sequence[MapSegment], pixel: float) -> Iterator[Markup]:
    at = 0.0
    for segment in segments:
        width = segment.size_bytes / pixel
        said = (
            f"{segment.label}: {short_bytes(segment.size_bytes)}, "
            f"{short_bytes(segment.used_bytes)} used, {counted(len(segment.blocks), 'block')}"
        )
        rects = (
            element("rect", x=x, y=y, width=w, height=_HEIGHT, class_="hit")
            for x, y, w in _pieces(at, width)
        )
        yield element("g", element("title", said), *rects)
        at += width


def _key(per_row: int) -> Markup:
    parts, left = [], _LEFT
    for shade, word in (
        ("used", "in use"),
        ("mixed", "some of both"),
        ("free", "free, still reserved"),
    ):
        parts += [
            element("rect", x=left, y=34, width=14, height=12, class_=shade),
            element("text", word, x=left + 20, y=44),
        ]
        left += 40 + 7 * len(word)
    scale = f"a row is {short_bytes(per_row)}; upright lines: where a segment ends"
    return join(*parts, element("text", scale, x=WIDTH - _LEFT, y=44, class_="soft end"))

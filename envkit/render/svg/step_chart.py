"""Values that stay until they change, over events or time: axes, lines, marks, a limit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from envkit.model.thinning import thin
from envkit.render.svg.figure import WIDTH, Figure
from envkit.render.svg.markup import Markup, element, join, number
from envkit.render.svg.scale import Scale, byte_ticks, count_ticks, short_bytes, short_count

#: Place of the plot in the figure, in pixels.
LEFT, RIGHT = 76, WIDTH - 16
_TOP: Final = 46  # and the legend's rows
_LEGEND_ROW: Final = 18
_PLOT_HEIGHT: Final = 260
_BELOW: Final = 44
_STYLES: Final = 6
_CHARACTER: Final = 6.6  # pixels of a character, about
_MOST_CHARACTERS: Final = 44


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One series; any length."""

    name: str
    ys: Sequence[float]
    xs: Sequence[float] | None = None
    """Ascending; None: 0, 1, 2 ..."""


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """An upright line with a word."""

    x: float
    label: str
    is_bad: bool = False
    """Drawn as what ended the run."""


class StepChart(msgspec.Struct, frozen=True, kw_only=True):
    """What is drawn."""

    name: str
    title: str
    description: str
    lines: Sequence[Line]
    x_label: str
    y_label: Callable[[float], str] = short_bytes
    marks: Sequence[Mark] = ()
    limit: tuple[float, str] | None = None
    """A level that cannot be passed, and its name."""


def step_chart(chart: StepChart) -> Figure:
    """Draw it; lines are thinned to what can be seen, peaks stay."""
    xs = [x for line in chart.lines if line.ys for x in _ends(line)]
    xs += [mark.x for mark in chart.marks]
    highest = max((max(line.ys) for line in chart.lines if line.ys), default=0)
    if chart.limit is not None:
        highest = max(highest, chart.limit[0])
    ticks = byte_ticks(highest)
    legend = _legend(chart.lines)
    top = _TOP + _LEGEND_ROW * len(legend)
    bottom = top + _PLOT_HEIGHT
    x = Scale(low=min(xs, default=0), high=max(xs, default=1), start=LEFT, end=RIGHT)
    y = Scale(low=0, high=ticks[-1], start=bottom, end=top)
    body = join(
        element("text", chart.title, x=LEFT, y=20, class_="head"),
        *legend,
        *(_level(y(tick), chart.y_label(tick)) for tick in ticks),
        *(_tick(x(tick), bottom, short_count(tick)) for tick in count_ticks(x.low, x.high)),
        element("text", chart.x_label, x=RIGHT, y=bottom + 34, class_="soft end"),
        *(_line(line, at, x, y) for at, line in enumerate(chart.lines) if line.ys),
        *(_mark(mark, at, x, y) for at, mark in enumerate(chart.marks)),
        _limit(chart.limit, y) if chart.limit else Markup(),
    )
    return Figure(
        name=chart.name,
        title=chart.title,
        description=chart.description,
        height=bottom + _BELOW,
        body=body,
    )


def step_path(xs: Sequence[float], ys: Sequence[float], x: Scale, y: Scale) -> str:
    """Return the `d` of a path through the points that can be seen, in whole columns."""
    parts: list[str] = []
    last: tuple[int, str] | None = None
    for at in thin(xs, ys, int(abs(x.end - x.start))):
        right, up = round(x(xs[at])), number(y(ys[at]))
        if last is None:
            parts.append(f"M{right} {up}")
        else:
            parts += [f"H{right}"] if right != last[0] else []
            parts += [f"V{up}"] if up != last[1] else []
        last = (right, up)
    return "".join(parts)


def shortened(text: str, most: int = _MOST_CHARACTERS) -> str:
    """Return a label that fits; its end says most."""
    return text if len(text) <= most else f"…{text[-most + 1 :]}"


def _ends(line: Line) -> tuple[float, float]:
    return (0, len(line.ys) - 1) if line.xs is None else (line.xs[0], line.xs[-1])


def _line(line: Line, at: int, x: Scale, y: Scale) -> Markup:
    xs = range(len(line.ys)) if line.xs is None else line.xs
    path = step_path(xs, line.ys, x, y)
    name = element("title", line.name)
    return element("path", name, d=path, class_=f"line s{at % _STYLES}")


def _legend(lines: Sequence[Line]) -> list[Markup]:
    """Return the rows."""
    rows: list[list[str]] = []
    left = float(WIDTH)
    for at, line in enumerate(lines):
        name = shortened(line.name)
        if left + 32 + len(name) * _CHARACTER > RIGHT:
            rows.append([])
            left = LEFT
        y = 40 + _LEGEND_ROW * (len(rows) - 1)
        rows[-1] += [
            element("path", d=f"M{number(left)} {y}h26", class_=f"line s{at % _STYLES}"),
            element("text", name, x=left + 32, y=y + 4),
        ]
        left += 32 + len(name) * _CHARACTER + 20
    return [join(*row) for row in rows]


def _level(y: float, label: str) -> Markup:
    return join(
        element("path", d=f"M{LEFT} {number(y)}H{RIGHT}", class_="rule"),
        element("text", label, x=LEFT - 8, y=y + 4, class_="soft end"),
    )


def _tick(x: float, bottom: int, label: str) -> Markup:
    return join(
        element("path", d=f"M{number(x)} {bottom}v5", class_="rule"),
        element("text", label, x=x, y=bottom + 18, class_="soft middle"),
    )


def _mark(mark: Mark, at: int, x: Scale, y: Scale) -> Markup:
    place = x(mark.x)
    to_the_left = place > (LEFT + RIGHT) / 2
    kind = "bad" if mark.is_bad else "mark"
    return join(
        element("path", d=f"M{number(place)} {number(y.end)}V{number(y.start)}", class_=kind),
        element(
            "text",
            shortened(mark.label, 60),
            x=place - 5 if to_the_left else place + 5,
            y=y.start - 8 - 16 * (at % 6),
            class_=("bad " if mark.is_bad else "") + ("end" if to_the_left else ""),
        ),
    )


def _limit(limit: tuple[float, str], y: Scale) -> Markup:
    at = y(limit[0])
    return join(
        element("path", d=f"M{LEFT} {number(at)}H{RIGHT}", class_="bad"),
        element("text", shortened(limit[1]), x=RIGHT, y=at - 4, class_="bad end"),
    )

"""Named amounts as bars, one below the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from envkit.render.svg.figure import WIDTH, Figure
from envkit.render.svg.markup import Markup, element, join
from envkit.render.svg.scale import Scale, short_bytes
from envkit.render.svg.step_chart import shortened

_LEFT: Final = 330
_RIGHT: Final = WIDTH - 170
_TOP: Final = 36
_ROW: Final = 22


class Bar(msgspec.Struct, frozen=True, kw_only=True):
    """One amount."""

    label: str
    value: float
    """Not negative."""
    note: str = ""
    """Said beside the value."""


def bar_chart(
    bars: Sequence[Bar],
    *,
    name: str,
    title: str,
    description: str,
    value_label: Callable[[float], str] = short_bytes,
) -> Figure:
    """Draw bars from 0 on, in the order given."""
    scale = Scale(low=0, high=max((bar.value for bar in bars), default=0), start=0.0,
                  end=float(_RIGHT - _LEFT))  # fmt: skip
    rows = (
        _row(bar, _TOP + _ROW * at, scale(bar.value) if bar.value else 0.0, value_label(bar.value))
        for at, bar in enumerate(bars)
    )
    return Figure(
        name=name,
        title=title,
        description=description,
        height=_TOP + _ROW * len(bars) + 12,
        body=join(element("text", title, x=12, y=20, class_="head"), *rows),
    )


def _row(bar: Bar, top: int, length: float, said: str) -> Markup:
    return element(
        "g",
        element("title", f"{bar.label}: {said} {bar.note}".rstrip()),
        element("text", shortened(bar.label), x=_LEFT - 8, y=top + 15, class_="end"),
        element("rect", x=_LEFT, y=top + 3, width=length, height=_ROW - 6, class_="bar"),
        element("text", f"{said} {bar.note}".rstrip(), x=_LEFT + length + 6, y=top + 15,
                class_="soft"),
    )  # fmt: skip

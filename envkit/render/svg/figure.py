"""A finished figure, and how several make one picture or one page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from envkit.render.svg.markup import Markup, element, join
from envkit.render.svg.theme import STYLE

#: Of every figure, in pixels of its own; shown as wide as there is room.
WIDTH: Final = 960
_SVG: Final = "http://www.w3.org/2000/svg"


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """A drawing of `WIDTH` by `height` with what a screen reader says of it."""

    name: str
    """Unique on a page, such as `gpu0-memory`: letters, digits, hyphens."""
    title: str
    description: str
    """What is to be seen, in a sentence or two, figures included."""
    height: int
    body: str
    """Markup."""

    def svg(self, *, top: int | None = None, style: str = "") -> Markup:
        """Return the `<svg>` element.

        Args:
            top: where it stands in the outer picture; None: it is the outermost.
            style: rules that it brings along; a page has them once, in its head.

        """
        placed = {"y": top, "width": WIDTH, "height": self.height} if top is not None else {}
        return element(
            "svg",
            element("title", self.title, id=f"{self.name}-title"),
            element("desc", self.description, id=f"{self.name}-desc"),
            element("style", Markup(style)) if style else Markup(),
            Markup(self.body),
            xmlns=_SVG,
            viewBox=f"0 0 {WIDTH} {self.height}",
            class_="figure",
            role="img",
            aria_labelledby=f"{self.name}-title {self.name}-desc",
            **placed,
        )


def stacked(figures: Sequence[Figure], *, title: str) -> str:
    """Return an SVG file with the figures one below the other."""
    tops = [sum(figure.height for figure in figures[:at]) for at in range(len(figures) + 1)]
    height = tops.pop()
    return (
        element(
            "svg",
            element("title", title),
            element("style", Markup(STYLE)),
            element("rect", width=WIDTH, height=height, class_="paper"),
            join(*(figure.svg(top=top) for figure, top in zip(figures, tops, strict=True))),
            xmlns=_SVG,
            viewBox=f"0 0 {WIDTH} {height}",
            width=WIDTH,
            height=height,
            class_="figure",
        )
        + "\n"
    )

"""Figures as static SVG: values in, text out; no script, nothing loaded from elsewhere.

`step_chart`, `bar_chart` and `segment_map` give a `Figure`; `Figure.svg()` goes into a page whose
head has `STYLE`, `stacked` makes a file of its own. Why not a library: decision 11.
"""

from envkit.render.svg.bar_chart import Bar, bar_chart
from envkit.render.svg.figure import WIDTH, Figure, stacked
from envkit.render.svg.markup import Markup, element, join
from envkit.render.svg.scale import short_bytes, short_count
from envkit.render.svg.segment_map import MapSegment, bytes_of_row, segment_map
from envkit.render.svg.step_chart import Line, Mark, StepChart, step_chart
from envkit.render.svg.theme import STYLE

__all__ = [
    "STYLE",
    "WIDTH",
    "Bar",
    "Figure",
    "Line",
    "MapSegment",
    "Mark",
    "Markup",
    "StepChart",
    "bar_chart",
    "bytes_of_row",
    "element",
    "join",
    "segment_map",
    "short_bytes",
    "short_count",
    "stacked",
    "step_chart",
]

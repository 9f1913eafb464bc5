"""Figures of a fingerprint: the memory of each workload, and the holes of an exercise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
from markupsafe import Markup

from envkit.allocator.config import ConfigError
from envkit.allocator.snapshot import Segment
from envkit.allocator.workloads import Moment, WorkloadMemory, moments
from envkit.model.counted import counted
from envkit.model.fingerprint import Fingerprint
from envkit.render.svg import (
    Figure,
    Line,
    MapSegment,
    Mark,
    StepChart,
    segment_map,
    short_bytes,
    step_chart,
)

CHECKERBOARD: Final = "exercises.checkerboard"
_MOMENTS: Final = 3


class Drawing(msgspec.Struct, frozen=True, kw_only=True):
    """A figure with the sentence below it."""

    title: str
    svg: Markup
    caption: str


def workload_drawing(memory: WorkloadMemory, number: int) -> Drawing | None:
    """Draw what one workload held; None where there is no curve."""
    curve = memory.curve
    if curve is None or not curve.allocated_bytes:
        return None
    peak = curve.allocated_bytes[curve.peak_at]
    lines = [Line(name="allocated", ys=curve.allocated_bytes)]
    if curve.reserved_bytes:
        lines.append(Line(name="reserved", ys=curve.reserved_bytes))
    reserved = f", reserved up to {short_bytes(max(curve.reserved_bytes))}" if lines[1:] else ""
    description = (
        f"Memory over {len(curve.allocated_bytes):,} requests: allocated up to "
        f"{short_bytes(peak)} at request {curve.peak_at + 1:,}{reserved}."
    )
    chart = StepChart(
        name=f"memory-{number}",
        title=memory.name,
        description=description,
        lines=lines,
        x_label="requests to the allocator, in order",
        marks=[Mark(x=curve.peak_at, label=f"peak {short_bytes(peak)}")],
    )
    return drawing(step_chart(chart), _caption(memory, peak))


def _caption(memory: WorkloadMemory, peak: int) -> str:
    said = f"{memory.name}: the recorded requests, answered by envkit's model of the allocator."
    if memory.reason:
        said += f" {memory.reason.capitalize()}."
    measured = memory.measured.get("allocated_bytes")
    if measured is None:
        return said
    if measured == peak:
        return f"{said} Its peak is the measured one, to the byte."
    return (
        f"{said} It comes to a peak of {peak:,} B; measured were {measured:,} B "
        "(a report does not keep the order of some requests)."
    )


def overlaid_drawing(
    name: str, sides: Sequence[tuple[str, WorkloadMemory]], number: int
) -> Drawing | None:
    """Draw what one workload held on several machines; None where fewer than two have a curve."""
    found = [(label, one.curve) for label, one in sides if one.curve and one.curve.allocated_bytes]
    if len(found) < 2:  # noqa: PLR2004
        return None
    lines, said = [], []
    for label, curve in found:
        lines.append(Line(name=f"{label}: allocated", ys=curve.allocated_bytes))
        if curve.reserved_bytes:
            lines.append(Line(name=f"{label}: reserved", ys=curve.reserved_bytes))
        said.append(f"{label} up to {short_bytes(max(curve.allocated_bytes))}")
    chart = StepChart(
        name=f"memory-{number}",
        title=name,
        description=f"Memory of {name} on both: allocated on {', on '.join(said)}.",
        lines=lines,
        x_label="requests to the allocator, in order",
    )
    first = found[0][1]
    alike = all(curve == first for _, curve in found[1:])
    both = any(curve.reserved_bytes for _, curve in found)
    held = "allocated and reserved" if both else "allocated"
    caption = f"{name}: {held} over the step, on both machines."
    if alike:
        caption += " The curves are the same at every request, so they lie on each other."
    return drawing(step_chart(chart), caption)


def checkerboard_drawings(fingerprint: Fingerprint) -> tuple[Drawing, ...]:
    """Draw the segments of the checkerboard exercise: filled, with holes, and after more requests.

    Empty where it was not recorded or is not modelled.
    """
    try:
        found = moments(fingerprint, CHECKERBOARD)[:_MOMENTS]
    except (ConfigError, ValueError):
        return ()
    row = max((s["total_size"] for one in found for s in one.segments), default=0)
    return tuple(_moment(one, number, row) for number, one in enumerate(found, 1))


def _moment(moment: Moment, number: int, row_bytes: int) -> Drawing:
    verb = {"malloc": "allocations", "free": "frees"}.get(moment.last, moment.last)
    title = f"{number}. After {moment.count} {verb}"
    segments = [MapSegment(label="segment", blocks=tuple(_blocks(one))) for one in moment.segments]
    reserved = sum(segment.size_bytes for segment in segments)
    used = sum(segment.used_bytes for segment in segments)
    holes = [size for one in segments for size, is_used in one.blocks if not is_used]
    description = (
        f"{counted(len(segments), 'segment')}, {short_bytes(reserved)} reserved, "
        f"{short_bytes(used)} in use, {counted(len(holes), 'free piece')}, "
        f"the largest of {short_bytes(max(holes, default=0))}."
    )
    figure = segment_map(
        segments,
        name=f"checkerboard-{number}",
        title=title,
        description=description,
        row_bytes=row_bytes or None,
    )
    return drawing(figure, description)


def _blocks(segment: Segment) -> Iterator[tuple[int, bool]]:
    for block in segment["blocks"]:
        yield block["size"], block["state"] != "inactive"


def drawing(figure: Figure, caption: str) -> Drawing:
    """Make a figure one of a page, with the sentence below it."""
    # The figures escape every text that they are given (envkit.render.svg.markup).
    svg = Markup(figure.svg())  # noqa: S704
    return Drawing(title=figure.title, svg=svg, caption=caption)

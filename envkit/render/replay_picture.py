"""A replayed memory snapshot as figures: memory over the events, the segments, what was alive."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from envkit.allocator.course import Course, Moment
from envkit.model.counted import counted
from envkit.model.documents import Replay, ReplayDevice, ReplaySetting
from envkit.render.replay_words import blocks, conf_name, headline, size_text
from envkit.render.svg import (
    Bar,
    Figure,
    Line,
    MapSegment,
    Mark,
    StepChart,
    bar_chart,
    bytes_of_row,
    segment_map,
    stacked,
    step_chart,
)

#: Curves in one chart: allocated, and reserved under so many settings.
_MOST_SETTINGS: Final = 5
_MOST_MARKS: Final = 20


def render_replay_svg(document: Replay, courses: Sequence[Sequence[Course]]) -> str:
    """Return one picture with the figures of every device.

    Args:
        document: the answers.
        courses: for each device, for each of its settings.

    """
    every = zip(document.devices, courses, strict=True)
    figures = [figure for device, own in every for figure in figures_of(device, own)]
    return stacked(figures, title=f"Memory of {document.source}")


def figures_of(device: ReplayDevice, courses: Sequence[Course]) -> Iterator[Figure]:
    """Yield the figures of a device.

    Args:
        device: the answers.
        courses: for each of its settings, in the same order.

    """
    yield _over_events(device, courses)
    yield from _maps(device, courses)
    if device.peak:
        yield _alive(device)


def best_other(device: ReplayDevice) -> int | None:
    """Return the place of the setting that would have needed least and fits, if it is better."""
    recorded = device.settings[0]
    fitting = [at for at, one in enumerate(device.settings)
               if at and one.ran_out_at_event is None]  # fmt: skip
    best = min(fitting, key=lambda at: device.settings[at].peak_reserved_bytes, default=None)
    if best is None or recorded.ran_out_at_event is not None:
        return best
    less = device.settings[best].peak_reserved_bytes < recorded.peak_reserved_bytes
    return best if less else None


def _over_events(device: ReplayDevice, courses: Sequence[Course]) -> Figure:
    recorded = courses[0]
    shown = list(zip(device.settings, courses, strict=True))[:_MOST_SETTINGS]
    lines = [Line(name="allocated", xs=recorded.events, ys=recorded.allocated_bytes)]
    lines += [
        Line(name=f"reserved, {_label(setting)}", xs=course.events, ys=course.reserved_bytes)
        for setting, course in shown
    ]
    room = device.settings[0].total_memory_bytes
    return step_chart(
        StepChart(
            name=f"gpu{device.index}-memory",
            title=f"GPU {device.index}: memory over {device.events:,} recorded events",
            description=f"{headline(device)} {_peaks_said(device)}",
            lines=lines,
            x_label="recorded event",
            marks=[*_peak_mark(device), *_oom_marks(device, courses)],
            limit=(room, f"what torch could have: {size_text(room)}") if room else None,
        )
    )


def _peaks_said(device: ReplayDevice) -> str:
    said = (f"{_label(s)}: {size_text(s.peak_reserved_bytes)}" for s in device.settings)
    return f"Peaks of reserved memory: {'; '.join(said)}."


def _label(setting: ReplaySetting) -> str:
    return f"{conf_name(setting)} (recorded)" if setting.is_recorded else conf_name(setting)


def _peak_mark(device: ReplayDevice) -> Iterator[Mark]:
    if device.peak_at_event is not None:
        most = size_text(device.settings[0].peak_allocated_bytes)
        yield Mark(x=device.peak_at_event, label=f"peak: {most} allocated")


def _oom_marks(device: ReplayDevice, courses: Sequence[Course]) -> Iterator[Mark]:
    recorded = device.proof.ooms > 0
    for setting, course in zip(device.settings[:_MOST_SETTINGS], courses, strict=False):
        happened = setting.is_recorded and recorded
        said = "out of memory" if happened else f"would run out: {conf_name(setting)}"
        for at, event in enumerate(course.ooms[:_MOST_MARKS]):
            yield Mark(x=event, label="" if at else said, is_bad=True)


def _maps(device: ReplayDevice, courses: Sequence[Course]) -> Iterator[Figure]:
    """Yield the segments at the recorded moments, then of the best setting at the last of them."""
    moments = [(0, moment) for moment in courses[0].moments]
    best = best_other(device)
    if best is not None and courses[best].moments:
        moments.append((best, courses[best].moments[-1]))
    totals = [sum(s.size_bytes for s in _segments(moment)) for _, moment in moments]
    per_row = bytes_of_row(max(totals, default=1))
    for number, (at, moment) in enumerate(moments):
        when = _when(device, courses[0], moment)
        yield segment_map(
            _segments(moment),
            name=f"gpu{device.index}-segments{number}",
            title=f"Segments {when}: {_label(device.settings[at])}",
            description=_said(_segments(moment)),
            row_bytes=per_row,
        )


def _said(segments: Sequence[MapSegment]) -> str:
    total = sum(segment.size_bytes for segment in segments)
    used = sum(segment.used_bytes for segment in segments)
    free = max((size for s in segments for size, is_used in s.blocks if not is_used), default=0)
    return (
        f"{counted(len(segments), 'segment')}, {size_text(total)} reserved, {size_text(used)} of "
        f"it in use; the largest free block is {size_text(free)}."
    )


def _when(device: ReplayDevice, recorded: Course, moment: Moment) -> str:
    words = "when most was reserved"
    if moment.event == device.peak_at_event:
        words = "when most was allocated"
    elif moment.event in recorded.ooms:
        words = "when memory ran out"
    return f"{words} (event {moment.event:,})"


def _segments(moment: Moment) -> list[MapSegment]:
    return [
        MapSegment(label=f"at {segment.address:#x}, stream {segment.stream}", blocks=segment.blocks)
        for segment in moment.segments
    ]


def _alive(device: ReplayDevice) -> Figure:
    bars = [
        Bar(label=group.where, value=group.size_bytes, note=f"({blocks(group.blocks)})")
        for group in device.peak
    ]
    first = device.peak[0]
    return bar_chart(
        bars,
        name=f"gpu{device.index}-alive",
        title="Alive when most was allocated",
        description=f"Most of it: {first.where}, {size_text(first.size_bytes)}.",
    )

"""The page of a replayed memory snapshot: its figures, and their numbers as tables."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from envkit.allocator.course import Course
from envkit.model.documents import Replay, ReplayDevice, ReplaySetting
from envkit.render.html.engine import draw
from envkit.render.html.figures import Drawing, drawing
from envkit.render.html.table import Cell, Room, Table
from envkit.render.replay_picture import figures_of
from envkit.render.replay_words import (
    blocks,
    conf_name,
    headline,
    proof_sentence,
    size_text,
)
from envkit.render.svg import short_bytes


class _Device(msgspec.Struct, frozen=True, kw_only=True):
    """What the page says of one device."""

    name: str
    title: str
    headline: str
    proof: str
    settings: Table
    drawings: tuple[Drawing, ...]
    peak: Table


def render_replay_html(document: Replay, courses: Sequence[Sequence[Course]]) -> str:
    """Return a page with the figures of every device and their numbers as tables.

    Args:
        document: the answers.
        courses: for each device, for each of its settings.

    """
    devices = tuple(
        _device(device, own) for device, own in zip(document.devices, courses, strict=True)
    )
    return draw(
        "replay.html",
        title=f"Memory of {document.source}",
        sections=tuple((one.name, one.title) for one in devices),
        devices=devices,
    )


def _device(device: ReplayDevice, courses: Sequence[Course]) -> _Device:
    name = f"gpu{device.index}"
    return _Device(
        name=name,
        title=f"GPU {device.index}",
        headline=headline(device),
        proof=proof_sentence(device),
        settings=_settings(device, name),
        drawings=tuple(
            drawing(figure, figure.description) for figure in figures_of(device, courses)
        ),
        peak=_peak(device, name),
    )


def _settings(device: ReplayDevice, name: str) -> Table:
    columns = ("Settings", "Reserved", "Allocated", "Fragmentation", "Cache flushes", "End")
    rows = (_row(setting) for setting in device.settings)
    return Room().table(f"{name}-settings", "Settings", columns, rows)


def _row(setting: ReplaySetting) -> tuple[Cell, ...]:
    sizes = (
        setting.peak_reserved_bytes,
        setting.peak_allocated_bytes,
        setting.fragmentation_bytes,
    )
    return (
        Cell(conf_name(setting) + (" (recorded)" if setting.is_recorded else "")),
        *(Cell(size_text(size), sort=size) for size in sizes),
        Cell(str(setting.retries), sort=setting.retries),
        _end(setting),
    )


def _end(setting: ReplaySetting) -> Cell:
    room = setting.total_memory_bytes
    limit = f" {size_text(room)}" if room is not None else ""
    if setting.ran_out_at_event is not None:
        of = f" of{limit}" if limit else ""
        return Cell(f"runs out{of} at event {setting.ran_out_at_event:,}", "bad")
    return Cell(f"fits in{limit}", "good") if limit else Cell("no limit", "quiet")


def _peak(device: ReplayDevice, name: str) -> Table:
    rows = (
        (
            Cell(group.where),
            Cell(short_bytes(group.size_bytes), sort=group.size_bytes),
            Cell(blocks(group.blocks), sort=group.blocks),
        )
        for group in device.peak
    )
    return Room().table(
        f"{name}-peak", "Where the peak comes from", ("Where", "Bytes", "Blocks"), rows
    )

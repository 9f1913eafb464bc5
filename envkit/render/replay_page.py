"""A replayed memory snapshot as an SVG file or an HTML page that loads nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from envkit import __version__
from envkit.allocator.course import Course
from envkit.model.documents import Replay, ReplayDevice, ReplaySetting
from envkit.render.replay_picture import figures_of
from envkit.render.replay_words import (
    blocks,
    conf_name,
    headline,
    proof_sentence,
    size_text,
)
from envkit.render.svg import STYLE, Markup, element, join, short_bytes, stacked

#: Even if something slipped through, a browser would neither run nor fetch anything.
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"
_PAGE: Final = """\
:root{color-scheme:light dark}
body{margin:0 auto;max-width:1000px;padding:16px;font:15px/1.5 system-ui,sans-serif;
background:#fff;color:#1b1f24}
@media(prefers-color-scheme:dark){body{background:#0d1117;color:#e6edf3}}
h1{font-size:22px}h2{font-size:18px}
.lead{font-weight:600}
svg{display:block;width:100%;height:auto;margin:16px 0}
table{border-collapse:collapse;margin:12px 0;width:100%}
caption{text-align:left;font-weight:600}
th,td{text-align:left;padding:4px 10px 4px 0;border-bottom:1px solid #8884;vertical-align:top;
overflow-wrap:anywhere}
"""


def render_replay_svg(document: Replay, courses: Sequence[Sequence[Course]]) -> str:
    """Return one picture with the figures of every device.

    Args:
        document: the answers.
        courses: for each device, for each of its settings.

    """
    every = zip(document.devices, courses, strict=True)
    figures = [figure for device, own in every for figure in figures_of(device, own)]
    return stacked(figures, title=f"Memory of {document.source}")


def render_replay_html(document: Replay, courses: Sequence[Sequence[Course]]) -> str:
    """Return a page with the figures of every device and their numbers as tables."""
    title = f"Memory of {document.source}"
    head = element(
        "head",
        Markup('<meta charset="utf-8"><meta name="viewport" content="width=device-width">'),
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'),
        element("title", title),
        element("style", Markup(_PAGE + STYLE)),
    )
    sections = (
        _section(device, own) for device, own in zip(document.devices, courses, strict=True)
    )
    foot = element("footer", element("p", f"envkit {__version__}, memory replay"))
    body = element("body", element("main", element("h1", title), *sections), foot)
    return f"<!doctype html>\n{element('html', head, body, lang='en')}\n"


def _section(device: ReplayDevice, courses: Sequence[Course]) -> Markup:
    first, *others = (figure.svg() for figure in figures_of(device, courses))
    return element(
        "section",
        element("h2", f"GPU {device.index}"),
        element("p", headline(device), class_="lead"),
        element("p", f"Proof: {proof_sentence(device)}"),
        first,
        _settings(device),
        *others,
        _peak(device) if device.peak else Markup(),
    )


def _settings(device: ReplayDevice) -> Markup:
    names = ("Settings", "Reserved", "Allocated", "Fragmentation", "Cache flushes", "")
    return _table("Settings", names, [_row(setting) for setting in device.settings])


def _row(setting: ReplaySetting) -> tuple[str, ...]:
    return (
        conf_name(setting) + (" (recorded)" if setting.is_recorded else ""),
        size_text(setting.peak_reserved_bytes),
        size_text(setting.peak_allocated_bytes),
        size_text(setting.fragmentation_bytes),
        str(setting.retries),
        _end(setting),
    )


def _end(setting: ReplaySetting) -> str:
    room = setting.total_memory_bytes
    limit = f" {size_text(room)}" if room is not None else ""
    if setting.ran_out_at_event is not None:
        return f"runs out{' of' if limit else ''}{limit} at event {setting.ran_out_at_event:,}"
    return f"fits in{limit}" if limit else ""


def _peak(device: ReplayDevice) -> Markup:
    rows = [(g.where, short_bytes(g.size_bytes), blocks(g.blocks)) for g in device.peak]
    return _table("Where the peak comes from", ("Where", "Bytes", "Blocks"), rows)


def _table(caption: str, names: Sequence[str], rows: Sequence[Sequence[str]]) -> Markup:
    head = element("tr", *(element("th", name, scope="col") for name in names))
    lines = (element("tr", *(element("td", cell) for cell in row)) for row in rows)
    return element(
        "table",
        element("caption", caption),
        element("thead", head),
        element("tbody", join(*lines)),
    )

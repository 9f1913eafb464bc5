"""A replayed memory snapshot as text for a terminal."""

from __future__ import annotations

from typing import Final

from envkit.model.documents import Replay, ReplayDevice, ReplaySetting
from envkit.render.page import Page
from envkit.render.replay_words import (
    blocks,
    conf_name,
    figures,
    headline,
    proof_sentence,
    size_text,
)
from envkit.render.style import Style

_MOST_GROUPS: Final = 8


def render_replay_text(document: Replay, style: Style) -> str:
    """Draw each device: what follows, the proof, the settings, what was alive at the peak."""
    page = Page(style)
    for index, device in enumerate(document.devices):
        if index:
            page.blank()
        _draw(page, device)
    return page.text()


def _draw(page: Page, device: ReplayDevice) -> None:
    page.paragraph((f"GPU {device.index}  ", "bold"), (headline(device), "bold"))
    page.line("  proof: ", proof_sentence(device))
    if page.style.verbosity < 0:
        return
    rows = ((_name(setting), figures(setting)) for setting in device.settings)
    page.table("Settings", rows)
    most = len(device.peak) if page.style.verbosity > 0 else _MOST_GROUPS
    groups = ((size_text(group.size_bytes), f"{group.where} ({blocks(group.blocks)})")
              for group in device.peak[:most])  # fmt: skip
    page.table("Alive when most was allocated", groups)


def _name(setting: ReplaySetting) -> str:
    return f"  {conf_name(setting)}" + (" (recorded)" if setting.is_recorded else "")

"""A replayed memory snapshot as text for a terminal."""

from __future__ import annotations

from typing import Final

from envkit.model.documents import Replay, ReplayDevice, ReplaySetting
from envkit.render.page import Page
from envkit.render.style import Style

_MOST_GROUPS: Final = 8
_GIB: Final = 1 << 30
_MIB: Final = 1 << 20


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
    page.line("  proof: ", _proof(device))
    if page.style.verbosity < 0:
        return
    rows = ((_name(setting), _figures(setting)) for setting in device.settings)
    page.table("Settings", rows)
    most = len(device.peak) if page.style.verbosity > 0 else _MOST_GROUPS
    groups = ((_size(group.size_bytes), f"{group.where} ({_blocks(group.blocks)})")
              for group in device.peak[:most])  # fmt: skip
    page.table("Alive when most was allocated", groups)


def headline(device: ReplayDevice) -> str:
    """Say what another setting would have changed."""
    recorded = device.settings[0]
    others = [s for s in device.settings[1:] if s.ran_out_at_event is None]
    best = min(others, key=lambda s: (s.peak_reserved_bytes, s.conf), default=None)
    if recorded.ran_out_at_event is not None:
        room = recorded.total_memory_bytes
        lead = "This run ran out of memory" if device.proof.ooms else "This run would not fit"
        lead += f" in {_size(room)}" if room is not None else ""
        if len(device.settings) == 1:
            return f"{lead}."
        if best is None:
            return f"{lead}, and none of the other settings would change that."
        return f"{lead}; with {_conf(best)} it would: {_size(best.peak_reserved_bytes)}."
    needed = _size(recorded.peak_reserved_bytes)
    if len(device.settings) == 1:
        return f"This run needed {needed}."
    if best is None or best.peak_reserved_bytes >= recorded.peak_reserved_bytes:
        return f"This run needed {needed}; none of the other settings would have needed less."
    return (
        f"With {_conf(best)} this run would have needed {_size(best.peak_reserved_bytes)} "
        f"instead of {needed}."
    )


def _proof(device: ReplayDevice) -> str:
    proof = device.proof
    said = (
        f"{proof.at_recorded_address} of {proof.allocations} allocations at the recorded address"
        f", {_blocks(proof.live_at_start)} of before the history, end state "
        + ("equal" if proof.end_state_equal else "different")
    )
    if proof.ooms:
        said += f", {proof.ooms} recorded out-of-memory event" + ("s" if proof.ooms > 1 else "")
        said += " reproduced" if proof.ooms_reproduced else " NOT reproduced"
    if proof.left_track_at is not None:
        said += (
            f". Left the track at event {proof.left_track_at} of {device.events}: {proof.reason}; "
            "the figures below are not reliable"
        )
    return f"{said}."


def _name(setting: ReplaySetting) -> str:
    return f"  {_conf(setting)}" + (" (recorded)" if setting.is_recorded else "")


def _conf(setting: ReplaySetting) -> str:
    return setting.conf or "default settings"


def _figures(setting: ReplaySetting) -> str:
    said = (
        f"reserved {_size(setting.peak_reserved_bytes)}, allocated "
        f"{_size(setting.peak_allocated_bytes)}, fragmentation "
        f"{_size(setting.fragmentation_bytes)}"
    )
    if setting.ran_out_at_event is not None:
        room = setting.total_memory_bytes
        limit = f" of {_size(room)}" if room is not None else ""
        return f"runs out{limit} at event {setting.ran_out_at_event}; until then {said}"
    if setting.total_memory_bytes is not None:
        said = f"fits in {_size(setting.total_memory_bytes)}: {said}"
    return said + (f", {setting.retries} cache flushes" if setting.retries else "")


def _blocks(number: int) -> str:
    return "1 block" if number == 1 else f"{number} blocks"


def _size(size: int) -> str:
    return f"{size / _GIB:.2f} GiB" if size >= _GIB else f"{size / _MIB:.1f} MiB"

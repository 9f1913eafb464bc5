"""What is said of a replayed memory snapshot, whatever it is shown in."""

from __future__ import annotations

from typing import Final

from envkit.model.counted import counted
from envkit.model.documents import ReplayDevice, ReplaySetting
from envkit.render.svg import short_bytes

_GIB: Final = 1 << 30
_MIB: Final = 1 << 20


def headline(device: ReplayDevice) -> str:
    """Say what another setting would have changed."""
    recorded = device.settings[0]
    others = [s for s in device.settings[1:] if s.ran_out_at_event is None]
    best = min(others, key=lambda s: (s.peak_reserved_bytes, s.conf), default=None)
    if recorded.ran_out_at_event is not None:
        room = recorded.total_memory_bytes
        lead = "This run ran out of memory" if device.proof.ooms else "This run would not fit"
        lead += f" in {size_text(room)}" if room is not None else ""
        if len(device.settings) == 1:
            return f"{lead}."
        if best is None:
            return f"{lead}, and none of the other settings would change that."
        said = "it would have passed that point with" if device.proof.ooms else "it would, with"
        return f"{lead}; with {conf_name(best)} {said} {size_text(best.peak_reserved_bytes)}."
    needed = size_text(recorded.peak_reserved_bytes)
    if len(device.settings) == 1:
        return f"This run needed {needed}."
    if best is None or best.peak_reserved_bytes >= recorded.peak_reserved_bytes:
        return f"This run needed {needed}; none of the other settings would have needed less."
    return (
        f"With {conf_name(best)} this run would have needed {size_text(best.peak_reserved_bytes)} "
        f"instead of {needed}."
    )


def proof_sentence(device: ReplayDevice) -> str:
    """Say how far the model followed, and what that means for the figures."""
    proof = device.proof
    said = (
        f"{proof.at_recorded_address} of {proof.allocations} allocations at the recorded address"
        f", {blocks(proof.live_at_start)} of before the history, end state "
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


def conf_name(setting: ReplaySetting) -> str:
    """Return the settings, or that there are none."""
    return setting.conf or "default settings"


def figures(setting: ReplaySetting) -> str:
    """Say what it would have needed and whether it would have run out."""
    said = (
        f"reserved {size_text(setting.peak_reserved_bytes)}, allocated "
        f"{size_text(setting.peak_allocated_bytes)}, fragmentation "
        f"{size_text(setting.fragmentation_bytes)}"
    )
    if setting.ran_out_at_event is not None:
        room = setting.total_memory_bytes
        limit = f" of {size_text(room)}" if room is not None else ""
        return f"runs out{limit} at event {setting.ran_out_at_event}; until then {said}"
    if setting.total_memory_bytes is not None:
        said = f"fits in {size_text(setting.total_memory_bytes)}: {said}"
    return said + (f", {setting.retries} cache flushes" if setting.retries else "")


def blocks(number: int) -> str:
    """Say a number of blocks."""
    return counted(number, "block")


def size_text(size: int) -> str:
    """Say a size in GiB or MiB, and what would be 0.0 MiB in smaller units."""
    if size >= _GIB:
        return f"{size / _GIB:.2f} GiB"
    return f"{size / _MIB:.1f} MiB" if size >= _MIB // 10 else short_bytes(size)

"""What a comparison says about memory: has each machine room for what the others needed."""

from __future__ import annotations

from collections.abc import Sequence

from envkit.compare.peaks import Room

_GB = 1_000_000_000
_PAIR = 2


def memory_notes(rooms: Sequence[Room]) -> tuple[str, ...]:
    """Say how often the largest peak of the others fits into a machine: of many, the tightest."""
    tightest = sorted(rooms, key=lambda one: one.times)
    shown = rooms if len(rooms) <= _PAIR else [one for one in tightest if one.times < 1]
    return tuple(_note(one) for one in shown or tightest[:1])


def _note(room: Room) -> str:
    asked = f"{room.probe} on {room.of_label} held {room.peak_bytes / _GB:.1f} GB"
    has = f"{room.label} has {room.available_bytes / _GB:.1f} GB"
    if room.times < 1:
        return f"{asked}; {has} left: it would run out."
    return f"{asked}; {has} left: that fits {room.times} times."

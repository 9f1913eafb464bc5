"""The text of a replayed snapshot, whole."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from golden_text import assert_golden

from envkit.model.documents import (
    Replay,
    ReplayDevice,
    ReplayPeak,
    ReplayProof,
    ReplaySetting,
)
from envkit.render.replay_text import render_replay_text
from envkit.render.replay_words import headline, size_text
from envkit.render.style import Style

GOLDEN = Path(__file__).parent / "golden"
GIB = 1 << 30


def setting(conf: str, reserved: float, ran_out: int | None = None) -> ReplaySetting:
    return ReplaySetting(
        conf=conf,
        total_memory_bytes=8 * GIB,
        peak_reserved_bytes=int(reserved * GIB),
        peak_allocated_bytes=5 * GIB,
        ran_out_at_event=ran_out,
        fragmentation_bytes=int(reserved * GIB) - 5 * GIB,
        retries=2 if ran_out else 0,
    )


RECORDED = msgspec.structs.replace(setting("", 7.5), is_recorded=True)
GOOD = ReplayProof(
    allocations=1981,
    at_recorded_address=1981,
    end_state_equal=True,
    ooms_reproduced=True,
    live_at_start=31,
)
FITS = ReplayDevice(
    index=0,
    proof=GOOD,
    settings=(RECORDED, setting("expandable_segments:True", 6.03), setting("max_split:1", 8, 77)),
    events=5803,
    peak_at_event=758,
    peak=tuple(
        ReplayPeak(where=f"model.py:{line} forward", size_bytes=line * 50 << 20, blocks=line)
        for line in range(12, 0, -1)
    ),
)
LEFT = ReplayDevice(
    index=1,
    proof=ReplayProof(
        allocations=10,
        at_recorded_address=4,
        end_state_equal=False,
        ooms_reproduced=False,
        ooms=2,
        left_track_at=9,
        reason="torch put 512 bytes at 0x10, the model at 0x20",
    ),
    settings=(msgspec.structs.replace(setting("", 7.5, 12), is_recorded=True),),
    events=40,
)
DOCUMENT = Replay(source="snapshot.pickle", devices=(FITS, LEFT))


@pytest.mark.parametrize(
    ("name", "style"),
    [
        ("replay", Style()),
        ("replay-verbose", Style(verbosity=1, width=100)),
        ("replay-quiet", Style(verbosity=-1)),
    ],
)
def test_golden(name: str, style: Style) -> None:
    assert_golden(GOLDEN / f"{name}.txt", render_replay_text(DOCUMENT, style))


def test_headlines() -> None:
    ran_out = msgspec.structs.replace(RECORDED, ran_out_at_event=5)
    with_oom = msgspec.structs.replace(GOOD, ooms=1)
    other = setting("expandable_segments:True", 6.03)
    cases = [
        (GOOD, (RECORDED, other), "With expandable_segments:True this run would have needed 6.03"),
        (GOOD, (RECORDED, setting("x:1", 7.6)), "This run needed 7.50 GiB; none of the other"),
        (GOOD, (ran_out, other), "This run would not fit in 8.00 GiB; with expandable_segments"),
        (with_oom, (ran_out, other), "This run ran out of memory in 8.00 GiB; with expandable_seg"),
        (with_oom, (ran_out,), "This run ran out of memory in 8.00 GiB."),
        (with_oom, (ran_out, setting("x:1", 8, 3)), "This run ran out of memory in 8.00 GiB, and"),
        (GOOD, (RECORDED,), "This run needed 7.50 GiB."),
    ]
    for proof, settings, said in cases:
        device = ReplayDevice(index=0, proof=proof, settings=settings)
        assert headline(device).startswith(said)


@pytest.mark.parametrize(
    ("size", "said"),
    [
        (0, "0 B"),
        (1650, "1.61 KiB"),
        (105 << 20, "105.0 MiB"),
        (1 << 17, "0.1 MiB"),
        (GIB, "1.00 GiB"),
    ],
)
def test_no_size_but_zero_is_said_to_be_nothing(size: int, said: str) -> None:
    assert size_text(size) == said

"""Where the driver puts segments, and what predictions come to with it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envkit.allocator.chunks import CHUNK_BYTES, DriverAddresses
from envkit.allocator.recording import Recording
from envkit.allocator.replay import ACTIONS
from envkit.allocator.sizes import MIB
from envkit.allocator.what_if import what_if

TOP = 0x7F0000000000
#: The rule was read off these workloads ...
LEARNED_FROM = ("r50_b32", "r50amp_b32", "vit_b16")
#: ... and these were looked at only when it was done.
HELD_OUT = ("r50var_b32", "vitvar_b8")


def test_chunks_go_down_and_what_is_left_of_one_serves_later_requests() -> None:
    space = DriverAddresses(TOP)
    assert space.claim(38 * MIB, None) == TOP - 64 * MIB
    assert space.claim(28 * MIB, None) == TOP - 96 * MIB
    assert space.claim(20 * MIB, None) == TOP - 64 * MIB + 38 * MIB
    assert space.claim(2 * MIB, None) == TOP - 96 * MIB + 28 * MIB
    assert space.claim(20 * MIB, None) == TOP - 128 * MIB


def test_the_lowest_hole_is_taken_though_another_fits_better() -> None:
    space = DriverAddresses(TOP)
    space.claim(30 * MIB, None)
    space.claim(20 * MIB, None)
    assert space.claim(2 * MIB, None) == TOP - 64 * MIB + 20 * MIB


def test_what_is_given_up_is_one_hole_with_its_neighbours() -> None:
    space = DriverAddresses(TOP)
    first = space.claim(20 * MIB, None)
    space.give_up(first)
    assert space.claim(32 * MIB, None) == first
    with pytest.raises(ValueError, match="another segment is there"):
        space.claim(2 * MIB, first)


def test_an_observed_address_is_kept() -> None:
    space = DriverAddresses(TOP)
    assert space.claim(20 * MIB, 0x7E0000000000) == 0x7E0000000000
    assert space.claim(20 * MIB, None) == 0x7E0000000000 - CHUNK_BYTES


@given(st.lists(st.tuples(st.integers(1, 90), st.booleans()), max_size=60))
def test_segments_never_overlap(steps: list[tuple[int, bool]]) -> None:
    space = DriverAddresses(TOP)
    taken: dict[int, int] = {}
    for size, gives_up in steps:
        if gives_up and taken:
            start = sorted(taken)[size % len(taken)]
            space.give_up(start)
            del taken[start]
            continue
        start = space.claim(size * 2 * MIB, None)
        assert all(start + size * 2 * MIB <= a or a + s <= start for a, s in taken.items())
        taken[start] = size * 2 * MIB


def _runs(folder: Path, workload: str) -> dict[str, Any]:
    return {
        path.name.split(".")[1]: json.loads(gzip.decompress(path.read_bytes()))
        for path in sorted(folder.glob(f"{workload}.*.json.gz"))
    }


def _errors(folder: Path, workload: str) -> dict[str, tuple[float, float]]:
    """Return the relative errors of allocated and reserved, predicted from the default run."""
    runs = _runs(folder, workload)
    events = runs["default"]["ev"]
    recording = Recording(
        device=0,
        events=tuple(tuple(event) for event in events if event[0] in {*ACTIONS.values()}),
        stacks=(),
        segments=(),
        block_stacks={},
        conf="",
        version=(2, 11),
    )
    errors = {}
    for name, run in runs.items():
        outcome = what_if(recording, [], run["conf"] or "", 150109880320)
        stats = run["stats"]
        errors[name] = (
            outcome.peak_allocated_bytes / stats["allocated_bytes.all.peak"] - 1,
            outcome.peak_reserved_bytes / stats["reserved_bytes.all.peak"] - 1,
        )
        assert outcome.ran_out_at_event is None
    return errors


@pytest.mark.parametrize("workload", LEARNED_FROM)
def test_prediction_on_the_runs_that_the_rule_was_learned_from(shared: Path, workload: str) -> None:
    errors = _errors(shared / "facts/allocator/h200-training-streams", workload)
    assert len(errors) == 5
    assert not any(errors["expandable"])
    assert all(abs(allocated) <= 0.001 for allocated, _ in errors.values())
    assert all(abs(reserved) <= 0.01 for _, reserved in errors.values())


@pytest.mark.parametrize("workload", HELD_OUT)
def test_prediction_on_runs_that_were_held_out(shared: Path, workload: str) -> None:
    errors = _errors(shared / "facts/allocator/h200-training-streams", workload)
    assert len(errors) == 5
    assert set(errors.values()) == {(0, 0)}

"""Peaks against the model's replay: recorded training runs of an H200, and recordings that lie."""

from __future__ import annotations

import json
import lzma
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from envkit.model.fingerprint import Key
from envkit.probes.child import streams
from envkit.workflows.peak_replay import FIGURES, replay_peaks

RECORDINGS = Path(__file__).parents[1] / "data" / "allocator"
NAMES = ("r50_b32", "r50amp_b32", "r50var_b32", "vit_b16", "vitvar_b8")
KINDS = {"a": streams.ALLOC, "f": streams.FREE, "S": streams.SEGMENT}
TOTAL = 80 << 30


@cache
def runs(name: str) -> list[dict[str, Any]]:
    content = (RECORDINGS / f"training-{name}.json.xz").read_bytes()
    return list(json.loads(lzma.decompress(content)))


def key(conf: str = "", torch: str = "2.11.0+cu130") -> Key:
    return Key(
        torch=torch,
        cuda="13.0",
        cudnn=91900,
        cublas="13.1.0",
        capability="9.0",
        sm_count=132,
        settings={
            "PYTORCH_CUDA_ALLOC_CONF": conf,
        },
        flags={},
        threads=1,
        model_version="1",
    )


def observed(run: dict[str, Any]) -> dict[str, Any]:
    """Return what the child sends of such a run: its canonical stream and the segments."""
    found = streams.canonical(
        streams.Event(KINDS[action], address, size)
        for action, address, size, _ in run["events"]
        if action in KINDS
    )
    return dict(found.values(), segments=found.segments, foreign_frees=found.foreign_frees)


def peaks(run: dict[str, Any]) -> dict[str, int]:
    return {name: run["stats"][counter] for name, counter in FIGURES.items()}


@pytest.mark.parametrize("name", NAMES)
def test_recorded_peaks_are_those_of_the_replay_with_the_observed_addresses(name: str) -> None:
    for run in runs(name):
        answer = replay_peaks(peaks(run), observed(run), key(run["conf"]), run["total_memory"])
        assert (answer.conforms, answer.reason) == (True, "")
        assert answer.replay is not None
        assert answer.replay.observed == peaks(run)


def test_canonical_addresses_move_a_peak_and_nothing_is_wrong() -> None:
    """By segments of 2 to 20 MiB; by more where batch sizes change and holes are many."""
    moved = []
    for name in NAMES:
        run = runs(name)[0]
        replay = replay_peaks(peaks(run), observed(run), key(), run["total_memory"]).replay
        assert replay is not None
        moved.append(replay.observed["reserved_bytes"] - replay.canonical["reserved_bytes"])
    assert [size >> 20 for size in moved] == [0, -14, 196, 0, -48]


def test_a_peak_that_is_not_the_models_is_told_with_both_figures() -> None:
    run = runs("vit_b16")[0]
    bent = {**peaks(run), "segments": peaks(run)["segments"] + 1}
    answer = replay_peaks(bent, observed(run), key(), run["total_memory"])
    assert answer.conforms is False
    assert answer.reason.startswith(f"segments is {bent['segments']}, by the model's replay")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"requests": [512, -2]}, "is not held"),
        ({"requests": [512, "x"]}, "is damaged"),
        ({"segments": [[1, 2]]}, "is damaged"),
        ({"segments": [[1, 1 << 70, 2097152]]}, "no 64 bit address"),
        ({"foreign_frees": 1}, "from before the recording"),
        ({"requests": [100 << 30]}, "CUDA out of memory"),
    ],
)
def test_a_recording_that_cannot_be_replayed_says_why(changes: Any, said: str) -> None:
    recording = {
        "requests": [512, 5 << 20],
        "streams": {},
        "segments": [],
        "foreign_frees": 0,
        **changes,
    }
    answer = replay_peaks({"allocated_bytes": 1}, recording, key(), TOTAL)
    assert answer.conforms is None
    assert answer.replay is None
    assert said in answer.reason


def test_nothing_is_said_where_nothing_was_recorded_counted_or_modelled() -> None:
    recording = {"requests": [512], "streams": {}, "segments": [], "foreign_frees": 0}
    values = {"allocated_bytes": 512, "reserved_bytes": 2 << 20, "segments": 1}
    assert replay_peaks(values, recording, key(), TOTAL).conforms is True
    assert replay_peaks(values, None, key(), TOTAL).reason == "the requests were not recorded"
    assert "caching is off" in replay_peaks({}, recording, key(), TOTAL).reason
    other = replay_peaks(values, recording, key("backend:cudaMallocAsync"), TOTAL)
    assert (other.conforms, other.replay) == (None, None)
    assert "cudaMallocAsync" in other.reason
    assert "describes torch" in replay_peaks(values, recording, key(torch="1.13.1"), TOTAL).reason


def test_a_segment_that_torch_did_not_need_is_a_difference() -> None:
    lying = [[1, 1 << 21, 2097152], [2, 1 << 21, 20971520]]
    recording = {"requests": [512, 5 << 20], "streams": {}, "segments": lying, "foreign_frees": 0}
    answer = replay_peaks({"allocated_bytes": 1}, recording, key(), TOTAL)
    assert answer.conforms is False
    assert "another segment is there" in answer.reason


def test_blocks_that_several_streams_use_accuse_nobody() -> None:
    recording = {"requests": [512], "streams": {"1": 1}, "segments": [], "foreign_frees": 0}
    values = {"allocated_bytes": 1024, "reserved_bytes": 2 << 20, "segments": 1}
    answer = replay_peaks(values, recording, key(), TOTAL)
    assert answer.conforms is None
    assert "several streams" in answer.reason
    assert answer.replay is not None

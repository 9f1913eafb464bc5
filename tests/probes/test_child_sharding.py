"""Sharding as a strategy, for real: two processes of the CPU over gloo beside one."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from envkit.probes.events import AskedStrategies, ChildRequest, Measurement
from envkit.probes.launch import Finished, run_child

pytest.importorskip("torch")
Child = Callable[[str], ModuleType]


def run(**asked: Any) -> dict[str, Measurement]:
    wanted = AskedStrategies(
        workload="gpt-small", names=("adamw", "sharding"), search=False, **asked
    )
    request = ChildRequest(
        tasks=("strategies",), device="cpu", strategies=wanted, time_limit_s=240.0
    )
    found = run_child(sys.executable, request)
    assert isinstance(found.outcome, Finished)
    return {one.name: one for one in found.measured if isinstance(one, Measurement)}


def test_sharding_takes_less_of_each_and_loses_the_same() -> None:
    found = run()
    whole, sharded = found["adamw"], found["sharding"]
    assert (whole.status, sharded.status) == ("measured", "measured"), sharded.reason
    assert "over 2 processes of the CPU" in sharded.reason
    assert whole.values.allocated_bytes is not None
    assert sharded.values.allocated_bytes is not None
    assert sharded.values.allocated_bytes < whole.values.allocated_bytes
    assert sharded.values.losses == pytest.approx(whole.values.losses, rel=1e-5)


def test_a_batch_without_equal_parts_is_not_run() -> None:
    sharded = run(batch=3)["sharding"]
    assert sharded.status == "not_run"
    assert "no equal parts for 2 ranks" in sharded.reason


def test_the_fullest_and_the_slowest_rank_stand_for_all(
    child_module: Child, monkeypatch: pytest.MonkeyPatch
) -> None:
    shard = child_module("strategies.shard")
    peaks = ((5, 8, [0.1]), (7, 6, [0.3]), (6, 7, [0.2]))
    answers = [
        {
            "status": "measured",
            "values": {
                "allocated_bytes": allocated,
                "reserved_bytes": reserved,
                "step_seconds": seconds,
                "losses": [float(allocated)],
            },
        }
        for allocated, reserved, seconds in peaks
    ]
    monkeypatch.setattr(shard, "run_ranks", lambda *_: answers)
    found = shard.measure_sharded("cuda:0", {}, None)
    assert found["reason"].startswith("sharded over 3 GPUs")
    assert found["values"] == {
        "allocated_bytes": 7,
        "reserved_bytes": 8,
        "step_seconds": [0.3],
        "losses": [6.0],
        "digest": None,
    }
    answers[1] = {"status": "out_of_memory", "reason": "full", "values": {}}
    assert shard.measure_sharded("cuda:0", {}, None)["status"] == "out_of_memory"

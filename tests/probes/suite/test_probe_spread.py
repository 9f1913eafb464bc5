"""All-reduce and a sharded training over real ranks: two processes on the CPU, over gloo."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from suite_run import Event, run

from envkit.probes.child.membership import SUITES

torch = pytest.importorskip("torch")
SPREAD = tuple(
    probe.name
    for probe in SUITES["full"].probes["cpu"]
    if probe.family in {"collectives", "sharded"}
)


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> list[Event]:
    return run(tmp_path_factory.mktemp("spread"), suite="full", probes=list(SPREAD))


def probe(events: list[Event], name: str) -> dict[str, Any]:
    (found,) = (one for one in events if one["event"] == "probe" and one["name"] == name)
    return found


def test_every_probe_has_an_answer_and_what_must_repeat_does(events: list[Event]) -> None:
    told = {one["name"]: one for one in events if one["event"] == "probe"}
    assert {*told} == {*SPREAD}
    assert {one["status"] for one in told.values()} <= {"exact", "unstable"}
    steady = {name for name, one in told.items() if one["must_repeat"]}
    assert steady == {
        "collectives.all_reduce.fp32",
        "collectives.all_reduce.bf16",
        "sharded.gpt.losses",
    }
    assert {told[name]["status"] for name in steady} == {"exact"}


def test_the_sum_is_the_one_that_any_number_of_ranks_has(events: list[Event]) -> None:
    digests = importlib.import_module("envkit.probes.child.digests")
    collectives = importlib.import_module("envkit.probes.child.spread.collectives")
    numbers = torch.arange(collectives.ELEMENTS) % 8 * collectives.SHARES
    for part, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16)):
        values = probe(events, f"collectives.all_reduce.{part}")["values"]
        assert values == digests.of_tensor(numbers.to(dtype))


def test_both_ranks_have_a_stream_and_a_peak(events: list[Event]) -> None:
    streams = probe(events, "sharded.gpt.requests")["values"]["ranks"]
    peaks = probe(events, "sharded.gpt.peaks")["values"]["ranks"]
    assert len(streams) == len(peaks) == 2
    assert all(len(one["requests"]) > 100 for one in streams)
    assert all(one["allocated_bytes"] > 0 for one in peaks)


def test_ranks_see_different_samples(events: list[Event]) -> None:
    first, second = probe(events, "sharded.gpt.losses")["values"]["ranks"]
    assert first != second


def test_one_gpu_is_no_group(monkeypatch: pytest.MonkeyPatch) -> None:
    ranks = importlib.import_module("envkit.probes.child.spread.ranks")
    place = importlib.import_module("envkit.probes.child.place")
    jobs = importlib.import_module("envkit.probes.child.jobs")
    counted = jobs.Result("count")
    counted.status, counted.value = "finished", 1
    monkeypatch.setattr(ranks, "run_jobs", lambda *_: [counted])
    with pytest.raises(place.Unmet, match="a group of one rank tests nothing"):
        ranks.run_ranks("cuda:0", print, {}, None)
    with pytest.raises(place.Unmet, match="measured with the first one"):
        ranks.run_ranks("cuda:1", print, {}, None)


def test_a_gpu_joins_by_nccl_without_multicast(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ranks = importlib.import_module("envkit.probes.child.spread.ranks")
    dist = torch.distributed
    chosen: list[int] = []
    asked: list[tuple[str, int, int]] = []

    def init(backend: str, *, rank: int, world_size: int, **_: Any) -> None:
        asked.append((backend, rank, world_size))

    monkeypatch.setattr(dist, "is_nccl_available", lambda: True)
    monkeypatch.setattr(dist, "init_process_group", init)
    monkeypatch.setattr(dist, "destroy_process_group", lambda: None)
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
    monkeypatch.setenv("NCCL_NVLS_ENABLE", "1")
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "")
    args = {"rank": 3, "world": 4, "device_kind": "cuda", "folder": str(tmp_path)}
    with ranks.joined(args) as place:
        assert place.name == "cuda:3"
        assert os.environ["NCCL_NVLS_ENABLE"] == "0"
    assert (chosen, asked) == ([3], [("nccl", 3, 4)])
    monkeypatch.setattr(dist, "is_nccl_available", lambda: False)
    with pytest.raises(Exception, match="built without NCCL"), ranks.joined(args):
        pass


def test_ranks_that_disagree_or_add_wrongly_have_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    collectives = importlib.import_module("envkit.probes.child.spread.collectives")
    good = {"fp32": ["a", "a"], "bf16": ["b", "b"], "rounding": ["c", "d"]}
    answers = [good, {**good, "bf16": ["b", "x"]}]
    monkeypatch.setattr(collectives, "run_ranks", lambda *_: answers)
    told: dict[str, dict[str, Any]] = {}
    place = SimpleNamespace(name="cuda:0")
    collectives.measure(place, 1, lambda part, **found: told.update({part: found}), None)
    assert told["fp32"] == {"runs": ["a", "a"]}
    assert told["bf16"] == {"failed": "ranks have different sums"}
    assert told["rounding"] == {"runs": ["c", "d"]}  # unstable, and no more than that


def test_a_wrong_sum_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    collectives = importlib.import_module("envkit.probes.child.spread.collectives")
    place = SimpleNamespace(torch=torch, device=torch.device("cpu"))

    def add_the_other_rank(total: Any) -> None:
        total += (torch.arange(collectives.ELEMENTS) % 8).to(total.dtype)

    def lose_one(total: Any) -> None:
        add_the_other_rank(total)
        total[7] -= 1

    monkeypatch.setattr(torch.distributed, "all_reduce", add_the_other_rank)
    args = {"rank": 0, "world": 2}
    assert collectives._known(place, args, "bfloat16")["dtype"] == "bfloat16"
    monkeypatch.setattr(torch.distributed, "all_reduce", lose_one)
    with pytest.raises(RuntimeError, match="1 of 1000003 sums in float32 are wrong"):
        collectives._known(place, args, "float32")


def test_every_gpu_is_a_rank_and_a_probe_takes_two(monkeypatch: pytest.MonkeyPatch) -> None:
    ranks = importlib.import_module("envkit.probes.child.spread.ranks")
    jobs = importlib.import_module("envkit.probes.child.jobs")

    def run_jobs(asked: list[Any], *_: Any) -> list[Any]:
        found = []
        for job in asked:
            result = jobs.Result(job.name)
            result.status, result.value = "finished", job.args.get("world", 8)
            found.append(result)
        return found

    monkeypatch.setattr(ranks, "run_jobs", run_jobs)
    assert ranks.run_ranks("cuda:0", print, {}, None) == [8] * 8
    assert ranks.run_ranks("cuda:0", print, {}, None, most=2) == [2] * 2


def test_what_spans_gpus_may_lawfully_be_missing() -> None:
    members = [one for one in SUITES["full"].probes["cuda"] if one.name in SPREAD]
    assert len(members) == len(SPREAD)
    assert all(one.optional for one in members)

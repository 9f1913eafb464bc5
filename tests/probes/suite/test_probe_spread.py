"""All-reduce and a sharded training over real ranks: two processes on the CPU, over gloo."""

from __future__ import annotations

import importlib
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

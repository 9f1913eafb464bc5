"""Whole runs on the CPU, through the child as it is started for real."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from suite_run import run

import envkit

Child = Callable[[str], ModuleType]
Event = dict[str, Any]


def probes(events: list[Event]) -> dict[str, Event]:
    return {event["name"]: event for event in events if event["event"] == "probe"}


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory, torch: Any) -> list[Event]:
    """One run of the quick suite with one thread."""
    del torch
    return run(tmp_path_factory.mktemp("quick"))


def test_every_probe_of_the_suite_is_reported_once(quick: list[Event], child: Child) -> None:
    members = child("membership").SUITES["quick"].probes["cpu"]
    names = [event["name"] for event in quick if event["event"] == "probe"]
    assert sorted(names) == sorted(probe.name for probe in members)
    (suite,) = [event for event in quick if event["event"] == "suite"]
    assert (suite["name"], suite["version"]) == ("quick", child("membership").VERSION)
    assert quick[-1]["event"] == "done"
    assert not [event for event in quick if event["event"] == "error"]


def test_progress_counts_to_the_total(quick: list[Event]) -> None:
    progress = [event for event in quick if event["event"] == "progress"]
    total = len(probes(quick))
    assert [event["done"] for event in progress] == list(range(1, total + 1))
    assert {event["total"] for event in progress} == {total}


def test_all_that_is_measured_repeats(quick: list[Event]) -> None:
    for probe in probes(quick).values():
        if probe["layer"] == "allocator":
            assert probe["status"] == "not_run"
            assert "model can answer" in probe["reason"]
            assert probe["operations"]
            assert probe["values"] is None
        else:
            assert (probe["name"], probe["status"]) == (probe["name"], "exact")


def test_two_processes_give_equal_values(quick: list[Event], tmp_path: Path) -> None:
    again = probes(run(tmp_path))
    for name, probe in probes(quick).items():
        if probe["must_repeat"]:
            assert again[name]["values"] == probe["values"], name


def test_the_thread_count_moves_only_what_depends_on_it(quick: list[Event], tmp_path: Path) -> None:
    other = probes(run(tmp_path, threads=2))
    moved = {
        name for name, probe in probes(quick).items() if other[name]["values"] != probe["values"]
    }
    # Scratch memory is taken for each thread.
    assert "vit.bf16.workspaces" in moved
    for name in moved - {"context.memory"}:
        assert "threads" in other[name]["depends_on"], name
    assert "vit.bf16.tensors" not in moved
    assert "resnet.fp32.tensors" not in moved


def test_a_challenge_moves_inputs_and_the_random_trace_but_no_stream(
    quick: list[Event], tmp_path: Path
) -> None:
    names = ["vit.bf16.tensors", "vit.bf16.losses", "exercises.random_trace", "numerics.conv2d"]
    other = probes(run(tmp_path, challenge="c0ffee", probes=names))
    before = probes(quick)
    assert sorted(other) == sorted(names)
    assert other["vit.bf16.tensors"]["values"] == before["vit.bf16.tensors"]["values"]
    assert other["vit.bf16.losses"]["values"] != before["vit.bf16.losses"]["values"]
    assert other["numerics.conv2d"]["values"] != before["numerics.conv2d"]["values"]
    trace = "exercises.random_trace"
    assert other[trace]["operations"] != before[trace]["operations"]


def test_a_probe_that_there_is_not_is_refused(tmp_path: Path, torch: Any) -> None:
    del torch
    events = run(tmp_path, probes=["vit.fp64.losses"])
    (error,) = [event for event in events if event["event"] == "error"]
    assert "vit.fp64.losses" in error["message"]
    assert not probes(events)


class Emit:
    """Collects events."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def __call__(self, event: str, **fields: Any) -> None:
        self.events.append({"event": event, **fields})

    def forward(self, line: bytes) -> None:
        self.events.append(json.loads(line))

    def stage(self, name: str) -> None:
        self("stage", name=name)

    def close(self) -> None:
        """Nothing to give up."""


def ended(child: Child, status: str, **fields: Any) -> Any:
    result = child("jobs").Result("family")
    result.status = status
    for name, value in fields.items():
        setattr(result, name, value)
    return result


def run_here(
    child: Child,
    monkeypatch: pytest.MonkeyPatch,
    answers: dict[str, Any],
    context: Any = None,
    **wanted: Any,
) -> tuple[dict[str, Event], list[list[str]]]:
    """Run the quick suite of a GPU with children that end as told; return rounds too."""
    suite = child("suite")
    rounds: list[list[str]] = []

    def run_jobs(jobs: Any, emit: Any, request: Any, at_once: int) -> list[Any]:
        del emit, request, at_once
        rounds.append([job.name for job in jobs])
        return [answers[job.name] for job in jobs]

    monkeypatch.setattr(suite, "run_jobs", run_jobs)
    emit = Emit()
    request = {"suite": "quick", "device": "cuda:0", "time_limit_s": 60.0, **wanted}
    suite.run(request, emit, context=context)
    return probes(emit.events), rounds


def families(child: Child, free_bytes: int, **others: Any) -> dict[str, Any]:
    good = {name: ended(child, "finished", value={}) for name in ("vit", "resnet", "numerics")}
    context = ended(child, "finished", value={"free_bytes": free_bytes})
    return {
        **good,
        "exercises": ended(child, "finished", value={}),
        "context": context,
        **others,
    }


def test_a_family_that_dies_costs_only_its_own_probes(
    child: Child, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead = ended(child, "timed_out", reason="no end after 40 s", stage="vit: vit.bf16")
    found, _ = run_here(child, monkeypatch, families(child, 64 << 30, vit=dead))
    assert found["vit.bf16.losses"]["status"] == "failed"
    assert "no end after 40 s (in stage 'vit: vit.bf16')" in found["vit.bf16.losses"]["reason"]
    members = child("membership").SUITES["quick"].probes["cuda"]
    assert len(found) == len(members)


def test_families_run_at_once_as_memory_allows(
    child: Child, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, rounds = run_here(child, monkeypatch, families(child, 64 << 30))
    assert rounds == [["context"], ["vit", "resnet", "numerics", "exercises"]]
    _, rounds = run_here(child, monkeypatch, families(child, 7 << 30))
    assert rounds == [["context"], ["vit", "resnet"], ["numerics", "exercises"]]


def test_a_family_that_does_not_fit_has_failed(
    child: Child, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, rounds = run_here(child, monkeypatch, families(child, (5 << 30) // 2))
    assert rounds == [["context"], ["numerics"], ["exercises"]]
    # Not `not_run`: what does not fit was wanted, and a verdict without it is incomplete.
    assert found["resnet.fp32.tensors"]["status"] == "failed"
    assert "may have 2684354560" in found["resnet.fp32.tensors"]["reason"]


def test_what_may_be_missing_and_does_not_fit_is_not_run(
    child: Child, monkeypatch: pytest.MonkeyPatch
) -> None:
    spread = ("collectives", "sharded")
    usual = ("gpt", "options", "checkpointing", "lifetimes", "compiled", "graphs", "quantised")
    names = (*usual, *spread)
    others = {name: ended(child, "finished", value={}) for name in names}
    answers = families(child, 6 << 30, **others)
    found, rounds = run_here(child, monkeypatch, answers, suite="full")
    assert not any("large" in together for together in rounds)
    assert found["large.vit.tensors"]["status"] == "not_run"
    assert "needs up to 10000000000 bytes" in found["large.vit.tensors"]["reason"]
    assert rounds[-3][-1] == "compiled"
    assert rounds[-2:] == [[name] for name in spread]  # alone: they use every GPU


def test_only_the_user_s_step_is_measured_where_the_child_was_started(
    child: Child, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # What is compiled while it runs has the folder in it: a new folder finds nothing in a cache.
    suite, fork = child("suite"), child("fork")
    monkeypatch.setattr(suite, "measure_family", lambda _args, _emit: str(Path.cwd()))
    monkeypatch.chdir(tmp_path)
    request = {"suite": "quick", "device": "cpu", "time_limit_s": 60.0}
    plan = suite.plan(dict(request, call={"target": "train:step", "folder": str(tmp_path)}))
    jobs = [suite._Runner(plan, request, Emit())._job(name, 60.0) for name in plan.families()]
    ended = fork.run_jobs(jobs, Emit(), {})
    folders = {job.name: result.value for job, result in zip(jobs, ended, strict=True)}
    assert folders.pop("call") == str(tmp_path)
    assert set(folders.values()) == {Path.cwd().anchor}
    assert str(Path.cwd()) == str(tmp_path)


def test_a_context_that_is_known_is_not_measured_again(
    child: Child, monkeypatch: pytest.MonkeyPatch
) -> None:
    families_ = child("families")

    def measure(_place: Any, _group: str, _seed: int, report: Any) -> dict[str, int]:
        report(runs=[{"free_bytes": 7 << 30}] * 2)
        return {"free_bytes": 7 << 30}

    place = SimpleNamespace(start=lambda: None, clean=lambda: None)
    monkeypatch.setattr(families_, "Place", lambda *_: place)
    monkeypatch.setattr(families_.context, "measure", measure)
    seen = [{"name": "profiler", "reason": "on"}]
    monkeypatch.setattr(families_.context, "confounds", lambda _: seen)
    context = families_.measure_context("cuda:0", Emit())
    assert [event["event"] for event in context["events"]] == ["probe", "confound"]
    context = json.loads(json.dumps(context))  # it comes from another process

    answers = families(child, 64 << 30)
    found, rounds = run_here(child, monkeypatch, answers, context=context)
    assert rounds == [["vit", "resnet"], ["numerics", "exercises"]]
    assert found["context.memory"]["values"] == {"free_bytes": 7 << 30}
    assert len(found) == len(child("membership").SUITES["quick"].probes["cuda"])
    # Where the context was not asked for, what is known of it shares out the memory all the same.
    wanted = ["vit.bf16.tensors", "numerics.conv2d"]
    found, rounds = run_here(child, monkeypatch, answers, context=context, probes=wanted)
    assert (sorted(found), rounds) == (sorted(wanted), [["vit", "numerics"]])


def test_a_device_without_an_answer_leaves_the_context_to_the_suite(
    child: Child, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        message = "out of memory"
        raise RuntimeError(message)

    families_ = child("families")
    monkeypatch.setattr(families_, "Place", lambda *_: SimpleNamespace(start=refuse))
    assert families_.measure_context("cuda:0", Emit()) is None


def test_the_user_s_step_comes_last_and_alone(
    child: Child, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = families(child, 64 << 30, call=ended(child, "timed_out", reason="no end"))
    call = {"target": "train:step", "folder": "/nowhere"}
    found, rounds = run_here(child, monkeypatch, answers, call=call)
    assert rounds[-1] == ["call"]
    assert "no end" in found["call.train:step.tensors"]["reason"]


def test_the_request_can_bound_the_memory_of_a_child(
    child: Child, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = families(child, 64 << 30)
    _, rounds = run_here(child, monkeypatch, answers, memory_limit_bytes=(5 << 30) // 2)
    assert rounds == [["context"], ["numerics", "exercises"]]


def test_without_a_context_families_run_one_at_a_time(
    child: Child, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = ended(child, "crashed", reason="SIGSEGV")
    found, rounds = run_here(child, monkeypatch, families(child, 0, context=lost))
    assert rounds[1:] == [[name] for name in ("vit", "resnet", "numerics", "exercises")]
    assert "SIGSEGV" in found["context.memory"]["reason"]


def test_what_is_slow_to_import_stays_out(tmp_path: Path, torch: Any) -> None:
    del torch
    script = (
        "import sys; sys.argv = [sys.argv[1]]; sys.path[:0] = [sys.argv[0]]\n"
        "from conftest import load_package; load_package()\n"
        "import torch; from _envkit_child import place, torch_api\n"
        "from _envkit_child.workloads.probes import measure\n"
        "here = place.Place(torch, torch_api, 'cpu')\n"
        "measure(here, 'resnet.fp32', 1, lambda *args, **kwargs: None)\n"
        "from _envkit_child.numerics.operations import OPERATIONS\n"
        "from _envkit_child.membership import SUITES\n"
        "for probe in SUITES['standard'].probes['cpu']:\n"
        "    if probe.family == 'numerics': OPERATIONS[probe.group](here, 1)\n"
        "slow = {'torch._dynamo', 'torch.fx.experimental.symbolic_shapes', 'sympy'}\n"
        "raise SystemExit(', '.join(slow.intersection(sys.modules)) or None)\n"
    )
    # Each takes longer than all the numerics together.
    done = subprocess.run(
        [sys.executable, "-c", script, str(Path(__file__).parent)],
        cwd=tmp_path,
        env={
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": str(Path(envkit.__file__).parents[1]),
        },
        timeout=120,
        check=False,
        stderr=subprocess.PIPE,
    )
    assert done.returncode == 0, done.stderr[-500:]

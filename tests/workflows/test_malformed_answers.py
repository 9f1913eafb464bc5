"""Whatever a child says, there is a report: nothing of it is an error of envkit."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from machines import child_run, readers

from envkit.model import codec
from envkit.model.report import Report
from envkit.probes import launch
from envkit.probes.bounds import MAX_DEPTH, MAX_EVENTS, MAX_LINE_BYTES
from envkit.probes.child.membership import SUITES
from envkit.workflows.child_answer import add_answer
from envkit.workflows.fingerprint import build_fingerprint
from envkit.workflows.request import VerifyRequest
from envkit.workflows.verify import verify

OPERATIONS = [["malloc", 0, 512, 0], ["free", 0], ["empty_cache"]]
GOOD: list[dict[str, Any]] = [
    {
        "event": "hello",
        "python": "3.11.7",
        "executable": "/x",
        "prefix": "/",
        "base_prefix": "/",
        "pid": 1,
        "argv0": "start.py",
    },
    {"event": "stage", "name": "importing_torch"},
    {
        "event": "facts",
        "family": "torch",
        "values": {
            "version": "2.9.1+cu130",
            "file": "/x/torch/__init__.py",
            "flags": {"cudnn.enabled": True},
            "cuda_init_error": {"code": 1, "name": "a", "message": "b"},
            "devices": [{"index": 0, "name": "card", "capability": "9.0"}],
            "threads": {"intra": 4},
            "mapped_libraries": [{"path": "/x/libtorch.so"}],
            "allocator_settings": {"a": {"b": 1}},
        },
    },
    {
        "event": "self_test",
        "device": "cpu",
        "tests": [{"name": "matmul", "status": "pass", "reason": "", "kind": ""}],
    },
    {"event": "suite", "name": "quick", "version": 1, "seed": 1, "probes": ["exercises.streams"]},
    {
        "event": "key",
        "values": {
            "device": "cuda:0",
            "torch": "2.9.1+cu130",
            "cuda": "13.0",
            "cudnn": 91300,
            "cublas": "13.0",
            "capability": "9.0",
            "sm_count": 132,
            "settings": {"PYTORCH_CUDA_ALLOC_CONF": ""},
            "flags": {"cudnn.enabled": True},
            "threads": 8,
        },
    },
    {
        "event": "probe",
        "name": "exercises.streams",
        "layer": "allocator",
        "status": "exact",
        "values": {"steps": [{"op": "malloc 0 512 0", "counters": {"num_ooms": 1}}]},
        "operations": OPERATIONS,
        "observed": {"total_memory_bytes": 80 << 30},
    },
    {"event": "probe", "name": "mm", "layer": "numerics", "status": "exact", "values": {"a": [1]}},
    {"event": "confound", "name": "busy", "reason": "x", "values": {"n": 1}},
    {"event": "error", "stage": "vit", "type": "OSError", "message": "gone"},
    {"event": "done"},
]
EVIL: list[Any] = [
    None, True, -1, 10**18, 10**30, 1e308, "", "\x1b[31m\u202e\0", "9" * 5000, [], [1], [[]], {},
    {"a": 1}, {"unreadable": 5}, {"absent": None}, [None], ["x"], [{}], "cuda:x", {"intra": "x"},
]  # fmt: skip


def report_of(*lines: bytes) -> Report:
    answer = launch._Answer(None)
    for line in lines:
        if not answer.take(line):
            break
    ended = child_run(outcome=launch.Finished() if answer.complete else launch.Exited(code=1))
    if answer.fault:
        ended = child_run(outcome=launch.Broken(reason=answer.fault))
    if answer.hello is not None:
        launch._numbers(answer.hello.python)
    run = answer.collected(ended.outcome, "", 1.0)
    report = verify(
        VerifyRequest(),
        readers(
            child=lambda *_: run,
            imported=lambda _, facts, it: add_answer(facts, it, prefix=Path("/v"), environ={}),
            fingerprint=build_fingerprint,
        ),
        lambda *_: None,
    )
    content = codec.encode(report)
    assert codec.decode(content, Report, origin="it") == report
    return report


def lines_of(events: list[Any]) -> list[bytes]:
    return [json.dumps(event).encode() for event in events]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    inner: Any = value.items() if isinstance(value, dict) else ()
    inner = enumerate(value) if isinstance(value, list) else inner
    for key, one in inner:
        yield from places(one, (*path, key))


def changed(path: tuple[Any, ...], evil: Any) -> list[Any]:
    events: Any = copy.deepcopy(GOOD)
    at = events
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = copy.deepcopy(evil)
    return list(events)


def test_the_good_answer_is_one() -> None:
    report = report_of(*lines_of(GOOD))
    assert report.fingerprint is not None
    assert report.fingerprint.layers.numerics["mm"].digest is not None
    assert report.fingerprint.device == "card"


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(list(places(GOOD))), st.sampled_from(EVIL))
def test_any_value_may_be_wrong(path: tuple[Any, ...], evil: Any) -> None:
    report_of(*lines_of(changed(path, evil)))


@pytest.mark.parametrize(
    ("path", "evil"),
    [
        ((5, "values", "flags"), True),
        ((5, "values", "flags"), [1]),
        ((5, "values", "threads"), None),
        ((5, "values", "sm_count"), 10**30),
        ((4, "name"), "no such suite"),
    ],
)
def test_a_key_that_is_none_gives_no_fingerprint(path: tuple[Any, ...], evil: Any) -> None:
    report = report_of(*lines_of(changed(path, evil)))
    assert report.fingerprint is None
    assert report.verdict.exit_code in {1, 3}


@pytest.mark.parametrize(
    ("evil", "said"), [(2**53, "a number is beyond"), ([[]] * 2, ""), (-(2**53), "beyond")]
)
def test_a_probe_with_a_number_that_no_digest_can_hold_failed(evil: Any, said: str) -> None:
    report = report_of(*lines_of(changed((7, "values", "a"), evil)))
    assert report.fingerprint is not None
    probe = report.fingerprint.layers.numerics["mm"]
    assert (probe.status == "failed") is bool(said)
    assert said in probe.reason


def test_a_value_nested_too_deep_is_not_kept() -> None:
    deep: Any = 1
    for _ in range(MAX_DEPTH + 1):
        deep = [deep]
    report = report_of(*lines_of(changed((7, "values", "a"), deep)))
    assert report.fingerprint is not None
    assert "deeper" in report.fingerprint.layers.numerics["mm"].reason


@pytest.mark.parametrize(
    "operation",
    [["_class__", 1, 2], ["malloc", 0], ["malloc", 0, -1, 0], ["free", []], [], [["free"]]],
)
def test_operations_of_no_allocator_are_not_carried_out(operation: Any) -> None:
    report = report_of(*lines_of(changed((6, "operations", 0), operation)))
    assert report.fingerprint is not None
    result = report.fingerprint.layers.allocator["exercises.streams"]
    assert result.conforms is None
    assert result.reason == "operation 1 is none that an allocator has"


def taken(*lines: bytes) -> launch._Answer:
    answer = launch._Answer(None)
    for line in lines:
        if not answer.take(line):
            break
    return answer


def test_texts_are_cut() -> None:
    error = {"event": "error", "stage": "s" * 9999, "type": "T", "message": "m" * 9999}
    run = taken(*lines_of([GOOD[0], error])).collected(launch.Finished(), "", 1.0)
    assert len(run.errors[0].stage) < 300
    assert len(run.errors[0].message) < 2100


@pytest.mark.parametrize(
    "event",
    [
        {"event": "probe", "name": "x", "layer": "numerics", "status": "exact"},
        {"event": "confound", "name": "x"},
        {"event": "error", "stage": "s", "type": "T", "message": ""},
    ],
)
def test_too_many_events_end_the_answer(event: dict[str, Any]) -> None:
    start, line = lines_of([GOOD[0], event])
    answer = taken(start, *[line] * (MAX_EVENTS + 5))
    assert f"more than {MAX_EVENTS} events" in answer.fault


def test_too_many_facts_end_the_answer() -> None:
    facts = {"event": "facts", "family": "f", "values": dict.fromkeys(map(str, range(5000)), 1)}
    assert "facts" in taken(*lines_of([GOOD[0], facts])).fault


def test_a_line_beyond_the_limit_is_not_decoded() -> None:
    line = b'{"event": "stage", "name": "' + b"a" * MAX_LINE_BYTES + b'"}'
    assert "longer than" in taken(lines_of(GOOD)[0], line).fault


def test_every_suite_fits() -> None:
    assert all(
        len(probes) < MAX_EVENTS for suite in SUITES.values() for probes in suite.probes.values()
    )


def test_a_report_stays_one_that_can_be_read() -> None:
    values: Any = {"a": [[]] * 200_000}
    for _ in range(20):
        values = {"a": values}
    large = {**GOOD[7], "values": values}
    report = report_of(*lines_of([*GOOD[:7], *({**large, "name": f"p{i}"} for i in range(3))]))
    assert len(codec.encode(report)) < codec.MAX_DOCUMENT_BYTES
    assert report.fingerprint is not None
    last = report.fingerprint.layers.numerics["p2"]
    assert (last.status, last.values) == ("failed", None)
    assert "more than" in last.reason

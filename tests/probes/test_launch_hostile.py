"""A child that does not keep to the protocol gives a reason, never an exception."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from envkit.probes import launch

if TYPE_CHECKING:
    from probes.conftest import Target

HELLO = json.dumps(
    {
        "event": "hello",
        "python": "3.11.7",
        "executable": "/x",
        "prefix": "/",
        "base_prefix": "/",
        "pid": 1,
        "argv0": "start.py",
    }
)
Make = Callable[[str], Path]


def said(*lines: str) -> str:
    return "\n".join(f"printf '%s\\n' {shlex.quote(line)}" for line in lines)


def broken(run: launch.ChildRun) -> str:
    assert isinstance(run.outcome, launch.Broken)
    assert launch.describe(run) == run.outcome.reason
    return run.outcome.reason


@pytest.mark.parametrize(
    "line",
    [
        "Hello, world",
        "",
        "{}",
        "[]",
        "null",
        '{"event": "nonsense"}',
        '{"event": 7}',
        '{"event": "stage", "name": 7}',
        '{"event": "stage"}',
        '{"event": "facts", "family": "torch", "values": []}',
        '{"event": "probe", "name": "x", "layer": "luck", "status": "exact"}',
        '{"event": "self_test", "device": "cpu", "tests": [{"name": "x"}]}',
        '{"event": "progress", "done": 1e400, "total": 1, "name": "x"}',
        '{"event": "stage", "name": "' + "x" * 100_000,
        '{"event": "facts", "family": "x", "values": ' + '{"a":' * 50_000,
        "\u001b[31mred",
        HELLO,
    ],
)
def test_line_that_is_no_event(target: Target, fake_python: Make, line: str) -> None:
    folder = target.site / "line"
    folder.write_text(line + "\n")
    run = target.run(python=fake_python(f"{said(HELLO)}\ncat {folder}\nsleep 60"))
    reason = broken(run)
    assert len(reason) < 400
    assert reason.isprintable()
    assert run.hello is not None
    assert run.seconds < 30  # it was not waited for


def test_bytes_that_are_no_text(target: Target, fake_python: Make) -> None:
    shell = f'{said(HELLO)}\nprintf \'{{"event": "stage", "name": "\\377\\376"}}\\n\''
    assert "is not an event" in broken(target.run(python=fake_python(shell)))


def test_events_before_hello(target: Target, fake_python: Make) -> None:
    run = target.run(python=fake_python(said('{"event": "done"}')))
    assert "out of order" in broken(run)


def test_answer_without_end(
    target: Target, fake_python: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "MAX_ANSWER_BYTES", 1_000_000)
    endless = (
        f"{said(HELLO)}\nwhile :; do {said(json.dumps({'event': 'stage', 'name': 'x'}))}; done"
    )
    assert "longer than 1000000 bytes" in broken(target.run(python=fake_python(endless)))


def test_one_line_without_end(
    target: Target, fake_python: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "MAX_ANSWER_BYTES", 1_000_000)
    run = target.run(python=fake_python(f"{said(HELLO)}\ncat /dev/zero"))
    assert "longer than 1000000 bytes" in broken(run)


def test_answer_that_stops_in_the_middle(target: Target, fake_python: Make) -> None:
    shell = f'{said(HELLO)}\nprintf \'{{"event": "sta\'\nexit 0'
    run = target.run(python=fake_python(shell))
    assert run.outcome == launch.Exited(code=0)
    assert run.stage == "starting_probe"


def test_program_that_is_no_python(target: Target, fake_python: Make) -> None:
    run = target.run(python=fake_python("exit 0"))
    assert isinstance(run.outcome, launch.NotStarted)
    assert "no Python interpreter" in run.outcome.reason


def test_what_comes_after_done_is_not_waited_for(target: Target, fake_python: Make) -> None:
    run = target.run(python=fake_python(said(HELLO, '{"event": "done"}') + "\nsleep 60"))
    assert run.outcome == launch.Finished()
    assert run.seconds < 30


def test_unknown_fields_of_a_newer_child_are_passed_over(target: Target, fake_python: Make) -> None:
    stage = '{"event": "stage", "name": "x", "colour": "blue"}'
    run = target.run(python=fake_python(said(HELLO, stage, '{"event": "done"}')))
    assert run.outcome == launch.Finished()
    assert run.stage == "x"


def test_facts_of_one_family_add_up(target: Target, fake_python: Make) -> None:
    facts = [
        {"event": "facts", "family": "torch", "values": values}
        for values in ({"a": 1, "b": {"unreadable": "early"}}, {"b": 2})
    ]
    run = target.run(python=fake_python(said(HELLO, *map(json.dumps, facts), '{"event": "done"}')))
    assert run.facts == {"torch": {"a": 1, "b": 2}}


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.binary(max_size=200) | st.text(max_size=100).map(str.encode))
def test_no_line_makes_the_collector_raise(line: bytes) -> None:
    answer = launch._Answer(None)
    answer.take(HELLO.encode())
    answer.take(line)
    assert answer.hello is not None


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)
event_names = st.sampled_from(
    ["stage", "facts", "self_test", "key", "progress", "probe", "confound", "error", "done"]
)
fields = st.sampled_from(
    ["name", "family", "values", "device", "tests", "done", "total", "layer", "status", "stage"]
)


@settings(max_examples=300, deadline=None)
@given(event_names, st.dictionaries(fields, json_values))
def test_events_with_wrong_fields_are_refused_or_kept(name: str, values: dict[str, object]) -> None:
    answer = launch._Answer(None)
    answer.take(HELLO.encode())
    went_on = answer.take(json.dumps({**values, "event": name}).encode())
    assert went_on == (not answer.fault and not answer.complete)

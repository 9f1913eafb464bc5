from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from golden_text import assert_golden
from measured_strategies import MEASURED, SETUP, child_run

from envkit.model.report import Target
from envkit.model.strategies import LargestBatch, Strategies
from envkit.probes.child.strategies.catalogue import CALL_STRATEGIES, STRATEGIES
from envkit.probes.events import MeasuredValues, Measurement
from envkit.render import strategies_text
from envkit.render.strategies_text import (
    headline,
    largest_said,
    render_strategies_markdown,
    render_strategies_text,
)
from envkit.render.style import Style
from envkit.workflows.strategies import StrategiesRequest, measure_strategies

GOLDEN = Path(__file__).parent / "golden"


def document(*measured: object) -> Strategies:
    names = tuple(one.name for one in measured if isinstance(one, Measurement))
    return measure_strategies(
        StrategiesRequest(only=names),
        Target(kind="venv", prefix=None, python="/env/bin/python", chosen_by="a test"),
        lambda *_: child_run(*measured),
        created="2026-11-30T00:00:00Z",
        tell=lambda *_: None,
    )


def test_text() -> None:
    text = render_strategies_text(document(*MEASURED), Style())
    assert_golden(GOLDEN / "strategies.txt", text)
    assert max(map(len, text.splitlines())) <= 80


def test_markdown() -> None:
    assert_golden(GOLDEN / "strategies.md", render_strategies_markdown(document(*MEASURED)))


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        ((0.05, 0.06, 0.07), "60.00 ms (-40%, 50.00 to 70.00) a step"),
        ((0.05, 0.06, 0.09), "60.00 ms (about -40%, 50.00 to 90.00) a step"),
        ((0.12, 0.14, 0.11), "120.00 ms (+20%, 110.00 to 140.00) a step"),
        ((0.1,), "100.00 ms (about +0%) a step"),
    ],
)
def test_a_time_has_its_spread_and_what_may_be_noise_is_only_about(
    seconds: tuple[float, ...], said: str
) -> None:
    def timed(name: str, *steps: float) -> Measurement:
        values = MeasuredValues(allocated_bytes=1 << 20, step_seconds=steps)
        return Measurement(name=name, status="measured", reason="", values=values)

    found = document(SETUP, timed("baseline", 0.1, 0.09, 0.105), timed("checkpointing", *seconds))
    text = " ".join(render_strategies_text(found, Style(width=200)).split())
    assert "100.00 ms (90.00 to 105.00) a step" in text
    assert said in text
    old = msgspec.structs.replace(
        found,
        strategies=tuple(
            msgspec.structs.replace(one, step_seconds_range=None) for one in found.strategies
        ),
    )
    told = " ".join(render_strategies_text(old, Style(width=200)).split())
    assert "allocated 1024.00 KiB, 100.00 ms a step" in told
    assert "about" not in told


def test_quiet_is_the_verdict() -> None:
    text = render_strategies_text(document(*MEASURED), Style(verbosity=-1))
    assert text.count("\n") == 4


def test_a_workload_that_does_not_fit_names_what_makes_it_fit() -> None:
    full = Measurement(name="baseline", status="out_of_memory", reason="CUDA out of memory")
    rest = [one for one in MEASURED if getattr(one, "name", "") != "baseline"]
    said = headline(document(full, *rest))
    assert said.startswith("It does not fit as it is. With one of these it does: smaller-batch, ")
    assert "autocast-fp16" not in said


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "37, held for 50 steps; 38 does not fit; 3 trials."),
        ({"smallest_that_failed": None}, "37, held for 50 steps; no larger one was tried; 3"),
        ({"status": "none_fits", "batch": None, "smallest_that_failed": 1}, "none fits (3 trials"),
        ({"status": "not_run", "reason": "no GPU"}, "not looked for: no GPU."),
    ],
)
def test_the_search_is_told_as_it_went(changes: dict[str, object], said: str) -> None:
    found = document(*MEASURED).largest_batch
    assert isinstance(found, LargestBatch)
    assert largest_said(msgspec.structs.replace(found, **changes)).startswith(said)


def test_every_strategy_has_words() -> None:
    names = {row.name for row in (*STRATEGIES, *CALL_STRATEGIES)}
    assert names == set(strategies_text._WHAT)
    assert SETUP.workload in render_strategies_text(document(*MEASURED), Style())

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from golden_text import assert_golden
from measured_strategies import MEASURED, SETUP, child_run

from envkit.model.report import Target
from envkit.model.strategies import LargestBatch, Strategies
from envkit.probes.child.strategies.catalogue import CALL_STRATEGIES, STRATEGIES
from envkit.probes.events import Measurement
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

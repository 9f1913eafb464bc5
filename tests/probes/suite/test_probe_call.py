"""The user's own step: found in their folder, measured, and told as theirs when it fails."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from suite_run import run

Child = Callable[[str], ModuleType]

STEPS = """
import torch

kept = []

def step():
    print("not an event")
    model = torch.nn.Linear(8, 8)
    loss = model(torch.randn(2, 8)).square().mean()
    loss.backward()
    return {"loss": loss, "steps": [1, 0.5], "name": "x"}

def leaking():
    kept.append(torch.ones(1000))

def sparse():
    return torch.eye(4).to_sparse()

def other_when_watched():
    kept.append(0)
    return torch.ones(100 if len(kept) > 3 else 200)

def half_comparable():
    return {"loss": torch.ones(2), "rows": (row for row in range(3))}

def not_comparable():
    return (row for row in range(3))

def counting():
    kept.append(0)
    return len(kept)

def broken():
    inner()

def inner():
    raise ValueError("my shape is wrong")

def leaving():
    raise SystemExit(3)

not_a_function = 3
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Make a project's folder, and forget what was imported from it."""
    project = tmp_path / "project"
    project.mkdir()
    (project / "mysteps.py").write_text(STEPS, "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield project
    sys.modules.pop("mysteps", None)


class Found(dict[str, Any]):
    """Collects what is reported, by part; the rest is one reason."""

    def __call__(self, part: str = "", **found: Any) -> None:
        assert part not in self
        self[part] = found

    def rest(self, **found: Any) -> None:
        self["rest"] = found


@pytest.fixture(params=["cpu", "cuda:0"])
def place(request: pytest.FixtureRequest, child: Child, torch: Any, fake_torch: Any) -> Any:
    chosen = torch if request.param == "cpu" else fake_torch
    return child("place").Place(chosen, child("torch_api"), request.param)


def measured(child: Child, place: Any, folder: Path, name: str) -> Found:
    found = Found()
    child("workloads.call").measure(place, f"mysteps:{name}", 7, found, folder=str(folder))
    json.dumps(found)
    return found


def test_a_step_has_all_its_parts_twice_alike(child: Child, place: Any, folder: Path) -> None:
    found = measured(child, place, folder, "step")
    assert {*found} == {"tensors", "workspaces", "peaks", "outputs", "left"}
    for part in found.values():
        assert part["runs"][0] == part["runs"][1]
    assert found["left"]["runs"][0] == {"left_bytes": 0}
    outputs = found["outputs"]["runs"][0]
    names = ("loss", "steps.0", "steps.1", "name")
    assert {*outputs} == {f"returned.{name}" for name in names}
    assert outputs["returned.steps.1"] == {"value": "0x1.0000000000000p-1"}
    assert found["outputs"]["reason"] is None
    assert 8 * 8 * 4 in found["tensors"]["runs"][0]["requests"]


def test_a_step_that_cannot_be_watched_keeps_its_peaks_and_outputs(
    child: Child, place: Any, folder: Path
) -> None:
    found = measured(child, place, folder, "other_when_watched")
    assert {*found} >= {"tensors", "workspaces", "left", "peaks", "outputs"}
    for part in ("tensors", "workspaces", "left"):
        assert "torch.compile" in found[part]["not_run"]
    for part in ("peaks", "outputs"):
        assert found[part]["runs"][0] == found[part]["runs"][1]


def test_what_every_call_leaves_behind_is_counted_to_the_byte(
    child: Child, place: Any, folder: Path
) -> None:
    found = measured(child, place, folder, "leaking")
    assert found["left"]["runs"] == [{"left_bytes": 4000}, {"left_bytes": 4000}]
    assert "returned nothing that can be compared" in found["outputs"]["not_run"]


def test_a_sparse_tensor_is_compared_and_nobody_blamed(
    child: Child, torch: Any, folder: Path
) -> None:
    place = child("place").Place(torch, child("torch_api"), "cpu")
    found = measured(child, place, folder, "sparse")
    outputs = found["outputs"]["runs"][0]
    assert {*outputs} == {
        f"returned.{part}" for part in ("shape.0", "shape.1", "indices", "values")
    }


def test_what_cannot_be_compared_is_named(child: Child, place: Any, folder: Path) -> None:
    told = measured(child, place, folder, "half_comparable")["outputs"]
    assert {*told["runs"][0]} == {"returned.loss"}
    assert told["reason"] == "not compared: returned.rows (generator)"
    told = measured(child, place, folder, "not_comparable")["outputs"]
    assert told["not_run"].endswith("can be compared; not compared: returned (generator)")


def test_outputs_that_change_are_reported_as_they_are(
    child: Child, place: Any, folder: Path
) -> None:
    first, second = measured(child, place, folder, "counting")["outputs"]["runs"]
    assert first != second
    assert child("repeats").judge([first, second]).status == "unstable"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("broken", "your own code raised ValueError: my shape is wrong (mysteps.py:"),
        ("leaving", "your own code raised SystemExit: 3 (mysteps.py:"),
        ("missing", "module mysteps has no function missing"),
        ("not_a_function", "mysteps:not_a_function is int, and no function"),
    ],
)
def test_what_the_user_s_code_raises_is_told_as_theirs(
    child: Child, place: Any, folder: Path, *, name: str, said: str
) -> None:
    failed = measured(child, place, folder, name)["rest"]["failed"]
    assert failed.startswith(said)
    assert "envkit" not in failed
    assert str(folder) not in failed


def test_the_traceback_ends_where_the_error_is(child: Child, place: Any, folder: Path) -> None:
    failed = measured(child, place, folder, "broken")["rest"]["failed"]
    assert failed.endswith(" in inner)")
    assert " in broken > " in failed


def test_a_module_that_is_not_there_is_told(child: Child, torch: Any, folder: Path) -> None:
    place = child("place").Place(torch, child("torch_api"), "cpu")
    found = Found()
    child("workloads.call").measure(place, "no_such_module:f", 7, found, folder=str(folder))
    said = f"module no_such_module was not found from folder {folder}"
    assert found["rest"]["failed"] == said


def test_what_a_module_lacks_itself_is_told_as_theirs(
    child: Child, torch: Any, folder: Path
) -> None:
    (folder / "mysteps.py").write_text("import no_such_module\n", "utf-8")
    place = child("place").Place(torch, child("torch_api"), "cpu")
    failed = measured(child, place, folder, "step")["rest"]["failed"]
    assert failed.startswith(
        "your own code raised ModuleNotFoundError: No module named 'no_such_module' (mysteps.py:1"
    )


def test_the_suite_measures_it_in_its_own_child_after_all_else(
    tmp_path: Path, folder: Path, torch: Any
) -> None:
    del torch
    name = "call.mysteps:step.outputs"
    call = {"target": "mysteps:step", "folder": str(folder)}
    events = run(tmp_path, call=call, probes=[name, "numerics.matmul.fp32"])
    told = [event for event in events if event["event"] == "probe"]
    assert [(one["name"], one["status"], one["optional"]) for one in told] == [
        ("numerics.matmul.fp32", "exact", False),
        (name, "exact", True),
    ]
    assert not [event for event in events if event["event"] == "error"]

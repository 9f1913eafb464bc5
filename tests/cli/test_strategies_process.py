"""`envkit memory strategies` as a user runs it, on the CPU."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from running import fake_torch, run_envkit


def strategies(*arguments: str | Path, **more: object) -> tuple[int, str, str]:
    done = run_envkit(
        *("memory", "strategies", "--device", "cpu", "--python", sys.executable, *arguments),
        **more,  # type: ignore[arg-type]
    )
    return done.returncode, done.stdout, done.stderr


def test_a_remedy_is_measured_and_written(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    file = tmp_path / "found.json"
    asked = ("--only", "no-grad", "--workload", "resnet50", "--batch", "2", "-o", file)
    code, out, err = strategies(*asked)
    assert (code, out) == (0, ""), err
    document = json.loads(file.read_text())
    assert document["schema"] == "envkit.strategies/1"
    assert (document["workload"], document["batch"], document["device"]) == (
        "resnet-tiny",
        2,
        "cpu",
    )
    heavy, light = document["strategies"]
    assert light["results"] == "bitwise_equal"
    assert light["peak_allocated_bytes"] < heavy["peak_allocated_bytes"]
    assert light["peak_reserved_bytes"] is None
    assert document["largest_batch"] is None


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--only", "magic"), "There is no strategy magic here."),
        (("--call", "train"), "--call train: it is not MODULE:FUNCTION."),
        (("--call", "train:step", "--workload", "vit-b16"), "name two things to measure"),
        (("--timeout", "0"), "0.0 is not a time limit"),
        (("--memory-fraction", "0"), "--memory-fraction"),
    ],
)
def test_wrong_usage_is_exit_2(arguments: tuple[str, ...], said: str) -> None:
    code, _, err = strategies(*arguments)
    assert code == 2
    assert said in err.replace("\n  ", " ")


def test_without_torch_nothing_can_be_measured(tmp_path: Path) -> None:
    site = fake_torch(tmp_path / "site", "raise ImportError('no such library')")
    code, _, err = strategies(python_path=site)
    assert code == 3
    assert "Nothing could be measured: ImportError: no such library." in err

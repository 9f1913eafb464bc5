"""`envkit memory` as a process."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest
from recorded_process import busy
from running import run_envkit as envkit


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(pickle.dumps(busy(8).snapshot(), 4))
    return path


def test_replay_as_text_and_json(snapshot: Path) -> None:
    done = envkit("memory", "replay", snapshot)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("GPU 1  ")
    document = json.loads(envkit("memory", "replay", snapshot, "--json").stdout)
    assert document["schema"] == "envkit.replay/1"
    assert document["devices"][0]["proof"]["end_state_equal"] is True
    assert len(document["devices"][0]["settings"]) == 5


def test_must_fit_ends_with_1(snapshot: Path) -> None:
    options = ("--total-memory", "8MiB", "--must-fit")
    assert envkit("memory", "replay", snapshot, *options).returncode == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "needs a command"),
        (("repaly",), "There is no command 'repaly'"),
        (("replay", "nowhere"), "cannot be read"),
        (("replay", "nowhere", "--total-memory", "3foo"), "is no size"),
    ],
)
def test_wrong_usage_is_exit_2(arguments: tuple[str, ...], said: str) -> None:
    done = envkit("memory", *arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert "next: " in done.stderr


def test_help_of_the_group_ends_with_examples() -> None:
    done = envkit("memory", "-h")
    assert done.returncode == 0
    assert "envkit memory replay run.pickle" in done.stdout


@pytest.mark.parametrize(("ending", "begins"), [("html", "<!doctype html>"), ("svg", "<svg ")])
def test_a_picture_by_the_ending_and_by_the_option(
    snapshot: Path, tmp_path: Path, ending: str, begins: str
) -> None:
    file = tmp_path / f"memory.{ending}"
    done = envkit("memory", "replay", snapshot, "-o", file)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert file.read_text().startswith(begins)
    asked = envkit("memory", "replay", snapshot, "--format", ending)
    assert asked.stdout == file.read_text()

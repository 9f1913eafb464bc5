"""`envkit oom` as a process: input, formats, exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from running import run_envkit as envkit

MESSAGE = (
    "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 8.00 GiB total capacity; "
    "7.00 GiB already allocated; 512.00 MiB free; 7.10 GiB reserved in total by PyTorch)\n"
)


def test_a_log_on_standard_input() -> None:
    done = envkit("oom", "-", stdin=MESSAGE.encode())
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("capacity  ")


def test_a_file_as_json(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text(f"start\n{MESSAGE}")
    done = envkit("oom", log, "--json")
    document = json.loads(done.stdout)
    assert list(document) == ["schema", "events", "events_left_out"]
    (event,) = document["events"]
    assert list(event)[:4] == ["class", "numbers", "explanation", "remedies"]
    assert (event["class"], event["line"]) == ("capacity", 2)
    assert event["numbers"]["tried_bytes"] == 2 << 30


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig"])
def test_what_powershell_writes(tmp_path: Path, encoding: str) -> None:
    log = tmp_path / "train.log"
    log.write_text(f"größe\n{MESSAGE}", encoding=encoding)
    assert envkit("oom", log).returncode == 0


@pytest.mark.parametrize(("name", "is_json"), [("out.json", True), ("out.txt", False)])
def test_the_name_of_the_output_chooses_the_format(
    tmp_path: Path, name: str, *, is_json: bool
) -> None:
    done = envkit("oom", "-", "-o", tmp_path / name, stdin=MESSAGE.encode())
    assert (done.returncode, done.stdout) == (0, "")
    assert (tmp_path / name).read_text().startswith("{") is is_json


def test_without_a_message_it_is_exit_3() -> None:
    done = envkit("oom", "-", stdin=b"all went well\n")
    assert (done.returncode, done.stdout) == (3, "")
    assert "There is no out-of-memory message in standard input." in done.stderr


@pytest.mark.parametrize("name", ["nowhere.log", "."])
def test_what_cannot_be_read_is_exit_2(tmp_path: Path, name: str) -> None:
    done = envkit("oom", name, "--json", cwd=tmp_path)
    assert done.returncode == 2
    assert json.loads(done.stdout)["code"] == "INPUT"

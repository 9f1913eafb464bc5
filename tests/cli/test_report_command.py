from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from measured import h200_path
from running import environment, run_envkit


def test_a_report_becomes_a_file(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    done = run_envkit("report", h200_path(), "-o", page)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert page.read_text("utf-8").startswith("<!doctype html>")


def test_without_o_the_page_is_on_stdout_and_a_folder_of_one_is_a_machine(tmp_path: Path) -> None:
    shutil.copy(h200_path(), tmp_path / "a.json")
    done = run_envkit("report", tmp_path)
    assert done.returncode == 0
    assert "<title>Pass: h200 - envkit</title>" in done.stdout


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="this system has no pseudo-terminals")
def test_a_terminal_is_not_filled_with_a_page() -> None:
    ours, terminal = os.openpty()
    try:
        done = subprocess.run(
            [sys.executable, "-m", "envkit", "report", h200_path()],
            stdout=terminal,
            stderr=subprocess.PIPE,
            env=environment(),
            timeout=120,
            check=False,
        )
    finally:
        os.close(terminal)
        os.close(ours)
    assert done.returncode == 2
    assert b"-o report.html" in done.stderr


def test_a_folder_of_two_is_a_pair(tmp_path: Path) -> None:
    for name in ("a.json", "b.json"):
        shutil.copy(h200_path(), tmp_path / name)
    done = run_envkit("report", tmp_path)
    assert done.returncode == 0
    assert "lie on each other" in done.stdout


def test_what_is_no_report_is_named(tmp_path: Path) -> None:
    freeze = tmp_path / "freeze.txt"
    freeze.write_text("torch==2.11.0\nnumpy==2.3.4\n")
    done = run_envkit("report", freeze)
    assert done.returncode == 2
    assert "is a pip-freeze; the page of one machine is made from a report" in done.stderr


def test_a_changed_report_is_refused(tmp_path: Path) -> None:
    changed = tmp_path / "changed.json"
    report = json.loads(h200_path().read_bytes())
    report["fingerprint"]["short"]["mem"] = "deadbeef0000"
    changed.write_text(json.dumps(report))
    done = run_envkit("report", changed)
    assert done.returncode == 2
    assert "does not hold" in done.stderr

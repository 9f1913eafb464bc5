"""A child does not outlive an envkit that was killed, whatever torch is doing."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from probes.conftest import Target

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="prctl is Linux's")
ROOT = Path(__file__).parents[2]
#: A torch whose import says who it is and then hangs.
HANGS = """\
import os, time
with open({place!r} + ".new", "w") as file:
    file.write(str(os.getpid()))
os.rename({place!r} + ".new", {place!r})
time.sleep(600)
"""
PARENT = """\
import sys
from envkit.probes.events import ChildRequest
from envkit.probes.launch import run_child
run_child(sys.executable, ChildRequest(time_limit_s=300.0))
"""


def within(seconds: float, happened: object) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if happened():  # type: ignore[operator]
            return True
        time.sleep(0.02)
    return False


def has_ended(pid: int) -> bool:
    try:
        # A zombie that nobody waits for has ended too.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def test_the_child_ends_with_a_parent_that_was_killed(target: Target, tmp_path: Path) -> None:
    place = tmp_path / "pid"
    target.module("torch", HANGS.format(place=str(place)))
    env = {**os.environ, "PYTHONPATH": os.pathsep.join((str(target.site), str(ROOT)))}
    parent = subprocess.Popen([sys.executable, "-c", PARENT], env=env)
    try:
        assert within(60, place.exists)
        child = int(place.read_text())
        assert not has_ended(child)
    finally:
        parent.kill()
        parent.wait()
    assert within(30, lambda: has_ended(child))


def test_a_child_with_another_parent_than_it_was_told_of_stays(
    target: Target, tmp_path: Path
) -> None:
    script = tmp_path / "python"
    script.write_text(f'#!/bin/sh\n"{sys.executable}" "$@"\nexit $?\n')
    script.chmod(0o755)
    run = target.run(python=script)
    assert run.hello is not None
    assert any("No module named 'torch'" in error.message for error in run.errors) or run.facts

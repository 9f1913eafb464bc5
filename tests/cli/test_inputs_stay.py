"""A command whose `-o` names a file that it reads writes nothing: what it reads would be lost."""

from __future__ import annotations

from pathlib import Path

import pytest
from running import run_envkit

COMMANDS = (
    ("report", "input"),
    ("report", "input", "other"),
    ("diff", "other", "input"),
    ("oom", "input"),
    ("memory", "replay", "input"),
)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("output", ["input", "./input", "link", "twin"])
def test_an_input_is_not_written_over(
    command: tuple[str, ...], output: str, tmp_path: Path
) -> None:
    (tmp_path / "input").write_text("what was read")
    (tmp_path / "other").write_text("and this")
    (tmp_path / "link").symlink_to("input")
    (tmp_path / "twin").hardlink_to(tmp_path / "input")
    done = run_envkit(*command, "-o", output, cwd=tmp_path)
    assert done.returncode == 2
    assert f"-o {output} would be written over input" in done.stderr
    assert (tmp_path / "input").read_text() == "what was read"
    assert len(list(tmp_path.iterdir())) == 4

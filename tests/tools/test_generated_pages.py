"""Generated pages are checked, and written, in one place."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

TOOLS = Path(__file__).parent.parent.parent / "tools"


def settled(module: ModuleType, monkeypatch: pytest.MonkeyPatch, pages: dict[Path, str]) -> int:
    monkeypatch.setattr("sys.argv", ["some_pages.py"])
    code: int = module.settle(lambda: pages, "About.")
    return code


def test_what_is_out_of_date_is_named_and_left(
    generated_pages: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    good, old = tmp_path / "good.md", tmp_path / "old.md"
    good.write_text("new é", encoding="utf-8")
    old.write_text("old", encoding="utf-8")
    wanted = {good: "new é", old: "new", tmp_path / "missing.md": "new"}
    assert settled(generated_pages, monkeypatch, wanted) == 1
    assert old.read_text() == "old"
    assert not (tmp_path / "missing.md").exists()
    said = capsys.readouterr().out
    assert "old.md: out of date" in said
    assert "missing.md: out of date" in said
    assert "good.md" not in said


def test_write_writes_what_is_out_of_date(
    generated_pages: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    wanted = {tmp_path / "old.md": "new é", tmp_path / "missing.md": "new"}
    (tmp_path / "old.md").write_text("old")
    monkeypatch.setattr("sys.argv", ["some_pages.py", "--write"])
    assert generated_pages.settle(lambda: wanted, "About.") == 0
    assert {path: path.read_text("utf-8") for path in wanted} == wanted
    assert settled(generated_pages, monkeypatch, wanted) == 0


def test_no_script_does_it_by_itself() -> None:
    flag = '"--write"'
    having = {path.name for path in TOOLS.glob("*.py") if flag in path.read_text("utf-8")}
    assert having == {"generated_pages.py"}

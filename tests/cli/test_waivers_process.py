"""Waivers of the configuration through the whole command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from running import run_envkit

PASTES = Path(__file__).parents[1] / "data" / "pastes"
REASON = "the driver is updated in January"


def waive(folder: Path, code: str, until: str, name: str = "envkit.toml") -> None:
    table = "[[tool.envkit.waivers]]" if name == "pyproject.toml" else "[[waivers]]"
    text = f'{table}\ncode = "{code}"\nreason = "{REASON}"\nuntil = {until}\n'
    (folder / name).write_text(text)


def verify(folder: Path, *more: str) -> tuple[int, dict[str, Any]]:
    paste = str(PASTES / "old-driver.txt")
    done = run_envkit("verify", "--json", "--from", paste, *more, cwd=folder)
    assert done.stderr == ""
    return done.returncode, json.loads(done.stdout)


def test_without_a_waiver_it_fails(tmp_path: Path) -> None:
    assert verify(tmp_path)[0] == 1


@pytest.mark.parametrize("name", ["envkit.toml", "pyproject.toml"])
def test_a_waived_error_passes_and_the_report_says_why(tmp_path: Path, name: str) -> None:
    waive(tmp_path, "DRV002", "2999-12-31", name)
    code, report = verify(tmp_path)
    assert (code, report["verdict"]["status"]) == (0, "pass")
    found = next(one for one in report["findings"] if one["code"] == "DRV002")
    assert found["severity"] == "info"
    assert REASON in found["evidence"][-1]["seen"]
    assert found["evidence"][-1]["source"] == name
    assert next(one for one in report["checks"] if one["code"] == "DRV002")["status"] == "fail"

    text = run_envkit("verify", "--from", PASTES / "old-driver.txt", cwd=tmp_path)
    assert text.returncode == 0
    assert "waived up to 2999-12-31" in " ".join(text.stdout.split())


def test_an_expired_waiver_fails_and_says_so(tmp_path: Path) -> None:
    waive(tmp_path, "DRV002", "2020-01-31")
    code, report = verify(tmp_path)
    assert code == 1
    assert "expired on 2020-01-31" in str(report["findings"])


def test_a_waiver_for_another_code_changes_nothing(tmp_path: Path) -> None:
    waive(tmp_path, "GPU002", "2999-12-31")
    code, report = verify(tmp_path)
    assert code == 1
    assert "waived" not in str(report["findings"])


@pytest.mark.parametrize("code", ["DRV099", "TOR000", "driver"])
def test_a_waiver_for_no_rule_is_an_error_that_names_it(tmp_path: Path, code: str) -> None:
    waive(tmp_path, code, "2999-12-31")
    done = run_envkit("verify", "--from", PASTES / "old-driver.txt", cwd=tmp_path)
    assert done.returncode == 2
    assert "envkit.toml" in done.stderr
    assert code in done.stderr


def test_a_saved_report_keeps_its_waiver(tmp_path: Path) -> None:
    waive(tmp_path, "DRV002", "2999-12-31")
    saved = tmp_path / "report.json"
    assert verify(tmp_path, "-o", str(saved))[0] == 0
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "envkit.toml").write_text("")
    done = run_envkit("verify", "--json", "--from", saved, cwd=elsewhere)
    assert done.returncode == 0
    assert json.loads(done.stdout) == json.loads(saved.read_text())

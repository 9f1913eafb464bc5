from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from envkit.errors import InputError, UsageError
from envkit.model.finding import Severity
from envkit.workflows.config import read_configuration
from envkit.workflows.lint import exit_code, lint_specs

TODAY = dt.date(2026, 11, 30)
FAULTY = """\
name: x
channels: [pytorch, nvidia, nodefaults]
dependencies:
  - python=3.12
  - pytorch=2.6.0
  - pytorch-cuda=12.4
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()
    (tmp_path / "a.yml").write_text(FAULTY)
    (tmp_path / "b.yml").write_text(FAULTY.replace("2.6.0", "2.5.1"))
    return tmp_path


@pytest.mark.usefixtures("folder")
def test_specs_are_judged_in_the_order_named_and_each_once() -> None:
    found = lint_specs(["b.yml", "a.yml", "b.yml"], today=TODAY)
    assert [(one.file, one.code) for one in found.findings] == [
        ("b.yml", "SPC014"),
        ("a.yml", "SPC004"),
        ("a.yml", "SPC014"),
    ]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("spec", "fail_on", "code"),
    [("a.yml", "error", 1), ("b.yml", "error", 0), ("b.yml", "warning", 0)],
)
def test_errors_make_the_exit_code(spec: str, fail_on: str, code: int) -> None:
    assert fail_on in {"error", "warning"}
    document = lint_specs([spec], today=TODAY)
    assert exit_code(document, fail_on="error" if fail_on == "error" else "warning") == code


def test_warnings_fail_where_that_was_asked_for(folder: Path) -> None:
    (folder / "c.yml").write_text(FAULTY.replace("2.6.0", "2.5.1").replace("=3.12", ""))
    document = lint_specs(["c.yml"], today=TODAY)
    assert exit_code(document, fail_on="error") == 0
    assert exit_code(document, fail_on="warning") == 1
    assert exit_code(document, fail_on="unknown") == 1


def test_a_lock_beside_the_spec_is_seen(folder: Path) -> None:
    (folder / "d.yml").write_text("channels: [conda-forge]\ndependencies: [python=3.12]\n")
    before = lint_specs(["d.yml"], today=TODAY).findings[0]
    lock = "package:\n- url: https://conda.anaconda.org/conda-forge/noarch/a-1-0.conda\n"
    (folder / "d.conda-lock.yml").write_text(lock)
    after = lint_specs(["d.yml"], today=TODAY).findings[0]
    assert (before.code, before.severity, after.severity) == (
        "SPC008",
        Severity.WARNING,
        Severity.INFO,
    )


@pytest.mark.parametrize(("until", "code"), [("2026-12-31", 0), ("2026-01-01", 1)])
def test_waivers_hold_up_to_their_last_day(folder: Path, until: str, code: int) -> None:
    (folder / "envkit.toml").write_text(
        f'[[waivers]]\ncode = "SPC004"\nreason = "mirrored here"\nuntil = {until}\n'
    )
    configuration = read_configuration(folder, {})
    found = lint_specs(["a.yml"], today=TODAY, configuration=configuration)
    assert exit_code(found, fail_on="error") == code
    assert [one.line for one in found.findings] == sorted(one.line for one in found.findings)
    assert "mirrored here" in repr(found.findings[0].evidence)


def test_a_registry_is_not_taken_for_a_configuration(folder: Path) -> None:
    (folder / "envkit.toml").write_text('schema = "envkit.registry/1"\n[spec]\n')
    assert read_configuration(folder, {}).path is None


@pytest.mark.usefixtures("folder")
def test_what_is_not_there() -> None:
    with pytest.raises(InputError, match="is no file"):
        lint_specs(["none.yml"], today=TODAY)
    with pytest.raises(UsageError, match="vit"):
        lint_specs(["vitt"], today=TODAY)

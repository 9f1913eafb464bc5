"""`envkit verify` in this process, on a machine that is made up: codes, formats, files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner
from machines import FILES, child_run, fingerprint, readers

from envkit.cli.app import app
from envkit.errors import UsageError
from envkit.model.facts import TorchFacts
from envkit.model.fingerprint import ProbeResult
from envkit.model.observed import Absent
from envkit.probes.events import SuiteStart
from envkit.probes.launch import Crashed, TimedOut
from envkit.workflows import live

NOTHING = {"fingerprint": lambda *_, **__: None}
NO_TORCH = msgspec.structs.replace(
    FILES, torch=TorchFacts(version=Absent(source="x", reason="torch is not installed"))
)
MACHINES: dict[str, dict[str, Any]] = {
    "good": {},
    "no-torch": {
        **NOTHING,
        "files": lambda _: NO_TORCH,
        "imported": lambda _, facts, __: facts,
    },
    "crash": {**NOTHING, "child": lambda *_: child_run(outcome=Crashed(signal="SIGSEGV"))},
    "slow": {
        **NOTHING,
        "child": lambda *_: child_run(
            stage="importing_torch", outcome=TimedOut(stage="importing_torch", limit_s=7.0)
        ),
    },
    "gpus": {
        "child": lambda *_: child_run(
            facts={"torch": {"device_count": 2}},
            suite=SuiteStart(name="quick", version=1, seed=0, probes=()),
        )
    },
    "probe": {
        "fingerprint": lambda *_, **__: fingerprint(
            conv=ProbeResult(status="failed", values=None, digest=None, reason="out of memory")
        )
    },
}


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()
    for name in ("ENVKIT_LABEL", "ENVKIT_FAIL_ON", "ENVKIT_DEVICE", "ENVKIT_SUITE"):
        monkeypatch.delenv(name, raising=False)


def verify(monkeypatch: pytest.MonkeyPatch, machine: str, *arguments: str) -> tuple[Any, str]:
    monkeypatch.setattr(live, "live_readers", lambda *_, **__: readers(**MACHINES[machine]))
    done = CliRunner().invoke(app, ["verify", *arguments], standalone_mode=False)
    if done.exception is not None:
        raise done.exception
    return done.return_value, done.stdout


@pytest.mark.parametrize(
    ("machine", "arguments", "code"),
    [
        ("good", [], 0),
        ("good", ["--device", "cpu"], 0),
        ("good", ["--device", "cuda"], 1),
        ("good", ["--device", "cuda", "--exit-zero"], 0),
        ("good", ["--no-fingerprint"], 0),
        ("no-torch", [], 3),
        ("no-torch", ["--exit-zero"], 0),
        ("crash", [], 3),
        ("crash", ["--no-fingerprint"], 0),
        ("probe", [], 3),
    ],
)
def test_exit_codes(
    monkeypatch: pytest.MonkeyPatch, machine: str, arguments: list[str], code: int
) -> None:
    assert verify(monkeypatch, machine, *arguments)[0] == code
    as_json, document = verify(monkeypatch, machine, *arguments, "--json")
    assert as_json == code
    # --exit-zero changes the code, never the verdict.
    expected = code
    if "--exit-zero" in arguments:
        rest = [one for one in arguments if one != "--exit-zero"]
        expected = verify(monkeypatch, machine, *rest)[0]
    assert json.loads(document)["verdict"]["exit_code"] == expected


def test_the_first_line_says_verdict_target_and_why(monkeypatch: pytest.MonkeyPatch) -> None:
    _, text = verify(monkeypatch, "good", "--label", "lab-1")
    first = text.splitlines()[0]
    assert first == "✔ PASS  lab-1: virtual environment ~/v (chosen by VIRTUAL_ENV)"


def test_a_time_limit_that_was_too_short_is_named_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    code, text = verify(monkeypatch, "slow", "--timeout", "7")
    assert code == 3
    said = " ".join(text.split())
    assert "out of time while importing torch, with a limit of 7 s; raise --timeout" in said
    assert "next: Run it again with a larger --timeout" in said
    assert "next:" not in verify(monkeypatch, "crash")[1]


def test_quiet_is_short_and_verbose_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    quiet = verify(monkeypatch, "good", "-q")[1].splitlines()
    normal = verify(monkeypatch, "good")[1].splitlines()
    verbose = verify(monkeypatch, "good", "-v")[1].splitlines()
    assert len(quiet) < 5
    assert len(quiet) < len(normal) < len(verbose)
    assert len(normal) <= 30


def test_colour_only_when_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\x1b" not in verify(monkeypatch, "good")[1]
    assert "\x1b[" in verify(monkeypatch, "good", "--color", "always")[1]
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[" in verify(monkeypatch, "good")[1]
    assert "\x1b" not in verify(monkeypatch, "good", "--color", "never")[1]
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in verify(monkeypatch, "good")[1]


def test_text_on_stdout_and_json_in_the_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _, text = verify(monkeypatch, "good", "-o", "report.json")
    assert text.startswith("✔ PASS")
    saved = json.loads((tmp_path / "report.json").read_text())
    assert saved["schema"] == "envkit.report/1"
    _, document = verify(monkeypatch, "good", "--json")
    assert document == (tmp_path / "report.json").read_text()


def test_settings_of_a_file_reach_the_report(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "envkit.toml").write_text(
        'label = "from-file"\ndevice = "cuda"\n'
        '[[waivers]]\ncode = "GPU001"\nreason = "no GPU in CI"\nuntil = 2026-12-31\n'
    )
    code, document = verify(monkeypatch, "good", "--json", "-o", "team/")
    report = json.loads(document)
    assert report["label"] == "from-file"
    assert (tmp_path / "team" / "from-file.json").exists()
    assert report["facts"]["request"]["device"]["source"] == "envkit.toml"
    waived = next(one for one in report["findings"] if one["code"] == "GPU001")
    assert waived["severity"] == "info"
    assert "no GPU in CI" in str(waived)
    assert code == report["verdict"]["exit_code"]
    assert code != 0  # the waived finding is gone, but the GPU that was asked for is not there


def test_all_gpus_in_a_folder_have_a_report_each_and_in_a_file_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    verify(monkeypatch, "gpus", "--device", "all", "--label", "lab", "-o", "gpus/")
    names = sorted(path.name for path in (tmp_path / "gpus").iterdir())
    assert names == ["lab-cuda-1.json", "lab.json"]
    _, shown = verify(monkeypatch, "gpus", "--device", "all", "-o", "one.json", "--json")
    assert json.loads(shown) == json.loads((tmp_path / "one.json").read_text())
    siblings = json.loads(shown)["facts"]["gpus"]["siblings"]["value"]
    assert [one["place"] for one in siblings] == ["cuda:0", "cuda:1"]


def in_job(monkeypatch: pytest.MonkeyPatch, rank: int) -> None:
    job = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": 2, "MASTER_ADDR": "localhost"}
    for name, value in job.items():
        monkeypatch.setenv(name, str(value))


def test_of_ranks_that_meet_only_the_first_prints(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    in_job(monkeypatch, 1)
    code, shown = verify(monkeypatch, "good", "-o", "ranks/")
    assert (code, shown) == (0, "")
    in_job(monkeypatch, 0)
    code, shown = verify(monkeypatch, "good", "-o", "ranks/")
    assert "rank 1" in shown
    assert {path.name for path in (tmp_path / "ranks").iterdir()} == {
        "machine-rank-0.json",
        "machine-rank-1.json",
    }


def test_without_a_folder_each_rank_speaks_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    in_job(monkeypatch, 1)
    code, shown = verify(monkeypatch, "good")
    assert code == 0
    assert "machine-rank-1" in shown


@pytest.mark.parametrize("arguments", [["-o", "one.json"], ["--device", "all"]])
def test_what_ranks_cannot_do(monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> None:
    in_job(monkeypatch, 0)
    with pytest.raises(UsageError):
        verify(monkeypatch, "good", *arguments)

"""`envkit verify` as a process, against targets that fail in every way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from running import bare_venv, environment, fake_torch, run_envkit

import envkit
from envkit.model import codec
from envkit.model.report import Report

FACTS_ONLY = ("verify", "--no-fingerprint", "--json")


def verify(*arguments: str | Path, **options: Any) -> tuple[int, Report]:
    done = run_envkit(*FACTS_ONLY, *arguments, **options)
    assert done.stderr == ""
    report = codec.decode(done.stdout.encode(), Report, origin="stdout")
    assert done.returncode == report.verdict.exit_code
    return done.returncode, report


def codes(report: Report) -> set[str]:
    return {finding.code for finding in report.findings}


def test_no_torch_in_the_target_is_incomplete(tmp_path: Path) -> None:
    code, report = verify("--python", bare_venv(tmp_path / "bare"))
    assert code == 3
    assert report.verdict.status == "incomplete"
    assert "TOR001" in codes(report)
    assert report.target.kind == "venv"
    assert report.target.chosen_by == "--python"


def test_torch_that_raises_is_a_finding_with_its_words(tmp_path: Path) -> None:
    fake = fake_torch(tmp_path, "raise ImportError('libwonder.so.9: cannot open shared object')")
    code, report = verify("--python", sys.executable, python_path=fake)
    assert code == 1
    assert "TOR002" in codes(report)
    assert "libwonder.so.9" in str(report.findings)


def test_torch_that_crashes_is_a_finding_and_no_crash_of_ours(tmp_path: Path) -> None:
    fake = fake_torch(tmp_path, "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)")
    code, report = verify("--python", sys.executable, python_path=fake)
    assert code == 1
    assert "TOR002" in codes(report)
    assert "SIGSEGV" in str(report.findings)


def test_torch_that_hangs_is_ended_at_the_time_limit(tmp_path: Path) -> None:
    fake = fake_torch(tmp_path, "import time\ntime.sleep(600)")
    started = time.monotonic()
    code, report = verify("--python", sys.executable, "--timeout", "1", python_path=fake)
    assert time.monotonic() - started < 60
    assert code in {1, 3}
    assert report.verdict.status != "pass"
    assert "importing torch" in str(report.facts.torch.import_failure)


def test_torch_that_ends_the_interpreter(tmp_path: Path) -> None:
    fake = fake_torch(tmp_path, "import os\nos._exit(7)")
    code, report = verify("--python", sys.executable, python_path=fake)
    assert code != 0
    assert "7" in str(report.facts.torch.import_failure)


def test_what_torch_prints_does_not_spoil_the_report(tmp_path: Path) -> None:
    fake = fake_torch(tmp_path, "print('hello \\x1b[2J')\nraise RuntimeError('\\x1b[31mno')")
    code, report = verify("--python", sys.executable, python_path=fake)
    assert code == 1
    assert "\x1b" not in str(report)


@pytest.mark.parametrize("device", ["cuda", "cuda:7"])
def test_a_gpu_that_is_asked_for_and_not_usable_fails(tmp_path: Path, device: str) -> None:
    fake = fake_torch(tmp_path, "raise ImportError('no')")
    code, report = verify("--device", device, "--python", sys.executable, python_path=fake)
    assert code == 1
    assert report.verdict.status == "fail"


def test_a_program_that_is_no_interpreter_is_no_pass(tmp_path: Path) -> None:
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\nexit 0\n")
    program.chmod(0o755)
    code, report = verify("--python", program)
    assert code == 3
    assert report.verdict.status == "incomplete"


@pytest.mark.parametrize(
    "arguments",
    [
        ["--python", "nowhere/python"],
        ["--prefix", "nowhere"],
        ["-n", "no-such-environment"],
        ["-n", "a", "-p", "b"],
        ["--from", "nowhere.json"],
        ["--from", "."],
        ["--from", "x.json", "--suite", "quick"],
        ["-o", "nowhere/report.json"],
        ["-o", "-"],
        ["--set", "cudnn.benchmark"],
        ["--label", " "],
    ],
)
def test_what_cannot_be_done_is_a_usage_error_before_any_work(
    tmp_path: Path, arguments: list[str]
) -> None:
    done = run_envkit("verify", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    first, second = done.stderr.splitlines()
    assert first.startswith("envkit: ")
    assert second.startswith("  next: ")


def test_an_option_that_a_recorded_machine_cannot_have_is_named_as_it_was_typed() -> None:
    done = run_envkit("verify", "--from", "x.json", "--set", "cudnn.benchmark=true")
    assert done.returncode == 2
    assert "; --set cannot change that" in done.stderr


def test_a_wrong_configuration_is_an_error_with_file_and_key(tmp_path: Path) -> None:
    (tmp_path / "envkit.toml").write_text("devise = 'cpu'\n")
    done = run_envkit("verify", cwd=tmp_path)
    assert done.returncode == 2
    assert "envkit.toml: there is no setting 'devise'" in done.stderr


def test_the_report_is_saved_and_printed_and_the_same(tmp_path: Path) -> None:
    python = bare_venv(tmp_path / "bare")
    saved = tmp_path / "team"
    done = run_envkit(
        *FACTS_ONLY, "--python", python, "--label", "lab 1", "-o", f"{saved}/", "--exit-zero"
    )
    assert done.returncode == 0
    assert (saved / "lab-1.json").read_text() == done.stdout
    report = codec.decode(done.stdout.encode(), Report, origin="stdout")
    assert report.verdict.exit_code == 3
    assert report.label == "lab 1"

    again = run_envkit("verify", "--json", "--from", saved / "lab-1.json")
    assert again.returncode == 3
    assert again.stdout == done.stdout

    text = run_envkit("verify", "--from", "-", stdin=(saved / "lab-1.json").read_bytes())
    assert text.returncode == 3
    assert text.stdout.splitlines()[0].startswith("? INCOMPLETE  lab 1: virtual environment")


def test_a_reader_that_has_gone_away_changes_no_verdict(tmp_path: Path) -> None:
    python = bare_venv(tmp_path / "bare")
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "envkit", *FACTS_ONLY, "--python", str(python)],
        stdout=writing,
        stderr=subprocess.PIPE,
        env=environment(),
        timeout=120,
        check=False,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (3, b"")


def test_text_without_utf_8_is_ascii(tmp_path: Path) -> None:
    done = run_envkit(
        "verify",
        "--no-fingerprint",
        "--python",
        bare_venv(tmp_path / "bäre"),
        PYTHONIOENCODING="ascii",
    )
    assert done.returncode == 3
    assert done.stdout.isascii()
    assert r"b\xe4re" in "".join(done.stdout.split())


@pytest.mark.skipif(os.name == "nt", reason="signals as on POSIX")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("as_json", [False, True])
def test_an_interrupt_ends_the_child_and_says_one_line(
    tmp_path: Path, number: signal.Signals, *, as_json: bool
) -> None:
    mark = tmp_path / "pid"
    fake = fake_torch(
        tmp_path / "fake",
        f"import os, time\nopen({str(mark) + '.new'!r}, 'w').write(str(os.getpid()))\n"
        f"os.rename({str(mark) + '.new'!r}, {str(mark)!r})\ntime.sleep(600)",
    )
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "envkit", "verify", "--python", sys.executable),
            *(("--json",) if as_json else ()),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(fake),
    )
    _wait_until(mark.exists)
    child = int(mark.read_text())
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    if as_json:
        assert json.loads(out)["code"] == "INTERRUPTED"
        assert err == b""
    else:
        assert out == b""
        assert len(err.splitlines()) == 1
        assert err.startswith(b"envkit: ")
    _wait_until(lambda: not _runs(child))


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    # A killed process that nobody has waited for yet runs no more.
    return not (stat.exists() and stat.read_text().rpartition(")")[2].split()[0] == "Z")


def _wait_until(done: Any) -> None:
    deadline = time.monotonic() + 60
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_saved_report_says_when_it_was_recorded_and_a_profile_does_not() -> None:
    folder = Path(envkit.__file__).parent / "schemas" / "examples"
    report = run_envkit("verify", "--from", folder / "report-1.json")
    assert "recorded 2026-11-30T12:00:00Z" in report.stdout
    profile = run_envkit("verify", "--from", folder / "machine-1.json", "--label", "lab-1")
    assert "recorded 20" not in profile.stdout

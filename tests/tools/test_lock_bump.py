"""The GitHub Action: its file, and its script in a repository that the test makes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from compared import BASE_REPORT, fingerprint, report
from running import environment

from envkit.model import codec

ROOT = Path(__file__).parent.parent.parent
SCRIPT = ROOT / "tools" / "lock_bump.py"
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
STEPS: list[dict[str, Any]] = ACTION["runs"]["steps"]
#: A file name and an input that a shell would run.
HOSTILE = "$(touch pwned)`touch pwned`;touch pwned;"
GIT = ("git", "-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")
#: `gh` as far as the script uses it: it writes down what it was asked, and has comments.
GH = """#!/bin/sh
printf '%s\\n' "$*" >> "$GH_LOG"
case "$*" in *--paginate*) cat "$GH_EARLIER" ;; esac
exit "${GH_CODE:-0}"
"""


def git(folder: Path, *arguments: str) -> None:
    subprocess.run([*GIT, *arguments], cwd=folder, check=True, capture_output=True, timeout=60)


def bumped(text: str) -> str:
    """Return a lock in which numpy has another version."""
    lines = text.split("\n")
    at = lines.index("- name: numpy")
    version = lines[at + 1].removeprefix("  version: ")
    for number in range(at + 1, lines.index("  optional: false", at)):
        lines[number] = lines[number].replace(version, "1.0.0")
    return "\n".join(lines)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Make a checkout in which a commit bumps a lock, adds one and changes a report."""
    folder = tmp_path / "checkout"
    (folder / "team").mkdir(parents=True)
    lock = (ROOT / "environments" / "cpu.conda-lock.yml").read_text(encoding="utf-8")
    (folder / "cpu.conda-lock.yml").write_text(bumped(lock), encoding="utf-8")
    (folder / "other.txt").write_text("x")
    (folder / "team" / "lab-1.json").write_bytes(codec.encode(BASE_REPORT))
    (folder / "team" / "lab-2.json").write_bytes(codec.encode(report("lab-2")))
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "before")
    (folder / "cpu.conda-lock.yml").write_text(lock, encoding="utf-8")
    (folder / f"{HOSTILE}.conda-lock.yml").write_text(lock, encoding="utf-8")
    moved = report("lab-2", fingerprint(conf="expandable_segments:True"))
    (folder / "team" / "lab-2.json").write_bytes(codec.encode(moved))
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "after")
    return folder


def run_action(
    folder: Path, **variables: str
) -> tuple[subprocess.CompletedProcess[str], str, dict[str, str]]:
    """Run the step; return how it ended, the step summary and the outputs."""
    temporary = folder.parent / "runner"
    temporary.mkdir(exist_ok=True)
    summary, output = temporary / "summary.md", temporary / "output"
    named = {
        "RUNNER_TEMP": str(temporary),
        "GITHUB_STEP_SUMMARY": str(summary),
        "GITHUB_OUTPUT": str(output),
        "GITHUB_REPOSITORY": "owner/name",
    }
    done = subprocess.run(
        [sys.executable, SCRIPT],
        cwd=folder,
        env=environment(None, **{**named, **variables}),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    text = summary.read_text(encoding="utf-8") if summary.exists() else ""
    lines = output.read_text(encoding="utf-8").splitlines() if output.exists() else []
    return done, text, dict(line.split("=", 1) for line in lines)


def test_packages_and_fingerprints_that_changed_are_in_the_summary(repository: Path) -> None:
    done, summary, outputs = run_action(repository, ENVKIT_BUMP_TEAM="team")
    assert (done.returncode, done.stderr) == (0, "")
    assert outputs["changed"] == "3"
    assert Path(outputs["summary"]).read_text(encoding="utf-8") == summary
    assert "numpy: 1.0.0 -" in summary
    assert "### Different: **lab-2** and" in summary
    assert "CAU001" in summary
    assert "is new" in summary
    assert not list(repository.rglob("pwned"))


def test_the_base_of_a_pull_request_is_its_target(repository: Path) -> None:
    git(repository, "update-ref", "refs/remotes/origin/main", "HEAD")
    _, summary, outputs = run_action(repository, GITHUB_BASE_REF="main")
    assert outputs["changed"] == "0"
    assert "no lock and no report" in summary


def test_a_report_of_the_run_is_held_against_every_machine(repository: Path) -> None:
    shutil.copy(repository / "team" / "lab-1.json", repository.parent / "now.json")
    asked = {"ENVKIT_BUMP_TEAM": "team", "ENVKIT_BUMP_REPORT": str(repository.parent / "now.json")}
    done, summary, _ = run_action(repository, **asked)
    assert done.returncode == 0
    assert "this run against lab_" not in summary.replace("lab-", "lab_").split("<!--")[0]
    assert summary.count("<!-- this run against lab_") == 2
    done, _, _ = run_action(repository, ENVKIT_BUMP_FAIL_ON="fingerprint", **asked)
    assert done.returncode == 1


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"ENVKIT_BUMP_BASE": "no-such-branch"}, "fetch-depth: 0"),
        ({"ENVKIT_BUMP_BASE": "--output=pwned"}, "is no name"),
        ({"ENVKIT_BUMP_BASE": HOSTILE}, "no revision"),
        ({"ENVKIT_BUMP_LOCKS": "a.yml\n--help"}, "begins with a dash"),
        ({"ENVKIT_BUMP_FAIL_ON": "always"}, "never, fingerprint"),
    ],
)
def test_an_input_that_is_wrong_ends_the_step(
    repository: Path, variables: dict[str, str], said: str
) -> None:
    done, _, _ = run_action(repository, **variables)
    assert (done.returncode, done.stdout.count("\n")) == (2, 1)
    assert done.stdout.startswith("::error ")
    assert said in done.stdout
    assert not list(repository.rglob("pwned"))


def test_a_lock_that_cannot_be_read_is_said_and_ends_nothing(repository: Path) -> None:
    (repository / "cpu.conda-lock.yml").write_text("metadata: [")
    done, summary, _ = run_action(repository, ENVKIT_BUMP_LOCKS="cpu.conda-lock.yml")
    assert done.returncode == 0
    assert "~~~text\nenvkit: " in summary


def test_no_name_and_no_text_is_a_command_of_the_runner(repository: Path) -> None:
    for name in ("x\n::error::pwned\n.conda-lock.yml", "##[error]pwned.conda-lock.yml"):
        (repository / name).write_text("[")
        git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "names")
    for path in repository.glob("*pwned*"):
        path.write_text("::error::pwned\n[")
    done, summary, _ = run_action(repository, ENVKIT_BUMP_BASE="HEAD", ENVKIT_BUMP_TEAM="team")
    assert summary.count("pwned") > 2
    assert not [line for line in summary.splitlines() if line.lstrip().startswith("::")]
    first, *lines, last = done.stdout.splitlines()
    assert first.startswith("::stop-commands::")
    token = first.removeprefix("::stop-commands::")
    assert (len(token), last) == (32, f"::{token}::")
    assert token not in "\n".join(lines)


def test_no_link_is_followed(repository: Path) -> None:
    (repository.parent / "private").write_text("metadata: [secret-of-the-runner")
    for name in ("cpu.conda-lock.yml", "team/lab-1.json"):
        (repository / name).unlink()
        (repository / name).symlink_to(repository.parent / "private")
    (repository / "new.conda-lock.yml").symlink_to(repository.parent / "private")
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "links")
    done, summary, outputs = run_action(
        repository, ENVKIT_BUMP_BASE="HEAD~1", ENVKIT_BUMP_TEAM="team"
    )
    assert done.returncode == 0
    assert outputs["changed"] == "0"
    assert "private" not in summary + done.stdout
    assert "secret" not in summary + done.stdout


@pytest.mark.parametrize(
    ("earlier", "place"),
    [
        ("", "--method POST repos/owner/name/issues/7/comments"),
        ("41\n", "--method PATCH repos/owner/name/issues/comments/41"),
    ],
)
def test_the_comment_is_written_once_and_then_anew(
    repository: Path, earlier: str, place: str
) -> None:
    programs = repository.parent / "bin"
    programs.mkdir()
    (programs / "gh").write_text(GH)
    (programs / "gh").chmod(0o755)
    (programs / "earlier").write_text(earlier)
    log = programs / "log"
    asked = {
        "ENVKIT_BUMP_COMMENT": "true",
        "ENVKIT_BUMP_PULL_REQUEST": "7",
        "GH_LOG": str(log),
        "GH_EARLIER": str(programs / "earlier"),
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
    }
    done, _, outputs = run_action(repository, **asked)
    assert done.returncode == 0
    assert log.read_text().splitlines()[-1] == f"api {place} --field body=@{outputs['summary']}"
    done, _, _ = run_action(repository, **asked, GH_CODE="1")
    assert done.returncode == 0
    assert "::warning title=envkit lock bump::no comment" in done.stdout


def test_no_input_is_a_part_of_a_commands_text() -> None:
    for step in STEPS:
        assert "${{" not in step["run"]
        assert step["shell"] == "bash"


def test_every_input_reaches_a_step() -> None:
    used = json.dumps(STEPS)
    for name in ACTION["inputs"]:
        assert "inputs." + name + " }}" in used


def test_the_action_has_the_shape_that_github_wants() -> None:
    pytest.importorskip("check_jsonschema", reason="check-jsonschema is not installed")
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema"]
    command += ["vendor.github-actions", str(ROOT / "action.yml")]
    assert subprocess.run(command, check=False, timeout=60).returncode == 0


def test_shellcheck_finds_nothing_in_the_steps() -> None:
    shellcheck = shutil.which("shellcheck")
    if shellcheck is None:
        pytest.skip("shellcheck is not installed")
    for step in STEPS:
        command = [shellcheck, "--shell=bash", "-"]
        done = subprocess.run(
            command, input=step["run"], capture_output=True, text=True, timeout=60, check=False
        )
        assert (done.returncode, done.stdout) == (0, "")

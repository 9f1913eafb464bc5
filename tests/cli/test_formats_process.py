"""Formats as users get them: endings of files, step summaries, places in the repository."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from reports import FAILING
from running import run_envkit

from envkit.model import codec

ROOT = Path(__file__).parent.parent.parent
SPEC = """\
name: x
channels: [pytorch, nvidia, nodefaults]
dependencies:
  - python=3.12
  - pytorch=2.6.0
  - pytorch-cuda=12.4
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Make a checkout with a faulty spec in a folder, and a lock that is not its spec's."""
    (tmp_path / "envs").mkdir()
    (tmp_path / "envs" / "environment.yml").write_text(SPEC)
    shutil.copy(
        ROOT / "environments" / "cpu.conda-lock.yml", tmp_path / "envs" / "c.conda-lock.yml"
    )
    text = (ROOT / "environments" / "cpu.yml").read_text(encoding="utf-8")
    (tmp_path / "envs" / "c.yml").write_text(text.replace("python=3.12", "python=3.11"))
    (tmp_path / "report.json").write_bytes(codec.encode(FAILING))
    return tmp_path


def test_a_file_gets_the_format_of_its_ending(repository: Path) -> None:
    starts = {
        "a.json": '{\n  "schema": "envkit.lint/1"',
        "a.md": "### ✘ envkit lint",
        "a.sarif": '{\n  "$schema"',
        "a.sarif.json": '{\n  "$schema"',
        "a.txt": "envs/environment.yml\n",
        "a.xml": "<?xml",
        "a": "envs/environment.yml\n",
    }
    for name, start in starts.items():
        done = run_envkit("lint", "envs/environment.yml", "-o", name, cwd=repository)
        assert (done.returncode, done.stdout) == (1, "")
        assert (repository / name).read_text(encoding="utf-8").startswith(start)


@pytest.mark.parametrize(
    ("command", "name", "endings"),
    [
        ("lint envs/environment.yml", "notes.yaml", ".json, .md, .sarif, .txt, .xml"),
        ("lint envs/environment.yml", "a.html", ".json, .md"),
        ("diff report.json report.json", "d.xyz", ".html, .json, .md, .sarif, .txt, .xml"),
        ("oom log", "a.sarif.json", ".json, .md, .txt"),
    ],
)
def test_a_file_of_another_ending_stays_as_it_is(
    command: str, name: str, endings: str, repository: Path
) -> None:
    (repository / name).write_text("mine")
    done = run_envkit(*command.split(), "-o", name, cwd=repository)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"-o {name}: nothing that this command writes has that ending" in done.stderr
    assert f"It writes {endings}" in done.stderr
    assert (repository / name).read_text() == "mine"


def test_an_ending_does_not_matter_where_the_format_is_named(repository: Path) -> None:
    command = ("diff", "report.json", "report.json", "-o", "d.xyz", "--format", "markdown")
    assert run_envkit(*command, cwd=repository).returncode != 2
    assert (repository / "d.xyz").read_text(encoding="utf-8").startswith("### ")


def test_the_format_asked_for_wins_over_the_ending(repository: Path) -> None:
    run_envkit("lint", "envs/environment.yml", "-o", "a.md", "--format", "junit", cwd=repository)
    assert (repository / "a.md").read_text(encoding="utf-8").startswith("<?xml")


@pytest.mark.parametrize("command", ["create", "memory replay"])
def test_what_a_command_does_not_have_is_refused(command: str, tmp_path: Path) -> None:
    done = run_envkit(*command.split(), "x", "--format", "sarif", cwd=tmp_path)
    assert done.returncode == 2
    assert "sarif" in done.stderr


def test_annotations_name_file_and_line_from_the_root_of_the_checkout(repository: Path) -> None:
    done = run_envkit(
        *("lint", "environment.yml", "--format", "github"),
        cwd=repository / "envs",
        GITHUB_WORKSPACE=str(repository),
    )
    assert "::error file=envs/environment.yml,line=5,title=SPC004 " in done.stdout


def test_a_stale_lock_is_annotated_in_spec_and_lock(repository: Path) -> None:
    done = run_envkit("lock", "--check", "envs/c.yml", "--format", "github", cwd=repository)
    assert done.returncode == 1
    line = 1 + (repository / "envs/c.yml").read_text().split("\n").index("  - python=3.11")
    assert f"::error file=envs/c.yml,line={line},title=CON008 " in done.stdout
    assert "::error file=envs/c.yml,line=1,title=CON008 " in done.stdout


def test_a_package_of_the_lock_is_annotated_at_its_line(repository: Path) -> None:
    lock = repository / "envs" / "c.conda-lock.yml"
    lines = lock.read_text(encoding="utf-8").split("\n")
    at = lines.index("- name: numpy")
    url = next(number for number in range(at, at + 40) if lines[number].startswith("  url: "))
    lines[url] = lines[url].replace("/conda-forge/", "/elsewhere/")
    lock.write_text("\n".join(lines), encoding="utf-8")
    done = run_envkit("lock", "--check", "envs/c.yml", "--format", "sarif", cwd=repository)
    results = json.loads(done.stdout)["runs"][0]["results"]
    places = [one["locations"][0]["physicalLocation"] for one in results]
    found = {(one["artifactLocation"]["uri"], one["region"]["startLine"]) for one in places}
    assert ("envs/c.conda-lock.yml", at + 1) in found


def test_a_changed_package_is_annotated_where_the_newer_lock_has_it(repository: Path) -> None:
    old, new = repository / "old.conda-lock.yml", repository / "envs" / "c.conda-lock.yml"
    text = new.read_text(encoding="utf-8")
    lines = text.split("\n")
    at = lines.index("- name: numpy")
    version = lines[at + 1].removeprefix("  version: ")
    for number in range(at + 1, lines.index("  optional: false", at)):
        if lines[number].startswith(("  version: ", "  url: ")):
            lines[number] = lines[number].replace(version, "1.0.0")
    old.write_text("\n".join(lines), encoding="utf-8")
    done = run_envkit("diff", old, "envs/c.conda-lock.yml", "--format", "github", cwd=repository)
    assert done.returncode == 1
    where = f"::warning file=envs/c.conda-lock.yml,line={at + 1},title=packages numpy::1.0.0"
    assert where in done.stdout
    assert version in done.stdout


def test_annotations_come_with_a_step_summary(repository: Path) -> None:
    summary = repository / "summary.md"
    summary.write_text("# Before\n")
    for command in (("lint", "envs/environment.yml"), ("verify", "--from", "report.json")):
        done = run_envkit(
            *command, "--format", "github", cwd=repository, GITHUB_STEP_SUMMARY=str(summary)
        )
        assert done.stdout.startswith("::error title=envkit ")
    text = summary.read_text(encoding="utf-8")
    assert text.startswith("# Before\n### ✘ envkit lint\n")
    assert "### ✘ envkit verify\n" in text


def test_a_summary_that_cannot_be_written_changes_nothing(repository: Path) -> None:
    done = run_envkit(
        *("lint", "envs/environment.yml", "--format", "github"),
        cwd=repository,
        GITHUB_STEP_SUMMARY=str(repository / "no" / "folder"),
    )
    assert done.returncode == 1
    assert done.stdout.startswith("::error ")
    assert "step summary was not written" in done.stderr


def test_the_summary_is_written_once_where_a_file_is_too(repository: Path) -> None:
    summary = repository / "summary.md"
    files = ("envs/c.conda-lock.yml", "envs/c.conda-lock.yml")
    run_envkit(
        *("diff", *files, "-o", "a.txt", "--format", "github"),
        cwd=repository,
        GITHUB_STEP_SUMMARY=str(summary),
    )
    assert summary.read_text(encoding="utf-8").count("### Same") == 1


def test_other_formats_write_no_summary(repository: Path) -> None:
    summary = repository / "summary.md"
    run_envkit("lint", "envs/environment.yml", cwd=repository, GITHUB_STEP_SUMMARY=str(summary))
    assert not summary.exists()


@pytest.mark.parametrize("name", ["notes.md", "v.html", "a.py"])
@pytest.mark.parametrize("command", ["verify --from report.json", "verify --no-fingerprint"])
def test_verify_writes_over_no_file_that_is_no_report(
    command: str, name: str, repository: Path
) -> None:
    (repository / name).write_text("mine")
    done = run_envkit(*command.split(), "-o", name, cwd=repository)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"-o {name} would write the JSON report over a file that is no report" in done.stderr
    assert (repository / name).read_text() == "mine"


def test_verify_says_that_a_file_of_another_ending_gets_json(repository: Path) -> None:
    command = ("verify", "--from", "report.json", "-o")
    for name, said in (("v.html", True), ("v.html", True), ("v.json", False), ("v", False)):
        done = run_envkit(*command, name, cwd=repository)
        assert ("v.html gets the JSON report" in done.stderr) is said
        saved = json.loads((repository / name).read_text(encoding="utf-8"))
        assert saved["schema"] == "envkit.report/1"
    assert run_envkit(*command, "v.html", "-q", cwd=repository).stderr == ""


def test_verify_saves_json_whatever_it_prints(repository: Path) -> None:
    done = run_envkit(
        *("verify", "--from", "report.json", "--format", "junit", "-o", "again.xml"),
        cwd=repository,
    )
    suites = ET.fromstring(done.stdout)  # noqa: S314 (our own)
    assert suites.get("name") == "envkit verify"
    saved = json.loads((repository / "again.xml").read_text(encoding="utf-8"))
    assert saved["schema"] == "envkit.report/1"
    assert (suites.find(".//failure") is not None) == (done.returncode == 1)

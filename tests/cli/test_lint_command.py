"""`envkit lint` as a process: streams, formats, exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from running import environment, run_envkit

SPEC = """\
name: x
channels: [pytorch, nvidia, nodefaults]
dependencies:
  - python=3.12
  - pytorch=2.6.0
  - pytorch-cuda=12.4
"""


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = tmp_path / "environment.yml"
    path.write_text(SPEC)
    return path


def test_text(spec: Path) -> None:
    done = run_envkit("lint", spec.name, cwd=spec.parent)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.startswith("environment.yml\n   5  error    SPC004  ")
    assert done.stdout.endswith("\n1 spec: 1 error, 1 info\n")


def test_json(spec: Path) -> None:
    done = run_envkit("lint", "--json", spec.name, cwd=spec.parent)
    document = json.loads(done.stdout)
    assert (done.returncode, document["schema"]) == (1, "envkit.lint/1")
    assert [(one["code"], one["file"], one["line"]) for one in document["findings"]] == [
        ("SPC004", "environment.yml", 5),
        ("SPC014", "environment.yml", 6),
    ]


def test_the_spec_that_comes_with_envkit() -> None:
    done = run_envkit("lint", "-q", "vit@1.0.0", "cpu")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("2 specs: ")


def test_exit_zero_changes_the_code_only(spec: Path) -> None:
    done = run_envkit("lint", "--exit-zero", spec)
    assert done.returncode == 0
    assert "1 error" in done.stdout


def test_output_goes_to_a_file(spec: Path) -> None:
    target = spec.with_name("out.json")
    done = run_envkit("lint", spec, "-o", target)
    assert (done.returncode, done.stdout) == (1, "")
    assert json.loads(target.read_text())["schema"] == "envkit.lint/1"
    text = spec.with_name("out.txt")
    run_envkit("lint", spec, "-o", text)
    assert "SPC004" in text.read_text()


@pytest.mark.parametrize(
    ("content", "said"),
    [("dependencies: x\n", "environment.yml:1: `dependencies` is a list"), ("[", "YAML")],
)
def test_an_invalid_file_is_exit_2_with_its_line(spec: Path, content: str, said: str) -> None:
    spec.write_text(content)
    done = run_envkit("lint", spec)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert "next:" in done.stderr
    as_json = json.loads(run_envkit("lint", "--json", spec).stdout)
    assert (as_json["schema"], as_json["exit_code"]) == ("envkit.error/1", 2)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"schema": "envkit.machine/1", "os": "linux"}', "there is no list `dependencies`"),
        ("name: x\n", "there is no list `dependencies`"),
        ("name: x\ndependencys:\n- python\n", "environment.yml:2: there is no `dependencies`"),
        ("version: 1\nmetadata: {}\npackage: []\n", "environment.yml is a lock of conda-lock"),
    ],
)
def test_what_is_no_spec_is_not_found_good(spec: Path, content: str, said: str) -> None:
    spec.write_text(content)
    done = run_envkit("lint", spec.name, cwd=spec.parent)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


def test_an_unreadable_file_hides_nothing_of_the_others(spec: Path) -> None:
    spec.with_name("bad.yml").write_text("[")
    asked = ("bad.yml", "none.yml", spec.name)
    done = run_envkit("lint", *asked, cwd=spec.parent)
    assert done.returncode == 2
    assert "SPC004" in done.stdout
    assert done.stdout.endswith("\n3 specs: 2 not read, 1 error, 1 info\n")
    assert "bad.yml:2: it is not YAML" in done.stderr
    assert "none.yml is no file" in done.stderr
    assert run_envkit("lint", "--exit-zero", *asked, cwd=spec.parent).returncode == 2
    document = json.loads(run_envkit("lint", "--json", *asked, cwd=spec.parent).stdout)
    assert [one["file"] for one in document["unread"]] == ["bad.yml", "none.yml"]
    assert [one["code"] for one in document["findings"]] == ["SPC004", "SPC014"]


def test_locks_among_the_specs_are_left_out_and_said(spec: Path) -> None:
    spec.with_name("conda-lock.yml").write_text("version: 1\n")
    done = run_envkit("lint", spec.name, "conda-lock.yml", cwd=spec.parent)
    assert done.returncode == 1
    assert done.stdout.endswith("\n1 spec: 1 error, 1 info\n")
    assert done.stderr == "envkit: locks are no specs, left out: conda-lock.yml\n"
    alone = run_envkit("lint", "conda-lock.yml", cwd=spec.parent)
    assert alone.returncode == 2
    assert "is a lock" in alone.stderr


def test_a_version_is_suggested_once() -> None:
    assert run_envkit("lint", "vit@9.9.9").stderr.count(" or vit@") == 0


def test_an_unknown_name_is_exit_2_with_a_suggestion() -> None:
    done = run_envkit("lint", "vitt")
    assert done.returncode == 2
    assert "Did you mean vit" in done.stderr


def test_no_spec_is_a_usage_error() -> None:
    assert run_envkit("lint").returncode == 2


def test_it_loads_nothing_that_it_does_not_need(spec: Path) -> None:
    """A pre-commit hook pays for every import, each time."""
    code = (
        "import sys, envkit.__main__ as m; m.main(['lint', '-q', sys.argv[1]]); "
        "print([n for n in ('rich', 'torch', 'envkit.rules', 'envkit.sources', 'envkit.allocator')"
        " if n in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(spec)],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=60,
        check=True,
    )
    assert done.stderr.strip() == "[]"

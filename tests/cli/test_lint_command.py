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
    assert done.stdout.endswith("\n1 spec: 1 error, 1 note\n")


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

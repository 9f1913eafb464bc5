"""The pre-commit hooks: which files they take, that pre-commit accepts them, and what they say."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from running import run_envkit

ROOT = Path(__file__).parent.parent.parent
MANIFEST = ROOT / ".pre-commit-hooks.yaml"
HOOKS: dict[str, dict[str, Any]] = {
    hook["id"]: hook for hook in yaml.safe_load(MANIFEST.read_text(encoding="utf-8"))
}


def takes(hook: str, path: str) -> bool:
    one = HOOKS[hook]
    excluded = "exclude" in one and re.search(one["exclude"], path)
    return bool(re.search(one["files"], path)) and not excluded


@pytest.mark.parametrize(
    ("path", "lint", "check"),
    [
        ("environment.yml", True, True),
        ("envs/environment-gpu.yaml", True, True),
        ("envs/environment-gpu.conda-lock.yml", False, True),
        ("conda-lock.yml", False, True),
        ("envs/vit.conda-lock.yml", False, True),
        ("vit.yml", False, False),
        ("my-conda-locks.yml", False, False),
    ],
)
def test_which_files_the_hooks_take(path: str, *, lint: bool, check: bool) -> None:
    assert takes("envkit-lint", path) == lint
    assert takes("envkit-lock-check", path) == check


def test_pre_commit_accepts_the_manifest() -> None:
    pytest.importorskip("pre_commit", reason="pre-commit is not installed")
    command = [sys.executable, "-m", "pre_commit", "validate-manifest", str(MANIFEST)]
    assert subprocess.run(command, check=False, timeout=60).returncode == 0


def run_hook(name: str, *files: str, cwd: Path) -> tuple[int, str]:
    """Run a hook as pre-commit does: its entry with the names of the files behind it."""
    command, *arguments = shlex.split(HOOKS[name]["entry"])
    assert command == "envkit"
    done = run_envkit(*arguments, *files, cwd=cwd)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Make a folder with a spec of the toolkit and its lock, named as users name them."""
    shutil.copy(ROOT / "environment.yml", tmp_path / "environment.yml")
    shutil.copy(ROOT / "conda-lock.yml", tmp_path / "conda-lock.yml")
    return tmp_path


def test_the_lint_hook_finds_a_fault_and_passes_a_good_spec(folder: Path) -> None:
    assert run_hook("envkit-lint", "environment.yml", cwd=folder)[0] == 0
    (folder / "environment.yml").write_text(
        "name: x\nchannels: [pytorch, nodefaults]\ndependencies: [python=3.12, pytorch=2.6.0]\n"
    )
    code, said = run_hook("envkit-lint", "environment.yml", cwd=folder)
    assert (code, "SPC004" in said) == (1, True)


def test_a_lock_alone_is_held_against_its_spec(folder: Path) -> None:
    assert run_hook("envkit-lock-check", "conda-lock.yml", cwd=folder)[0] == 0
    spec = folder / "environment.yml"
    spec.write_text(spec.read_text(encoding="utf-8").replace("python=", "python>="))
    code, said = run_hook("envkit-lock-check", "conda-lock.yml", cwd=folder)
    assert (code, "the spec has changed since it was locked" in said) == (1, True)


def test_spec_and_lock_of_one_commit_are_checked_once(folder: Path) -> None:
    code, said = run_hook("envkit-lock-check", "environment.yml", "conda-lock.yml", cwd=folder)
    assert (code, said.count("fits its spec")) == (0, 1)


def test_a_lock_without_its_spec_is_refused_by_name(folder: Path) -> None:
    (folder / "environment.yml").unlink()
    code, said = run_hook("envkit-lock-check", "conda-lock.yml", cwd=folder)
    assert (code, "conda-lock.yml is a lock" in said) == (2, True)

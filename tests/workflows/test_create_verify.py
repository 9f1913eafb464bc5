"""An environment made for real from a lock is clean, and dirty once something is done to it."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from conda_channel import Package, write_channel
from running import run_envkit

from envkit.workflows.create import CreateRequest, create
from envkit.workflows.lock import LockRequest, lock

pytest.importorskip("conda_lock", reason="needs the extra: pip install -e '.[lock]'")
pytest.importorskip("rattler", reason="needs the extra: pip install -e '.[lock]'")
if sys.platform != "linux":
    pytest.skip("the packages of the test are for linux-64", allow_module_level=True)

SPEC = """\
name: small
channels: [conda-forge]
dependencies:
  - tool=1
variables:
  OMP_NUM_THREADS: "2"
"""


def _silent(done: int, total: int, name: str) -> None:
    del done, total, name


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a spec, its lock, and an environment created from it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    write_channel(
        tmp_path / "mirror" / "conda-forge",
        Package("tool", "1.0", depends=("base >=2",)),
        Package("base", "2.5", ending=".tar.bz2"),
    )
    spec = tmp_path / "small.yml"
    spec.write_text(SPEC, encoding="utf-8")
    mirror = tmp_path / "mirror"
    lock(LockRequest(specs=(str(spec),), mirror=mirror), os.environ, _silent)
    create(CreateRequest(spec=str(spec), prefix=tmp_path / "env", mirror=mirror), _silent)
    return tmp_path


def _judged(made: Path, *options: str) -> tuple[int, list[str], str]:
    fixed = ("verify", "-p", "env", "--no-fingerprint", "--deep", "--json")
    done = run_envkit(*fixed, *options, cwd=made)
    document = json.loads(done.stdout)
    codes = [one["code"] for one in document["findings"] if one["code"].startswith("CON")]
    return done.returncode, codes, document["facts"]["request"]["strict"]["source"]


def test_what_was_created_is_the_lock_and_every_file_is_as_recorded(made: Path) -> None:
    created = "the environment was created from this lock"
    assert _judged(made) == (0, ["CON009"], created)
    assert _judged(made, "--spec", "small.yml") == (0, ["CON009"], created)
    assert _judged(made, "--lock", "small.conda-lock.yml") == (0, ["CON009"], "--lock")


def test_a_script_with_the_prefix_in_it_that_was_edited_is_found(made: Path) -> None:
    script = made / "env" / "bin" / "tool"
    script.chmod(0o755)
    script.write_text(script.read_text(encoding="utf-8") + "# mine\n", encoding="utf-8")
    assert _judged(made)[:2] == (1, ["CON006", "CON009"])


def test_without_naming_anything_it_has_to_be_its_own_lock(made: Path) -> None:
    record = next((made / "env" / "conda-meta").glob("base-*.json"))
    record.write_text(record.read_text(encoding="utf-8").replace('"2.5"', '"2.6"'))
    assert _judged(made)[:2] == (1, ["CON003", "CON009"])

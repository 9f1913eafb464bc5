"""Locks made for real: by conda-lock with the built-in solver, on channels that the test writes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from conda_channel import Package, write_channel

from envkit.errors import CannotCheckError, InputError, UsageError
from envkit.model.documents import Lock
from envkit.model.lock_reading import read_conda_lock
from envkit.specs.conda_lock_run import Job, run_conda_lock
from envkit.specs.lock_metadata import notes_of
from envkit.specs.solver.outcome import Outcome
from envkit.specs.solvers import Solver
from envkit.workflows.lock import LockRequest, exit_code, lock

pytest.importorskip("conda_lock", reason="needs the extra: pip install -e '.[lock]'")
pytest.importorskip("rattler", reason="needs the extra: pip install -e '.[lock]'")

SPEC = """\
name: small
channels:
  - conda-forge
dependencies:
  - tool=1
  - gpu-tool
  - cuda-version=12.6
variables:
  PYTHONHASHSEED: "0"
"""
UPSTREAM = "https://conda.anaconda.org/conda-forge"


@pytest.fixture
def mirror(tmp_path: Path) -> Path:
    write_channel(
        tmp_path / "mirror" / "conda-forge",
        Package("tool", "1.0", depends=("base >=2",)),
        Package("tool", "1.1", build="h1_0", depends=("base >=2",), ending=".tar.bz2"),
        Package("tool", "2.0"),
        Package("base", "2.5", subdir="noarch", noarch="generic"),
        Package("gpu-tool", "1.0", build="cuda_0", depends=("__cuda >=12.6",)),
        Package("cuda-version", "12.6"),
    )
    return tmp_path / "mirror"


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    folder = tmp_path / "specs"
    folder.mkdir()
    path = folder / "small.yml"
    path.write_text(SPEC, encoding="utf-8")
    return path


def _silent(done: int, total: int, name: str) -> None:
    del done, total, name


def _lock(spec: Path, mirror: Path | None, *, check: bool = False, **more: str) -> Lock:
    request = LockRequest(
        specs=(str(spec),), check=check, mirror=mirror, solver=more.get("solver", "auto")
    )
    return lock(request, os.environ, _silent)


def test_a_spec_is_locked_with_upstream_addresses_and_hashes(spec: Path, mirror: Path) -> None:
    document = _lock(spec, mirror)
    (one,) = document.locks
    assert (one.status, one.packages, exit_code(document)) == ("locked", 4, 0)
    made = read_conda_lock(Path(one.file).read_bytes(), origin="lock")
    found = {package.name: package for package in made.package}
    assert set(found) == {"tool", "base", "gpu-tool", "cuda-version"}
    assert found["tool"].url == f"{UPSTREAM}/linux-64/tool-1.1-h1_0.tar.bz2"
    assert found["base"].url == f"{UPSTREAM}/noarch/base-2.5-h0_0.conda"
    assert all(package.hash.sha256 and package.hash.md5 for package in made.package)
    assert made.metadata.sources == ("small.yml",)


def test_the_lock_says_what_it_was_made_from(spec: Path, mirror: Path) -> None:
    (one,) = _lock(spec, mirror).locks
    notes = notes_of(read_conda_lock(Path(one.file).read_bytes(), origin="lock"))
    assert notes.spec == "small"
    assert notes.variables == {"PYTHONHASHSEED": "0"}
    assert notes.virtual_packages["linux-64"]["__cuda"] == "12.6"
    assert notes.content_hash.startswith("sha256:")


def test_the_same_input_gives_the_same_bytes_and_no_path(
    spec: Path, mirror: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (one,) = _lock(spec, mirror).locks
    first = Path(one.file).read_bytes()
    other = tmp_path / "elsewhere" / "small.yml"
    other.parent.mkdir()
    other.write_bytes(spec.read_bytes())
    monkeypatch.chdir(other.parent)
    (again,) = _lock(Path("small.yml"), mirror).locks
    assert Path(again.file).read_bytes() == first
    assert str(tmp_path).encode() not in first
    assert b"file:" not in first


def test_the_settings_of_a_shell_do_not_change_the_lock(
    spec: Path, mirror: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (one,) = _lock(spec, mirror).locks
    first = Path(one.file).read_bytes()
    monkeypatch.setenv("CONDA_OVERRIDE_CUDA", "11.4")
    monkeypatch.setenv("CONDA_SUBDIR", "osx-arm64")
    (again,) = _lock(spec, mirror).locks
    assert Path(again.file).read_bytes() == first


def test_a_lock_fits_until_the_spec_changes(spec: Path, mirror: Path) -> None:
    assert _lock(spec, None, check=True).locks[0].reasons == ("there is no lock",)
    _lock(spec, mirror)
    assert _lock(spec, None, check=True).locks[0].status == "fresh"
    spec.write_text(SPEC.replace("tool=1", "tool=2", 1), encoding="utf-8")
    document = _lock(spec, None, check=True)
    assert (document.locks[0].status, exit_code(document)) == ("stale", 1)
    spec.write_text(SPEC.replace('"0"', '"1"'), encoding="utf-8")
    assert _lock(spec, None, check=True).locks[0].status == "stale"


def test_locking_again_says_what_changed(spec: Path, mirror: Path) -> None:
    _lock(spec, mirror)
    spec.write_text(SPEC.replace("tool=1", "tool=2", 1), encoding="utf-8")
    (one,) = _lock(spec, mirror).locks
    changes = {change.name: (change.before, change.after) for change in one.changes}
    assert changes == {
        "tool": ("1.1 h1_0 (conda-forge)", "2.0 h0_0 (conda-forge)"),
        "base": ("2.5 h0_0 (conda-forge)", None),
    }


def test_what_cannot_be_solved_is_explained_and_the_old_lock_stays(
    spec: Path, mirror: Path
) -> None:
    (one,) = _lock(spec, mirror).locks
    before = Path(one.file).read_bytes()
    spec.write_text(
        SPEC.replace("12.6", "12.4").replace("gpu-tool", "gpu-tool=1"), encoding="utf-8"
    )
    document = _lock(spec, mirror)
    (failed,) = document.locks
    assert (failed.status, exit_code(document)) == ("unsolvable", 1)
    assert "cuda-version 12.4" in " ".join(failed.reasons)
    assert Path(one.file).read_bytes() == before


def test_the_machine_decides_what_can_be_solved(spec: Path, mirror: Path) -> None:
    # Without a CUDA that is pinned there is no __cuda: not conda-lock's 11.4 either.
    spec.write_text(SPEC.replace("  - cuda-version=12.6\n", ""), encoding="utf-8")
    (failed,) = _lock(spec, mirror).locks
    assert failed.status == "unsolvable"
    assert "__cuda" in " ".join(failed.reasons)


def test_a_channel_that_the_mirror_lacks_is_named(spec: Path, mirror: Path) -> None:
    spec.write_text(SPEC.replace("conda-forge", "nowhere"), encoding="utf-8")
    with pytest.raises(InputError, match="nowhere"):
        _lock(spec, mirror)


def test_without_a_network_it_cannot_be_told(
    spec: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # An address that refuses; the cache of the user must not answer for it.
    monkeypatch.setenv("RATTLER_CACHE_DIR", str(tmp_path / "cache"))
    spec.write_text(SPEC.replace("- conda-forge", "- http://127.0.0.1:1/c"), encoding="utf-8")
    with pytest.raises(CannotCheckError, match="cannot be reached") as caught:
        _lock(spec, None, solver="builtin")
    assert caught.value.exit_code == 3


def test_a_pip_section_is_refused(spec: Path, mirror: Path) -> None:
    text = SPEC.replace("variables:", "  - pip:\n      - requests\nvariables:")
    spec.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match="pip section"):
        _lock(spec, mirror)


def test_a_local_channel_is_locked_where_the_spec_names_it(spec: Path, mirror: Path) -> None:
    local = (mirror / "conda-forge").as_uri()
    spec.write_text(SPEC.replace("- conda-forge", f"- {local}"), encoding="utf-8")
    (one,) = _lock(spec, None, solver="builtin").locks
    made = read_conda_lock(Path(one.file).read_bytes(), origin="lock")
    assert {package.channel_url for package in made.package} == {local}


def test_wrong_requests_are_refused(spec: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no platform 'linux-65'"):
        lock(LockRequest(specs=(str(spec),), platforms=("linux-65",)), {}, _silent)
    with pytest.raises(UsageError, match="is no folder"):
        lock(LockRequest(specs=(str(spec),), mirror=tmp_path / "none"), {}, _silent)
    with pytest.raises(UsageError, match="is a lock"):
        lock(LockRequest(specs=("small.conda-lock.yml",)), {}, _silent)


def test_conda_lock_itself_renders_our_lock(spec: Path, mirror: Path) -> None:
    (one,) = _lock(spec, mirror).locks
    done = subprocess.run(
        [sys.executable, "-m", "conda_lock", "render", "-k", "explicit", one.file],
        cwd=spec.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rendered = (spec.parent / "conda-linux-64.lock").read_text(encoding="utf-8")
    assert "@EXPLICIT" in rendered
    assert f"{UPSTREAM}/linux-64/tool-1.1-h1_0.tar.bz2#" in rendered


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ("LibMambaUnsatisfiableError: nothing provides tool 9", "unsolvable"),
        ("PackagesNotFoundError: tool", "unsolvable"),
    ],
)
def test_an_installed_conda_is_called_and_its_answer_understood(
    answer: str, kind: str, tmp_path: Path
) -> None:
    found = run_conda_lock(_job(tmp_path, answer), tmp_path, os.environ)
    assert isinstance(found, Outcome)
    assert found.kind == kind
    assert answer.partition(":")[0] in found.message


def test_an_installed_conda_without_a_network_is_understood(tmp_path: Path) -> None:
    with pytest.raises(CannotCheckError):
        run_conda_lock(_job(tmp_path, "CondaHTTPError: HTTP 000"), tmp_path, os.environ)


def _job(folder: Path, answer: str) -> Job:
    """A lock with a conda that fails with this message."""
    conda = folder / "conda"
    says = f'echo \'{{"message": "{answer}"}}\'; exit 1'
    script = f'#!/bin/sh\n[ "$1" = --version ] && echo conda 24.1 && exit\n{says}\n'
    conda.write_text(script, encoding="utf-8")
    conda.chmod(0o755)
    return Job(
        spec_name="small.yml",
        spec_content=SPEC.encode(),
        virtual_packages={"linux-64": {"__cuda": "12.6"}},
        solver=Solver(name="conda", executable=conda),
        mirror=None,
    )

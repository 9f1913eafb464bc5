"""`envkit verify` with a spec and a lock, as a process: planted drifts, exit codes, the text."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conda_prefix import (
    FORGE,
    SITE,
    edit,
    locked,
    record_of,
    write_lock,
    write_package,
    write_prefix,
    write_wheel,
)
from golden_text import assert_golden
from running import run_envkit

GOLDEN = Path(__file__).parent / "golden"
SPEC = """\
name: small
channels: [conda-forge]
dependencies:
  - python=3.12
  - pytorch=2.7.1
  - numpy
variables:
  CUDA_MODULE_LOADING: LAZY
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with an environment, its lock and its spec; commands run in it."""
    write_prefix(tmp_path / "env")
    write_lock(tmp_path / "small.conda-lock.yml")
    (tmp_path / "small.yml").write_text(SPEC, encoding="utf-8")
    return tmp_path


def verify(place: Path, *options: str, **variables: Any) -> subprocess.CompletedProcess[str]:
    fixed = ("verify", "-p", "env", "--no-fingerprint")
    return run_envkit(*fixed, *options, cwd=place, **variables)


def codes(done: subprocess.CompletedProcess[str]) -> list[str]:
    found = [one["code"] for one in json.loads(done.stdout)["findings"]]
    return [code for code in found if code.startswith(("CON", "TOR"))]


def _move(prefix: Path, name: str, version: str, build: str) -> None:
    record = record_of(prefix, name)
    content = json.loads(record.read_text(encoding="utf-8"))
    content.update(
        version=version, build=build, url=f"{FORGE}/linux-64/{name}-{version}-{build}.conda"
    )
    record.unlink()
    (record.parent / f"{name}-{version}-{build}.json").write_text(json.dumps(content))


def _alter(prefix: Path) -> None:
    (prefix / "lib/pytorch/f1.bin").write_bytes(b"XX")


def _over_conda(prefix: Path) -> None:
    write_wheel(prefix, "torch", "2.11.0+cu130")


DRIFTS: dict[str, tuple[Callable[[Path], object], list[str]]] = {
    "none": (lambda _: None, []),
    "file altered": (_alter, ["CON006"]),
    "file missing": (lambda env: (env / "lib/numpy/f0.bin").unlink(), ["CON006"]),
    "package extra": (
        lambda env: write_package(env, locked("planted-extra", "1.0", "0"), {}),
        ["CON002"],
    ),
    "package removed": (lambda env: record_of(env, "pytorch").unlink(), ["CON001", "CON012"]),
    "version changed": (lambda env: _move(env, "cudnn", "9.99.0", "h0_0"), ["CON003"]),
    "build changed": (lambda env: _move(env, "pytorch", "2.7.1", "cpu_py312_0"), ["CON003"]),
    "channel swapped": (
        lambda env: edit(env, "numpy", url="https://conda.anaconda.org/other/linux-64/x.conda"),
        ["CON004"],
    ),
    "hash differs": (lambda env: edit(env, "numpy", sha256="0" * 64), ["CON005"]),
    "pip over conda": (_over_conda, ["CON007"]),
    "extra wheel": (lambda env: write_wheel(env, "einops", "0.8.1"), ["CON002"]),
    "file of nobody": (lambda env: (env / SITE / "evil.pth").touch(), ["CON012"]),
}


@pytest.mark.parametrize("name", DRIFTS)
def test_planted_drifts(place: Path, name: str) -> None:
    drift, expected = DRIFTS[name]
    drift(place / "env")
    done = verify(place, "--lock", "small.conda-lock.yml", "--deep", "--json")
    assert codes(done) == expected, done.stderr
    errors = [code for code in expected if code != "CON012"]
    assert done.returncode == (1 if errors else 0)


@pytest.mark.parametrize("name", ["file altered", "package removed", "pip over conda", "none"])
def test_a_saved_report_gives_the_same_verdict(place: Path, name: str) -> None:
    DRIFTS[name][0](place / "env")
    live = verify(place, "--lock", "small.conda-lock.yml", "--deep", "--json")
    shutil.rmtree(place / "env")
    again = run_envkit("verify", "--from", "-", "--json", stdin=live.stdout.encode(), cwd=place)
    assert again.returncode == live.returncode
    assert json.loads(again.stdout) == json.loads(live.stdout)


def test_solved_afresh_is_a_warning_and_strict_makes_it_an_error(place: Path) -> None:
    _move(place / "env", "numpy", "2.3.0", "py312h0_0")
    done = verify(place, "--spec", "small.yml", "--json")
    assert (done.returncode, codes(done)) == (0, ["CON009", "CON011"])
    done = verify(place, "--spec", "small.yml", "--json", "--fail-on", "warning")
    assert done.returncode == 1
    done = verify(place, "--spec", "small.yml", "--strict", "--json")
    assert (done.returncode, codes(done)) == (1, ["CON003", "CON009"])


def test_variables_that_are_in_effect(place: Path) -> None:
    done = verify(place, "--spec", "small.yml", "--json", CUDA_MODULE_LOADING="LAZY")
    assert (done.returncode, codes(done)) == (0, [])


def test_a_spec_that_is_not_met_fails(place: Path) -> None:
    _move(place / "env", "pytorch", "2.6.0", "cuda126_0")
    done = verify(place, "--spec", "small.yml", "--json")
    assert (done.returncode, codes(done)) == (1, ["CON003", "CON009"])


def test_a_stale_lock_fails(place: Path) -> None:
    (place / "small.yml").write_text(SPEC.replace("- numpy", "- numpy=1.26"), encoding="utf-8")
    done = verify(place, "--spec", "small.yml", "--json")
    assert done.returncode == 1
    assert "CON008" in codes(done)


def test_a_spec_that_the_active_environment_names_and_nobody_knows_is_incomplete(
    place: Path,
) -> None:
    active = {"CONDA_PREFIX": str(place / "env"), "ENVKIT_SPEC": "no-such@1.0.0"}
    done = verify(place, "--json", **active)
    assert done.returncode == 3
    assert "no-such" in json.loads(done.stdout)["verdict"]["headline"]


def test_a_target_that_is_not_condas_is_not_the_locked_environment(place: Path) -> None:
    (place / "bare").mkdir()
    options = ("--no-fingerprint", "--lock", "small.conda-lock.yml", "--json")
    done = run_envkit("verify", "-p", "bare", *options, cwd=place)
    assert (done.returncode, codes(done)) == (1, ["CON001"])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--lock", "nowhere.yml"), "cannot be read"),
        (("--lock", "small.yml"), "small.yml"),
        (("--spec", "vitt"), "vit"),
        (("--strict",), "--spec SPEC or --lock FILE"),
    ],
)
def test_mistakes(place: Path, options: tuple[str, ...], said: str) -> None:
    done = verify(place, *options)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


def test_deep_needs_records(place: Path) -> None:
    (place / "bare").mkdir()
    done = run_envkit("verify", "-p", "bare", "--no-fingerprint", "--deep", cwd=place)
    assert done.returncode == 2
    assert "records of conda" in done.stderr


def test_recorded_and_live_do_not_mix(place: Path) -> None:
    done = run_envkit("verify", "--from", "x.json", "--lock", "y.yml", "--deep", cwd=place)
    assert done.returncode == 2
    assert "--lock, --deep" in done.stderr


def test_without_spec_and_lock_nothing_is_asked(place: Path) -> None:
    _over_conda(place / "env")
    done = verify(place, "--json")
    assert (done.returncode, codes(done)) == (0, ["TOR004"])


@pytest.mark.parametrize(("name", "options"), [("drift", ("--lock",)), ("afresh", ("--spec",))])
def test_text(place: Path, name: str, options: tuple[str, ...]) -> None:
    env = place / "env"
    _move(env, "pytorch", "2.7.1", "cuda126_py312_h2_301")
    _move(env, "numpy", "2.3.0", "py312h0_0")
    if name == "drift":
        _alter(env)
        _over_conda(env)
        record_of(env, "tqdm").unlink()
    file = "small.conda-lock.yml" if name == "drift" else "small.yml"
    deep = ("--deep",) if name == "drift" else ()
    done = verify(place, *options, file, *deep)
    text = done.stdout.replace(str(env), "/env")
    findings = text.partition("\nFacts\n")[0]
    said = [block for block in findings.split("\n\n") if "CON" in block.partition("\n")[0]]
    assert_golden(GOLDEN / f"contract-{name}.txt", "\n\n".join(said) + "\n")


def test_progress_needs_no_terminal(place: Path) -> None:
    done = verify(
        place, "--lock", "small.conda-lock.yml", "--deep", TERM=os.environ.get("TERM", "")
    )
    assert (done.returncode, done.stderr) == (0, "")

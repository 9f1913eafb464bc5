"""The locks that come with the specs: complete, of their specs, and fit to be shared."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from envkit.model.conda_lock import CondaLock, LockedPackage
from envkit.model.lock_reading import read_conda_lock
from envkit.model.lock_writing import write_conda_lock
from envkit.specs.lock_metadata import notes_of
from envkit.specs.registry import read_registry
from envkit.workflows.lock import LockRequest, lock

ROOT = Path(__file__).parent.parent.parent
ENVIRONMENTS = ROOT / "environments"
REGISTRY = read_registry(ENVIRONMENTS)
LOCKS = [*(REGISTRY.lock_path(name) for name in REGISTRY.specs), ROOT / "conda-lock.yml"]
ARCHIVED = [
    REGISTRY.archived(name, version) / f"{name}.conda-lock.yml"
    for name in REGISTRY.specs
    for version in REGISTRY.versions(name)
]
UPSTREAM = re.compile(
    r"https://conda\.anaconda\.org/(conda-forge|pytorch|nvidia)/(linux-64|noarch)/[^/]+"
)

each = pytest.mark.parametrize(
    "path", [*LOCKS, *ARCHIVED], ids=lambda path: f"{path.parent.name}-{path.name}"
)


def _lock(path: Path) -> CondaLock:
    return read_conda_lock(path.read_bytes(), origin=path.name)


def test_there_is_a_lock_for_every_spec_and_every_published_version() -> None:
    assert len(LOCKS) == len(REGISTRY.specs) + 1
    assert len(ARCHIVED) >= len(REGISTRY.specs)
    assert all(path.is_file() for path in (*LOCKS, *ARCHIVED))


@each
def test_a_lock_fits_its_spec(path: Path) -> None:
    spec = path.with_name(path.name.replace("conda-lock", "environment"))
    if path.name != "conda-lock.yml":
        spec = path.with_name(path.name.replace(".conda-lock", ""))
    (one,) = lock(LockRequest(specs=(str(spec),), check=True), {}, lambda *_: None).locks
    assert (one.status, one.reasons) == ("fresh", ())


@each
def test_a_lock_can_be_shared(path: Path) -> None:
    for package in _lock(path).package:
        assert package.manager == "conda"
        assert UPSTREAM.fullmatch(package.url)
        assert package.hash.sha256
        assert package.hash.md5
    assert re.search(rb"(?m)(?:^|[\s'\"])/", path.read_bytes()) is None, "a path of a machine"


@each
def test_a_lock_is_in_its_canonical_form(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    header = "".join(line[2:] for line in text.splitlines(keepends=True) if line[0] == "#")
    assert write_conda_lock(_lock(path), header=header).decode() == text


@pytest.mark.parametrize("name", REGISTRY.specs)
def test_the_lock_says_which_spec_it_is_and_carries_its_variables(name: str) -> None:
    notes = notes_of(_lock(REGISTRY.lock_path(name)))
    assert notes.reference == f"{name}@{REGISTRY.specs[name].version}"
    assert notes.variables["ENVKIT_SPEC"] == notes.reference
    machine = REGISTRY.specs[name].virtual_packages
    assert notes.virtual_packages["linux-64"].get("__cuda") == machine.get("__cuda")


@pytest.mark.parametrize("name", REGISTRY.specs)
def test_the_published_version_is_locked_as_the_present_one(name: str) -> None:
    archived = REGISTRY.archived(name, REGISTRY.specs[name].version) / f"{name}.conda-lock.yml"
    assert archived.read_bytes() == REGISTRY.lock_path(name).read_bytes()


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.name)
def test_every_package_is_as_the_channels_listed_it(path: Path, shared: Path) -> None:
    for package in _lock(path).package:
        record = _recorded(shared, package)
        assert (record["md5"], record["sha256"]) == (package.hash.md5, package.hash.sha256)
        assert record["version"] == package.version
        assert record["build"] == package.build_string


@cache
def _channel(path: Path) -> dict[str, Any]:
    listed = json.loads(path.read_bytes())
    return {**listed["packages"], **listed["packages.conda"]}


def _recorded(shared: Path, package: LockedPackage) -> Any:
    folder = shared / "facts" / "conda" / "snapshot-plus" / package.channel / package.subdir
    return _channel(folder / "repodata.json")[package.file_name]


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.name)
def test_conda_lock_itself_reads_and_renders_it(path: Path, tmp_path: Path) -> None:
    pytest.importorskip("conda_lock", reason="needs the extra: pip install -e '.[lock]'")
    command = ["render", "-k", "explicit", "-p", "linux-64", str(path)]
    done = subprocess.run(
        [sys.executable, "-m", "conda_lock", *command],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rendered = (tmp_path / "conda-linux-64.lock").read_text(encoding="utf-8")
    urls = {line.partition("#")[0] for line in rendered.splitlines() if "://" in line[:9]}
    assert {package.url for package in _lock(path).package} <= urls

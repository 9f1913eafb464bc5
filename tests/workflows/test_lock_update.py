"""Raising the version of a spec in a registry that the test writes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from conda_channel import Package, write_channel
from spec_texts import spec_of

from envkit.errors import InputError, UsageError
from envkit.model.documents import Lock, PackageChange
from envkit.model.lock_reading import read_conda_lock
from envkit.specs.content_hash import content_hash
from envkit.specs.environment_yml import read_spec_file
from envkit.specs.lock_metadata import notes_of
from envkit.specs.next_version import Level, level_of, raised, raised_spec
from envkit.specs.registry import read_registry
from envkit.workflows.lock import LockRequest, lock
from envkit.workflows.lock_update import update

SPEC = """\
name: small
channels: [conda-forge]
dependencies: [tool, python=3.12]
variables:
  ENVKIT_SPEC: small@1.0.0
  A: "1"
"""
REGISTRY = """\
# A comment stays.
schema = "envkit.registry/1"

[spec.other]
version = "3.0.0"
content_hash = "sha256:{zeros}"
purpose = "none"
platforms = ["linux-64"]
measured = "none"
needs = {{gpu = false}}
virtual_packages = {{}}

[spec.small]
version = "1.0.0"
content_hash = "{digest}"
purpose = "a test"
platforms = ["linux-64"]
measured = ["one"]

[spec.small.needs]
gpu = false

[spec.small.virtual_packages]
__glibc = "2.28"
"""


def _change(name: str, before: str | None, after: str | None) -> PackageChange:
    return PackageChange(platform="linux-64", name=name, before=before, after=after)


@pytest.mark.parametrize(
    ("change", "level"),
    [
        (_change("pytorch", "2.7.1 cuda126_0 (c)", "2.8.0 cuda126_0 (c)"), "major"),
        (_change("libcudnn", "9.10 h (c)", "9.13 h (c)"), "major"),
        (_change("python", "3.12.1 h (c)", "3.13.0 h (c)"), "major"),
        (_change("python", "3.12.1 h (c)", "3.12.2 h (c)"), "minor"),
        (_change("tqdm", "4.66 h (c)", "4.67 h (c)"), "minor"),
        (_change("tqdm", None, "4.67 h (c)"), "minor"),
        (_change("pytorch", "2.7.1 cuda126_0 (c)", "2.7.1 cuda126_1 (c)"), "patch"),
    ],
)
def test_the_number_follows_from_what_changed(change: PackageChange, level: Level) -> None:
    spec = spec_of(SPEC)
    assert level_of([change], spec, spec)[0] == level


def test_a_changed_setting_is_major() -> None:
    other = spec_of(SPEC.replace('"1"', '"2"'))
    assert level_of([], spec_of(SPEC), other) == ("major", "`variables` changed")
    renamed = spec_of(SPEC.replace("@1.0.0", "@1.1.0"))
    assert level_of([], spec_of(SPEC), renamed)[0] == "minor"


def test_numbers_are_raised_as_semantic_versions() -> None:
    assert [raised("1.2.3", one) for one in ("major", "minor", "patch")] == [
        "2.0.0",
        "1.3.0",
        "1.2.4",
    ]


def test_a_spec_that_does_not_say_its_version_is_refused() -> None:
    with pytest.raises(InputError, match="does not set ENVKIT_SPEC"):
        raised_spec(SPEC.replace("small@1.0.0", "small@1.0.01"), "small", "1.0.0", "1.0.1")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    pytest.importorskip("conda_lock", reason="needs the extra: pip install -e '.[lock]'")
    pytest.importorskip("rattler", reason="needs the extra: pip install -e '.[lock]'")
    place = tmp_path / "environments"
    archive = place / "archive" / "small" / "1.0.0"
    archive.mkdir(parents=True)
    text = REGISTRY.format(zeros="0" * 64, digest=content_hash(spec_of(SPEC)))
    (place / "envkit.toml").write_text(text, encoding="utf-8")
    for path in (place / "small.yml", archive / "small.yml"):
        path.write_text(SPEC, encoding="utf-8")
    _channel(tmp_path, "1.0")
    monkeypatch.chdir(tmp_path)
    request = LockRequest(specs=("environments/small.yml",), mirror=tmp_path / "mirror")
    lock(request, os.environ, lambda *_: None)
    return place


def _channel(folder: Path, version: str) -> None:
    write_channel(
        folder / "mirror" / "conda-forge", Package("tool", version), Package("python", "3.12.1")
    )


def _update(folder: Path) -> Lock:
    mirror = folder.parent / "mirror"
    request = LockRequest(specs=("environments/small.yml",), mirror=mirror)
    return update(request, os.environ, lambda *_: None)


def test_nothing_new_is_no_new_version(folder: Path) -> None:
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert _update(folder).locks[0].status == "fresh"
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_a_new_package_is_published_as_the_next_version(folder: Path) -> None:
    _channel(folder.parent, "1.1")
    (one,) = _update(folder).locks
    assert (one.spec, one.status) == ("small@1.1.0", "locked")
    assert one.reasons[0].startswith("1.0.0 -> 1.1.0 (minor): tool 1.0")
    assert [change.name for change in one.changes] == ["tool"]
    registry = read_registry(folder)
    entry = registry.specs["small"]
    spec = read_spec_file(registry.spec_path("small"))
    assert (entry.version, entry.measured) == ("1.1.0", "none")
    assert entry.content_hash == content_hash(spec)
    assert spec.variable("ENVKIT_SPEC") == "small@1.1.0"
    made = read_conda_lock(registry.lock_path("small").read_bytes(), origin="lock")
    assert notes_of(made).reference == "small@1.1.0"
    text = (folder / "envkit.toml").read_text(encoding="utf-8")
    assert text.startswith("# A comment stays.")
    assert registry.specs["other"].version == "3.0.0"


def test_what_is_published_is_complete_and_fits(folder: Path) -> None:
    _channel(folder.parent, "1.1")
    _update(folder)
    archive = folder / "archive" / "small" / "1.1.0"
    assert read_registry(archive).specs == {"small": read_registry(folder).specs["small"]}
    for name in ("small.yml", "small.conda-lock.yml"):
        assert (archive / name).read_bytes() == (folder / name).read_bytes()
    request = LockRequest(specs=("environments/small.yml",), check=True)
    assert lock(request, {}, lambda *_: None).locks[0].status == "fresh"
    assert (folder / "archive" / "small" / "1.0.0" / "small.yml").read_text() == SPEC


def test_a_published_version_is_not_locked_again(folder: Path) -> None:
    archive = folder / "archive" / "small" / "1.0.0"
    text = (folder / "envkit.toml").read_text(encoding="utf-8")
    (archive / "envkit.toml").write_text(text, encoding="utf-8")
    request = LockRequest(specs=(str(archive / "small.yml"),))
    with pytest.raises(UsageError, match="its lock never changes"):
        lock(request, os.environ, lambda *_: None)


def test_a_spec_of_no_registry_has_no_version(folder: Path) -> None:
    other = folder.parent / "x.yml"
    other.write_text(SPEC, encoding="utf-8")
    with pytest.raises(UsageError, match="no registry"):
        update(LockRequest(specs=(str(other),)), os.environ, lambda *_: None)

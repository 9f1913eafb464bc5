"""The registry of environments/ against its files: what a published version promises."""

from __future__ import annotations

from pathlib import Path

import pytest
from packaging.version import Version

from envkit.compat import tables
from envkit.model.versions import parse_capability, parse_driver
from envkit.specs.content_hash import content_hash
from envkit.specs.environment_yml import read_spec_file
from envkit.specs.registry import Entry, Registry, read_registry, version_key
from envkit.specs.resolve import resolve_spec
from envkit.workflows.lint import exit_code, lint_specs

ENVIRONMENTS = Path(__file__).parent.parent.parent / "environments"
REGISTRY = read_registry(ENVIRONMENTS)
PUBLISHED = [(name, version) for name in REGISTRY.specs for version in REGISTRY.versions(name)]

names = pytest.mark.parametrize("name", REGISTRY.specs)
published = pytest.mark.parametrize(("name", "version"), PUBLISHED)


def _hash(registry: Registry, name: str) -> str:
    return content_hash(read_spec_file(registry.spec_path(name)))


def test_every_file_is_registered_and_every_entry_has_a_file() -> None:
    files = {path.stem for path in ENVIRONMENTS.glob("*.yml") if ".conda-lock" not in path.name}
    assert files == set(REGISTRY.specs)
    promised = {"vit", "cnn", "llm-finetune", "qlora", "inference", "notebook", "classic", "newest"}
    assert promised | {"cpu"} <= files


@names
def test_the_hash_is_that_of_the_file(name: str) -> None:
    assert _hash(REGISTRY, name) == REGISTRY.specs[name].content_hash


@names
def test_the_present_version_is_published(name: str) -> None:
    versions = REGISTRY.versions(name)
    assert REGISTRY.specs[name].version == versions[-1]
    assert len(set(versions)) == len(versions)


@published
def test_a_published_version_is_what_it_was_published_as(name: str, version: str) -> None:
    archived = read_registry(REGISTRY.archived(name, version))
    assert set(archived.specs) == {name}
    entry = archived.specs[name]
    assert entry.version == version
    assert _hash(archived, name) == entry.content_hash
    if version == REGISTRY.specs[name].version:
        assert entry == REGISTRY.specs[name]
        assert _hash(REGISTRY, name) == entry.content_hash, "SPC017: raise the version"


@published
def test_a_published_version_resolves(name: str, version: str) -> None:
    resolved = resolve_spec(f"{name}@{version}")
    assert resolved.path.is_file()
    assert resolved.reference == f"{name}@{version}"


@names
def test_the_environment_says_what_it_is(name: str) -> None:
    spec = read_spec_file(REGISTRY.spec_path(name))
    assert spec.variable("ENVKIT_SPEC") == f"{name}@{REGISTRY.specs[name].version}"
    assert spec.name is not None
    assert spec.name.text == name


@names
def test_the_needs_follow_from_the_tables(name: str) -> None:
    entry = REGISTRY.specs[name]
    if not entry.needs.gpu:
        assert "__cuda" not in entry.virtual_packages
        assert entry.needs.driver is None
        return
    cuda = entry.virtual_packages["__cuda"]
    floor = tables.runtime_floor(int(cuda.partition(".")[0]), "linux")
    assert not isinstance(floor, tables.Unknown)
    assert parse_driver(entry.needs.driver or "") == floor.number
    assert entry.measured == "none", "name the reports under baselines/ here"


@names
def test_the_capability_is_one_that_the_build_has_code_for(name: str) -> None:
    entry = REGISTRY.specs[name]
    torch = _torch(name)
    if entry.needs.compute_capability is None or torch is None:
        assert not entry.needs.gpu
        return
    version, tag, channel = torch
    archs = tables.arch_list(version, tag, "linux_x86_64", channel=channel)
    if isinstance(archs, tables.Unknown):
        assert "architectures" in entry.note, "say on what the capability rests"
        return
    oldest = min(int(one.removeprefix("sm_")) for one in archs.archs if one.startswith("sm_"))
    major, minor = parse_capability(entry.needs.compute_capability)
    assert major * 10 + minor >= oldest


def _torch(name: str) -> tuple[str, str, tables.Channel] | None:
    spec = read_spec_file(REGISTRY.spec_path(name))
    match = spec.conda_named("pytorch")[0].match
    assert match.version is not None
    assert match.version.exact
    assert match.build is not None
    if "cpu" in match.build:
        return None
    digits = "".join(one for one in match.build if one.isdigit())
    channel: tables.Channel = "pytorch" if spec.channels[0].text == "pytorch" else "conda-forge"
    return match.version.text.lstrip("="), f"cu{digits}", channel


def test_no_spec_has_a_fault() -> None:
    import datetime as dt  # noqa: PLC0415 (only here)

    found = lint_specs(list(REGISTRY.specs), today=dt.date(2026, 11, 30))
    assert exit_code(found, fail_on="error") == 0
    # conda adds its defaults to any file; the lock, once there, turns this into information.
    assert {one.code for one in found.findings} <= {"SPC008", "SPC014"}


def test_versions_are_semantic() -> None:
    entries: list[Entry] = list(REGISTRY.specs.values())
    for entry in entries:
        assert version_key(entry.version) == Version(entry.version).release

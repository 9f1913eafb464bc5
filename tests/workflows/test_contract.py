"""Which spec and which lock an environment is judged by, and what becomes of them as facts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from conda_prefix import FORGE, PACKAGES, locked, write_lock, write_prefix

from envkit.errors import InputError, UsageError
from envkit.model import codec
from envkit.model.facts import CondaFacts, ContractFacts, RequestFacts, SpecVariable
from envkit.model.installed_lock import INSTALLED_FILE, LOCK_FILE, InstalledLock
from envkit.model.observed import Absent, Known, NotApplicable, Unreadable, value_of
from envkit.model.report import Target
from envkit.sources.conda_prefix import read_conda
from envkit.workflows.asked import Asked
from envkit.workflows.contract import Named, find_contract
from envkit.workflows.contract_facts import asked_facts, contract_facts

SPEC = """\
name: small
channels: [conda-forge]
dependencies:
  - python=3.12
  - pytorch=2.7.1=*cuda126*
  - numpy >=2,<3
  - pip:
      - einops>=0.8
variables:
  ENVKIT_SPEC: small.yml
  CUDA_MODULE_LOADING: LAZY
"""


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    return write_prefix(tmp_path / "env")


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = tmp_path / "small.yml"
    path.write_text(SPEC, encoding="utf-8")
    write_lock(path.with_name("small.conda-lock.yml"))
    return path


def target(prefix: Path, chosen_by: str = "--prefix", kind: Any = "prefix") -> Target:
    return Target(kind=kind, prefix=str(prefix), python=None, chosen_by=chosen_by)


def find(prefix: Path, environ: Mapping[str, str] | None = None, **asked: Any) -> Named:
    return find_contract(Asked(**asked), target(prefix), environ or {})


def facts(named: Named, prefix: Path, **environ: str) -> ContractFacts:
    return contract_facts(named, read_conda(prefix), environ)


def made_from(prefix: Path, lock: Path) -> None:
    """Leave in an environment what `envkit create` leaves."""
    content = lock.read_bytes()
    origin = InstalledLock(
        envkit_version="0.1",
        spec="small",
        spec_version="1.0.0",
        content_hash="",
        platform="linux-64",
        packages=len(PACKAGES),
        lock_sha256=hashlib.sha256(content).hexdigest(),
    )
    (prefix / "conda-meta" / INSTALLED_FILE).write_bytes(codec.encode(origin))
    (prefix / "conda-meta" / LOCK_FILE).write_bytes(content)


def test_without_anything_there_is_nothing_to_judge_by(prefix: Path) -> None:
    named = find(prefix)
    assert not named.anything
    read = facts(named, prefix)
    assert all(
        isinstance(getattr(read, name), NotApplicable) for name in ContractFacts.__struct_fields__
    )
    asked = asked_facts(RequestFacts(), named)
    assert isinstance(asked.spec, NotApplicable)
    assert isinstance(asked.strict, NotApplicable)


def test_a_lock_that_was_named_has_to_be_the_environment(prefix: Path, tmp_path: Path) -> None:
    lock = write_lock(tmp_path / "conda-lock.yml")
    named = find(prefix, {"ENVKIT_SPEC": "nobody@9", "CONDA_PREFIX": str(prefix)}, lock=str(lock))
    assert (named.strict, named.spec) == ("--lock", None)
    read = facts(named, prefix)
    assert isinstance(read.packages, Known)
    assert [one.name for one in read.packages.value] == [one[0] for one in PACKAGES]
    assert read.packages.value[-1].subdir == "noarch"
    assert {one.channel for one in read.packages.value} == {"conda-forge"}
    assert isinstance(read.dependencies, NotApplicable)
    assert asked_facts(RequestFacts(), named).strict == Known(value=True, source="--lock")


def test_an_explicit_lock_does_too(prefix: Path, tmp_path: Path) -> None:
    lines = [f"{locked(*one).url}#{locked(*one).hash.md5}" for one in PACKAGES]
    lock = tmp_path / "linux-64.txt"
    lock.write_text("\n".join(["@EXPLICIT", *lines]), encoding="utf-8")
    read = facts(find(prefix, lock=str(lock)), prefix)
    assert isinstance(read.packages, Known)
    assert len(read.packages.value) == len(PACKAGES)
    assert isinstance(read.variables, NotApplicable)


def test_a_spec_brings_its_lock_and_need_not_be_it(prefix: Path, spec: Path) -> None:
    named = find(prefix, spec=str(spec))
    assert named.strict == ""
    read = facts(named, prefix)
    dependencies = value_of(read.dependencies) or ()
    assert [(one.name, one.version, one.build) for one in dependencies] == [
        ("python", "=3.12", ""),
        ("pytorch", "2.7.1", "*cuda126*"),
        ("numpy", ">=2,<3", ""),
    ]
    requirements = value_of(read.requirements) or ()
    assert [(one.name, one.version) for one in requirements] == [("einops", ">=0.8")]
    assert read.channels == Known(value=("conda-forge",), source=str(spec))
    assert value_of(read.stale) == ()
    assert find(prefix, spec=str(spec), strict=True).strict == "--strict"


def test_a_spec_that_selects_cuda_needs_a_gpu(prefix: Path, spec: Path) -> None:
    asked = asked_facts(RequestFacts(), find(prefix, spec=str(spec)))
    assert asked.needs_gpu == Known(value=True, source=f"spec {spec}")
    assert asked.spec == Known(value=str(spec), source="--spec")


def test_a_spec_without_a_lock(prefix: Path, spec: Path) -> None:
    spec.with_name("small.conda-lock.yml").unlink()
    read = facts(find(prefix, spec=str(spec)), prefix)
    assert isinstance(read.packages, Absent)
    assert "has no lock" in read.packages.reason
    with pytest.raises(InputError, match="has no lock"):
        find(prefix, spec=str(spec), strict=True)


def test_strict_about_nothing_is_a_mistake(prefix: Path) -> None:
    with pytest.raises(UsageError, match="nothing says which"):
        find(prefix, strict=True)


def test_a_stale_lock_is_told(prefix: Path, spec: Path) -> None:
    spec.write_text(SPEC.replace("numpy >=2,<3", "numpy <2"), encoding="utf-8")
    stale = value_of(facts(find(prefix, spec=str(spec)), prefix).stale)
    assert stale is not None
    assert "numpy <2 (line 6) is not met by numpy 2.2.6" in stale[0]


def test_the_spec_of_the_active_environment(prefix: Path, spec: Path) -> None:
    environ = {"ENVKIT_SPEC": str(spec)}
    active = find(prefix, {**environ, "CONDA_PREFIX": str(prefix)})
    assert active.spec is not None
    assert active.spec.source == "ENVKIT_SPEC"
    assert find(prefix, {**environ, "CONDA_PREFIX": str(prefix.parent)}).spec is None
    by_default = find_contract(Asked(), target(prefix, "CONDA_PREFIX", "conda"), environ)
    assert by_default.spec is not None
    assert find_contract(Asked(), target(prefix, "VIRTUAL_ENV", "venv"), environ).spec is None


def test_the_spec_that_activation_would_name(prefix: Path, spec: Path) -> None:
    state = {"version": 1, "env_vars": {"ENVKIT_SPEC": str(spec), "CUDA_MODULE_LOADING": "LAZY"}}
    (prefix / "conda-meta" / "state").write_text(json.dumps(state), encoding="utf-8")
    named = find(prefix)
    assert named.spec is not None
    assert named.spec.source == "ENVKIT_SPEC in conda-meta/state"


def test_a_spec_that_the_environment_names_and_nobody_knows_is_unreadable(prefix: Path) -> None:
    named = find(prefix, {"ENVKIT_SPEC": "no-such@1.0.0", "CONDA_PREFIX": str(prefix)})
    assert named.anything
    read = facts(named, prefix)
    assert isinstance(read.packages, Unreadable)
    assert "no-such" in read.packages.reason
    assert isinstance(asked_facts(RequestFacts(), named).spec, Unreadable)


@pytest.mark.parametrize("asked", [{"spec": "no-such"}, {"lock": "no-such.yml"}])
def test_what_the_user_names_and_is_not_there_ends_it(prefix: Path, asked: dict[str, Any]) -> None:
    with pytest.raises((UsageError, InputError)):
        find(prefix, **asked)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe",
        b"version: 1\n",
        b"a: &a [*a]\n",
        b"!!python/object:os.system x",
        b"[" * 9999,
    ],
)
def test_a_hostile_lock_is_refused(prefix: Path, tmp_path: Path, content: bytes) -> None:
    lock = tmp_path / "conda-lock.yml"
    lock.write_bytes(content)
    with pytest.raises(InputError):
        find(prefix, lock=str(lock))


def test_an_environment_that_was_made_from_a_lock_has_to_be_it(prefix: Path, spec: Path) -> None:
    made_from(prefix, spec.with_name("small.conda-lock.yml"))
    named = find(prefix)
    assert named.strict == "the environment was created from this lock"
    read = facts(named, prefix)
    origin = value_of(read.created_from)
    assert origin is not None
    assert (origin.spec, origin.sha256) == ("small@1.0.0", value_of(read.lock_sha256))
    by_spec = find(prefix, spec=str(spec))
    assert by_spec.strict == "the environment was created from this lock"
    write_lock(spec.with_name("small.conda-lock.yml"), locked("other", "1", "0"))
    assert find(prefix, spec=str(spec)).strict == ""


def test_a_lock_in_the_environment_that_was_changed_is_not_believed(
    prefix: Path, spec: Path
) -> None:
    made_from(prefix, spec.with_name("small.conda-lock.yml"))
    (prefix / "conda-meta" / LOCK_FILE).write_bytes(b"version: 1\n")
    named = find(prefix)
    assert isinstance(named.origin, Unreadable)
    assert "is not the lock that it names" in named.origin.reason
    assert named.strict == ""


def test_variables_are_told_by_their_state_and_never_by_what_else_they_hold(
    prefix: Path, spec: Path
) -> None:
    named = find(prefix, spec=str(spec))
    read = facts(named, prefix, CUDA_MODULE_LOADING="my-secret")
    assert value_of(read.variables) == (
        SpecVariable(name="ENVKIT_SPEC", wanted="small.yml", state="missing"),
        SpecVariable(name="CUDA_MODULE_LOADING", wanted="LAZY", state="different"),
    )
    assert b"my-secret" not in msgspec.json.encode(read)
    state = {"version": 1, "env_vars": {"CUDA_MODULE_LOADING": "LAZY", "ENVKIT_SPEC": "small.yml"}}
    (prefix / "conda-meta" / "state").write_text(json.dumps(state), encoding="utf-8")
    read = facts(find(prefix, spec=str(spec)), prefix, ENVKIT_SPEC="small.yml")
    assert [one.state for one in value_of(read.variables) or ()] == ["in_effect", "on_activation"]


def test_the_variables_that_a_lock_has_noted(prefix: Path, tmp_path: Path) -> None:
    lock = write_lock(tmp_path / "conda-lock.yml", envkit_variables='{"A":"1"}')
    read = facts(find(prefix, lock=str(lock)), prefix, A="1")
    assert value_of(read.variables) == (SpecVariable(name="A", wanted="1", state="in_effect"),)


def test_a_lock_without_this_platform(prefix: Path, tmp_path: Path) -> None:
    lock = write_lock(tmp_path / "conda-lock.yml")
    osx = Known(
        value=tuple(
            msgspec.structs.replace(one, subdir="osx-arm64")
            for one in value_of(read_conda(prefix).packages) or ()
        ),
        source="test",
    )
    named = find(prefix, lock=str(lock))
    with pytest.raises(UsageError, match="no packages for osx-arm64"):
        contract_facts(named, CondaFacts(packages=osx), {})


def test_the_channel_of_a_mirror_is_kept_without_its_password(prefix: Path, tmp_path: Path) -> None:
    url = f"https://ada:secret@mirror.example/{FORGE.rpartition('/')[2]}/linux-64/p-1-0.conda"
    one = msgspec.structs.replace(locked("p", "1", "0"), url=url)
    read = facts(find(prefix, lock=str(write_lock(tmp_path / "l.yml", one))), prefix)
    packages = value_of(read.packages) or ()
    assert packages[0].channel == "https://mirror.example/conda-forge"

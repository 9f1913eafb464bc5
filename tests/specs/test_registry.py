from __future__ import annotations

from pathlib import Path

import pytest

from envkit.errors import InputError, InternalError, UsageError
from envkit.specs import folders
from envkit.specs.lock_channels import channels_of_lock
from envkit.specs.registry import is_registry, read_registry
from envkit.specs.resolve import lock_beside, resolve_spec

HASH = "sha256:" + "0" * 64
ENTRY = f"""\
[spec.{{name}}]
version = "{{version}}"
content_hash = "{HASH}"
purpose = "tests"
platforms = ["linux-64"]
measured = "none"
[spec.{{name}}.needs]
gpu = true
driver = "525.60.13"
compute_capability = "7.5"
[spec.{{name}}.virtual_packages]
__cuda = "12.6"
__glibc = "2.28"
"""
HEAD = 'schema = "envkit.registry/1"\n'


def write_registry(folder: Path, **versions: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    tables = [ENTRY.format(name=name, version=version) for name, version in versions.items()]
    (folder / "envkit.toml").write_text(HEAD + "\n".join(tables))
    for name in versions:
        (folder / f"{name}.yml").write_text(f"name: {name}\n")


@pytest.fixture
def registry(tmp_path: Path) -> Path:
    write_registry(tmp_path, small="1.1.0", large="2.0.0")
    for version in ("1.0.0", "1.1.0", "0.10.0", "0.9.0"):
        write_registry(tmp_path / "archive" / "small" / version, small=version)
    return tmp_path


def test_a_registry_is_read(registry: Path) -> None:
    found = read_registry(registry)
    assert set(found.specs) == {"small", "large"}
    entry = found.specs["small"]
    assert (entry.version, entry.measured, entry.needs.driver) == ("1.1.0", "none", "525.60.13")
    assert entry.virtual_packages == {"__cuda": "12.6", "__glibc": "2.28"}
    assert found.versions("small") == ("0.9.0", "0.10.0", "1.0.0", "1.1.0")
    assert found.versions("large") == ()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (HEAD, "", "schema"),
        ('"1.1.0"', '"1.1"', "not a version such as 1.0.0"),
        ('"1.1.0"', '"01.1.0"', "not a version such as 1.0.0"),
        (HASH, "sha256:x", "content_hash"),
        ('["linux-64"]', "[]", "no platform"),
        ("__glibc", "__glib", "__glib"),
        ('"525.60.13"', '"new"', "driver version"),
        ('"7.5"', '"75"', "compute capability"),
        ('__cuda = "12.6"', "", "needs `__cuda`"),
        ('"none"', '"soon"', "measured"),
        ("gpu = true", "gpu = true\nmemory_bytes = 1", "come together"),
        ("gpu = true", "gpu = true\nRAM = 1", "unknown field `RAM`"),
        ("spec.small", "spec.Small", "small letters"),
        ("purpose", "purpose = ", "not TOML"),
    ],
)
def test_faults_are_named(tmp_path: Path, old: str, new: str, said: str) -> None:
    write_registry(tmp_path, small="1.1.0")
    path = tmp_path / "envkit.toml"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(InputError) as error:
        read_registry(tmp_path)
    assert said in error.value.message


def test_a_configuration_of_the_same_name_is_no_registry(tmp_path: Path) -> None:
    assert not is_registry(tmp_path)
    (tmp_path / "envkit.toml").write_text('suite = "quick"\n')
    assert not is_registry(tmp_path)
    write_registry(tmp_path, small="1.0.0")
    assert is_registry(tmp_path)


def test_a_name_a_version_and_a_path(registry: Path) -> None:
    known = read_registry(registry)
    now = resolve_spec("small", registry=known)
    assert (now.path, now.lock_path) == (registry / "small.yml", registry / "small.conda-lock.yml")
    assert now.reference == "small@1.1.0"
    assert resolve_spec("small@1.1.0", registry=known) == _asked(now, "small@1.1.0")
    old = resolve_spec("small@0.9.0", registry=known)
    assert old.path == registry / "archive" / "small" / "0.9.0" / "small.yml"
    assert old.reference == "small@0.9.0"
    by_path = resolve_spec(str(registry / "small.yml"))
    assert by_path.reference == "small@1.1.0"


def _asked(resolved: object, asked: str) -> object:
    import msgspec  # noqa: PLC0415 (only here)

    assert isinstance(resolved, msgspec.Struct)
    return msgspec.structs.replace(resolved, asked=asked)


def test_a_path_beside_no_registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "environment.yml").write_text("name: x\n")
    (tmp_path / "vit").write_text("name: x\n")
    monkeypatch.chdir(tmp_path)
    found = resolve_spec("environment.yml")
    assert (found.entry, found.lock_path, found.reference) == (
        None,
        Path("conda-lock.yml"),
        "environment.yml",
    )
    assert resolve_spec("vit").path == Path("vit"), "a file that is there comes before a name"


def test_the_lock_beside_a_spec() -> None:
    assert lock_beside(Path("a/environment.yaml")) == Path("a/conda-lock.yml")
    assert lock_beside(Path("a/gpu.yml")) == Path("a/gpu.conda-lock.yml")


@pytest.mark.parametrize(
    ("asked", "hint"), [("smal", "small"), ("small@1.2.0", "small@1.1.0"), ("small@", "small@")]
)
def test_an_unknown_name_or_version_has_a_hint(registry: Path, asked: str, hint: str) -> None:
    with pytest.raises(UsageError) as error:
        resolve_spec(asked, registry=read_registry(registry))
    assert hint in error.value.message
    assert "small" in error.value.next_step


@pytest.mark.parametrize(
    "asked", ["none.yml", "a/b", "../vit@1.0.0", "VIT", "a" * 5000 + ".yml", "a\0.yml"]
)
def test_what_is_no_name_is_a_path(asked: str) -> None:
    with pytest.raises(InputError, match="is no file"):
        resolve_spec(asked)


def test_the_folders_are_inside_the_package_or_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "envkit"
    package.mkdir()
    monkeypatch.setattr("importlib.resources.files", lambda _: package)
    with pytest.raises(InternalError, match="environments"):
        folders.environments()
    (tmp_path / "environments").mkdir()
    assert folders.environments() == tmp_path / "environments"
    (package / "_environments").mkdir()
    assert folders.environments() == package / "_environments"


LOCK = """\
version: 1
package:
- name: zlib
  url: https://conda.anaconda.org/conda-forge/linux-64/zlib-1.3-h0_1.conda
- name: blas
  url: 'https://repo.anaconda.com/pkgs/main/linux-64/blas-1.0-mkl.tar.bz2'
- name: tqdm
  url: https://files.example/tqdm-4.66.1-py3-none-any.whl
"""


def test_channels_of_a_lock(tmp_path: Path) -> None:
    path = tmp_path / "conda-lock.yml"
    assert channels_of_lock(path) is None
    path.write_text(LOCK)
    assert channels_of_lock(path) == frozenset({"conda-forge", "defaults"})
    path.write_text("version: 1\npackage: []\n")
    assert channels_of_lock(path) is None


def test_a_hostile_lock_is_no_work(tmp_path: Path) -> None:
    path = tmp_path / "conda-lock.yml"
    for text in ("\n" * 2_000_000, "url: " + "a/" * 1_000_000, " " * 2_000_000):
        path.write_text(text)
        assert channels_of_lock(path) is None


def test_channels_of_recorded_locks(shared: Path) -> None:
    examples = shared / "facts" / "conda" / "examples"
    old = channels_of_lock(examples / "legacy-pytorch251-cu121-py311" / "conda-lock.yml")
    assert old == frozenset({"pytorch", "nvidia", "conda-forge"})
    cpu = channels_of_lock(examples / "cpu-py312" / "conda-lock.yml")
    assert cpu == frozenset({"conda-forge"})

"""What `envkit image` derives from spec, lock and registry, and what it refuses."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from build_folders import NOTEBOOK, small_wheel, write_folder
from locks import lock, package

from envkit.errors import EnvkitError, InputError, RefusedError, UsageError
from envkit.model.conda_lock import CondaLock
from envkit.model.lock_writing import write_conda_lock
from envkit.specs import folders
from envkit.specs.content_hash import content_hash
from envkit.specs.environment_yml import read_spec
from envkit.specs.lock_metadata import Notes
from envkit.specs.registry import read_registry

REGISTRY = read_registry(folders.environments())


def _spec(folder: Path, variables: str = "", name: str = "mine", packages: Any = None) -> Path:
    """A spec with a lock that fits it."""
    text = f"name: {json.dumps(name)}\nchannels: [conda-forge]\ndependencies: [tool]\n{variables}"
    path = folder / "mine.yml"
    path.write_text(text, encoding="utf-8")
    spec = read_spec(text.encode(), origin="mine.yml")
    notes = Notes(
        spec=name,
        content_hash=content_hash(spec),
        variables={one.name: one.text for one in spec.variables},
    )
    made = lock(*(packages or [package("tool")]), noted=notes.as_metadata())
    _write(made, folder / "mine.conda-lock.yml")
    return path


def _write(made: CondaLock, path: Path) -> None:
    path.write_bytes(write_conda_lock(made, header=""))


def _contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.mark.parametrize("name", sorted(REGISTRY.specs))
def test_every_spec_that_is_shipped_makes_a_folder(name: str, tmp_path: Path) -> None:
    image = write_folder(name, tmp_path / "image")
    entry = REGISTRY.specs[name]
    docker = (tmp_path / "image/Dockerfile").read_text(encoding="utf-8")
    assert image.spec == f"{name}@{entry.version}"
    assert f'ENVKIT_SPEC="{image.spec}"' in docker
    assert f'envkit.lock.sha256="{image.lock_sha256}"' in docker
    spec, locked = REGISTRY.spec_path(name), REGISTRY.lock_path(name)
    assert (tmp_path / "image/spec/environment.yml").read_bytes() == spec.read_bytes()
    assert (tmp_path / "image/spec/conda-lock.yml").read_bytes() == locked.read_bytes()
    required = re.findall(r'NVIDIA_REQUIRE_CUDA="cuda>=(\d+)\.0"', docker)
    cuda = entry.virtual_packages.get("__cuda")
    assert required == ([cuda.partition(".")[0]] if cuda else [])
    assert (f'"arch>={entry.needs.compute_capability}"' in docker) is entry.needs.gpu
    assert ("compute,utility" in docker) is entry.needs.gpu


@pytest.mark.parametrize("name", ["vit", "cpu"])
def test_gpus_are_reserved_where_the_spec_needs_them(name: str, tmp_path: Path) -> None:
    write_folder(name, tmp_path / "image")
    said = yaml.safe_load((tmp_path / "image/compose.yaml").read_text(encoding="utf-8"))
    resources = said["services"][name]["deploy"]["resources"]
    assert ("reservations" in resources) is (name == "vit")
    dev = json.loads((tmp_path / "image/.devcontainer/devcontainer.json").read_text())
    assert dev["hostRequirements"] == {"gpu": name == "vit"}


def test_the_same_lock_and_options_give_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_folder("vit", tmp_path / name, mode="ssh", gpus="0,1")
    assert _contents(tmp_path / "one") == _contents(tmp_path / "two")


def test_no_path_of_this_machine_is_in_a_folder(tmp_path: Path) -> None:
    write_folder(_spec(tmp_path), tmp_path / "image")
    own = str(tmp_path).encode()
    assert not [name for name, text in _contents(tmp_path / "image").items() if own in text]


def test_a_spec_of_the_user_is_named_by_its_place_in_the_image(tmp_path: Path) -> None:
    """Also where it names itself as one that the registry does not have, or has with more in it."""
    for says in ("", "variables: {ENVKIT_SPEC: mine@1.0.0}", "variables: {ENVKIT_SPEC: vit@1.0.0}"):
        write_folder(_spec(tmp_path, says), tmp_path / "image")
        docker = (tmp_path / "image/Dockerfile").read_text(encoding="utf-8")
        assert 'ENVKIT_SPEC="/opt/spec/environment.yml"' in docker


def test_a_lock_alone_is_enough(tmp_path: Path) -> None:
    _spec(tmp_path, "variables: {X: '1'}")
    write_folder(tmp_path / "mine.conda-lock.yml", tmp_path / "image")
    docker = (tmp_path / "image/Dockerfile").read_text(encoding="utf-8")
    assert "envkit create /opt/spec/conda-lock.yml" in docker
    assert 'X="1"' in docker
    assert "ENVKIT_SPEC" not in docker
    assert not (tmp_path / "image/spec/environment.yml").exists()


@pytest.mark.parametrize(
    "name", ['x"\nRUN id\n', "$(id)", "../../etc", "", "a" * 300, "Ünïcode", "-", "x\ty"]
)
def test_a_hostile_name_is_a_plain_word_everywhere(name: str, tmp_path: Path) -> None:
    try:
        write_folder(_spec(tmp_path, name=name), tmp_path / "image")
    except InputError:
        return  # names that no spec may have
    said = yaml.safe_load((tmp_path / "image/compose.yaml").read_text(encoding="utf-8"))
    (service,) = said["services"]
    assert re.fullmatch(r"[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?", service)
    docker = (tmp_path / "image/Dockerfile").read_text(encoding="utf-8")
    assert len(re.findall(r"^RUN ", docker, re.MULTILINE)) == 3
    for line in re.findall(r'envkit\.spec="(.*?)"', docker):
        assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9 ._@+-]*", line)


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ('{X: "a\\nRUN id"}', "line break"),
        ('{X: "a\\u2028b"}', "line break"),
        ("{PATH: /srv}", "set by the image itself"),
        ("{LD_PRELOAD: /srv/x.so}", "set by the image itself"),
        ("{JUPYTER_TOKEN: ''}", "set by the image itself"),
        ("{ENVKIT_SSH_KEYS: /x}", "set by the image itself"),
        ("{NVIDIA_REQUIRE_CUDA: ''}", "set by the image itself"),
        ('{"X=1 Y": "2"}', "not a name"),
        ('{"X\\nUSER root": "2"}', "not a name"),
        (f"{{X: {'a' * 5000}}}", "more than 4096"),
    ],
)
def test_variables_that_cannot_be_set_are_refused(
    variables: str, said: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError) as caught:
        write_folder(_spec(tmp_path, f"variables: {variables}\n"), tmp_path / "image")
    assert said in caught.value.message
    assert not (tmp_path / "image").exists()


@pytest.mark.parametrize(
    "options",
    [
        {"base": "debian:12\nRUN id"},
        {"base": "debian:12 AS x"},
        {"base": "debian@sha256:123"},
        {"base": "--platform=linux/arm64"},
        {"base": ""},
        {"memory": "16 g"},
        {"memory": "0g"},
        {"memory": "lots"},
        {"memory": "\N{ARABIC-INDIC DIGIT FOUR}g"},
        {"base": "a" + "-a" * 5000 + "!"},
        {"cpus": "0"},
        {"cpus": "0.00"},
        {"cpus": "-1"},
        {"gpus": "0,"},
        {"gpus": "all,0"},
        {"gpus": "0 1"},
        {"code": " "},
        {"code": "a\nb"},
        {"port": 80, "mode": "ssh"},
        {"port": 70000, "mode": "ssh"},
        {"port": 8888},
        {"notebooks": "relative", "mode": "jupyter"},
        {"notebooks": "/a/../b", "mode": "jupyter"},
        {"notebooks": "/$(id)", "mode": "jupyter"},
        {"platform": "osx-arm64"},
        {"platform": "win-64"},
    ],
    ids=repr,
)
def test_options_without_a_valid_value_are_refused(options: Any, tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        write_folder(NOTEBOOK, tmp_path / "image", **options)
    assert not (tmp_path / "image").exists()


def test_base_with_a_digest_is_kept_with_it(tmp_path: Path) -> None:
    base = f"registry.example:5000/team/python:3.12@sha256:{'a' * 64}"
    write_folder("cpu", tmp_path / "image", base=base)
    docker = (tmp_path / "image/Dockerfile").read_text(encoding="utf-8")
    assert docker.count(f"\nFROM {base}") == 2
    assert f'org.opencontainers.image.base.digest="sha256:{"a" * 64}"' in docker
    assert f"From: {base}" in (tmp_path / "image/Apptainer.def").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("locked", "asked", "platform"),
    [
        (("linux-64", "linux-aarch64"), None, "linux/amd64"),
        (("linux-64", "linux-aarch64"), "linux-aarch64", "linux/arm64"),
        (("linux-aarch64", "osx-arm64"), None, "linux/arm64"),
        (("osx-arm64",), None, None),
        (("linux-64",), "linux-aarch64", None),
    ],
)
def test_the_platform_is_one_that_is_locked_and_that_containers_have(
    locked: tuple[str, ...], asked: str | None, platform: str | None, tmp_path: Path
) -> None:
    _spec(tmp_path, packages=[package("tool", platform=one) for one in locked])
    spec = tmp_path / "mine.conda-lock.yml"
    if platform is None:
        with pytest.raises(UsageError, match="cannot make an image"):
            write_folder(spec, tmp_path / "image", platform=asked)
        return
    write_folder(spec, tmp_path / "image", platform=asked)
    said = yaml.safe_load((tmp_path / "image/compose.yaml").read_text(encoding="utf-8"))
    assert said["services"]["mine"]["platform"] == platform


def test_jupyter_is_refused_where_the_lock_has_none(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no Jupyter"):
        write_folder("vit", tmp_path / "image", mode="jupyter")


def test_jupyter_has_port_and_folder_as_asked(tmp_path: Path) -> None:
    write_folder(NOTEBOOK, tmp_path / "image", mode="jupyter", port=9000, notebooks="/workspace/n")
    docker = (tmp_path / "image/Dockerfile").read_text(encoding="utf-8")
    assert 'ENVKIT_JUPYTER="lab"' in docker
    assert 'ENVKIT_JUPYTER_PORT="9000"' in docker
    assert 'ENVKIT_JUPYTER_FOLDER="/workspace/n"' in docker
    assert "EXPOSE 9000" in docker


def _with_url(url: str) -> list[Any]:
    address = f"{url}/linux-64/tool-1.0-h0_0.conda"
    return [msgspec.structs.replace(package("tool"), url=address)]


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("file:///srv/conda-forge", "file of this machine"),
        ("https://me:secret@conda.example/conda-forge", "holds a credential"),
        ("https://conda.example/t/tk-123/conda-forge", "holds a credential"),
        ("https://conda.example/api/repo/t/tk-123/conda-forge", "holds a credential"),
    ],
)
def test_addresses_that_must_not_leave_are_refused(url: str, said: str, tmp_path: Path) -> None:
    _spec(tmp_path, packages=_with_url(url))
    with pytest.raises(RefusedError) as caught:
        write_folder(tmp_path / "mine.conda-lock.yml", tmp_path / "image")
    assert said in caught.value.message
    assert "secret" not in caught.value.message
    assert "tk-123" not in caught.value.message


@pytest.mark.parametrize("version", ["abc", "12", "9" * 30])
def test_a_locked_cuda_that_is_none_is_refused(version: str, tmp_path: Path) -> None:
    _spec(tmp_path, packages=[package("tool"), package("cuda-version", version)])
    with pytest.raises(InputError, match="no version of CUDA"):
        write_folder(tmp_path / "mine.conda-lock.yml", tmp_path / "image")


def test_a_stale_lock_is_refused(tmp_path: Path) -> None:
    spec = _spec(tmp_path)
    spec.write_text(spec.read_text().replace("[tool]", "[tool, other]"))
    with pytest.raises(RefusedError, match="is not the lock of"):
        write_folder(spec, tmp_path / "image")


def test_packages_of_pip_are_refused(tmp_path: Path) -> None:
    url = "https://example.org/wheelie-1.0-py3-none-any.whl"
    pip = msgspec.structs.replace(package("wheelie"), manager="pip", url=url)
    _spec(tmp_path, packages=[package("tool"), pip])
    with pytest.raises(RefusedError, match="packages of pip"):
        write_folder(tmp_path / "mine.conda-lock.yml", tmp_path / "image")


def test_a_missing_lock_says_how_to_make_it(tmp_path: Path) -> None:
    spec = _spec(tmp_path)
    (tmp_path / "mine.conda-lock.yml").unlink()
    with pytest.raises(InputError) as caught:
        write_folder(spec, tmp_path / "image")
    assert caught.value.next_step == f"Make it first: envkit lock {spec}"


@pytest.mark.parametrize("kind", ["name", "zip", "content", "absent"])
def test_what_is_no_wheel_of_envkit_is_refused(kind: str, tmp_path: Path) -> None:
    good = small_wheel(tmp_path)
    wheel = tmp_path / "given" / ("other-1.0-py3-none-any.whl" if kind == "name" else good.name)
    wheel.parent.mkdir()
    if kind == "zip":
        wheel.write_bytes(b"no zip")
    elif kind == "content":
        wheel.write_bytes(good.read_bytes().replace(b"envkit/__main__.py", b"envkit/__none__.py"))
    elif kind == "name":
        wheel.write_bytes(good.read_bytes())
    with pytest.raises(EnvkitError):
        write_folder("cpu", tmp_path / "image", wheel=wheel)
    assert not (tmp_path / "image").exists()

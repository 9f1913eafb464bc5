"""Finding a conda environment by its name."""

from __future__ import annotations

from pathlib import Path

import pytest

from envkit.errors import UsageError
from envkit.sources.conda_names import find_named, known_prefixes

from .trees import plant


def environment(root: Path, prefix: str) -> str:
    plant(root, {f"{prefix}/conda-meta/history": ""})
    return str(root / prefix)


@pytest.mark.parametrize(
    ("prefix", "environ", "files"),
    [
        ("conda/envs/vit", {"CONDA_EXE": "{root}/conda/bin/conda"}, {}),
        ("conda/envs/vit", {"CONDA_ROOT": "{root}/conda"}, {}),
        ("mamba/envs/vit", {"MAMBA_ROOT_PREFIX": "{root}/mamba"}, {}),
        ("conda/envs/vit", {"CONDA_PREFIX": "{root}/conda"}, {}),
        ("conda/envs/vit", {"CONDA_PREFIX": "{root}/conda/envs/other"}, {}),
        ("big/vit", {"CONDA_ENVS_PATH": "{root}/nothing:{root}/big"}, {}),
        ("big/vit", {"CONDA_ENVS_DIRS": "{root}/big"}, {}),
        ("big/vit", {}, {"home/.condarc": "envs_dirs:\n  - {root}/big\n"}),
        ("home/mine/vit", {}, {"home/.condarc": "envs_dirs: [~/mine]\n"}),
        ("big/vit", {"CONDARC": "{root}/rc"}, {"rc": "envs_dirs: ['{root}/big']\n"}),
        ("home/.conda/envs/vit", {}, {}),
        ("else/where/vit", {}, {"home/.conda/environments.txt": "\n{root}/else/where/vit\n"}),
    ],
)
def test_places(
    tmp_path: Path, prefix: str, environ: dict[str, str], files: dict[str, str]
) -> None:
    wanted = environment(tmp_path, prefix)
    plant(tmp_path, {name: text.replace("{root}", str(tmp_path)) for name, text in files.items()})
    shown = {name: text.replace("{root}", str(tmp_path)) for name, text in environ.items()}
    found = find_named("vit", {"HOME": str(tmp_path / "home"), **shown})
    assert str(found) == wanted


def test_base_is_the_root(tmp_path: Path) -> None:
    root = environment(tmp_path, "conda")
    assert str(find_named("base", {"CONDA_EXE": f"{root}/bin/conda"})) == root


def test_the_first_of_a_name_counts(tmp_path: Path) -> None:
    first, second = environment(tmp_path, "a/vit"), environment(tmp_path, "b/vit")
    environ = {"CONDA_ENVS_DIRS": f"{tmp_path}/b:{tmp_path}/a"}
    assert str(find_named("vit", environ)) == second
    assert first != second


def test_a_folder_that_is_no_environment_is_not_found(tmp_path: Path) -> None:
    plant(tmp_path, {"a/vit/": "", "a/file": ""})
    assert known_prefixes({"CONDA_ENVS_DIRS": f"{tmp_path}/a"}) == {}


def test_close_names_are_suggested(tmp_path: Path) -> None:
    for name in ("vit", "vit-full", "cnn"):
        environment(tmp_path, f"a/{name}")
    with pytest.raises(UsageError) as caught:
        find_named("vti", {"CONDA_ENVS_DIRS": f"{tmp_path}/a"})
    assert "'vti'" in caught.value.message
    assert "vit" in caught.value.next_step
    assert "cnn" not in caught.value.next_step


def test_without_a_close_name_all_are_listed(tmp_path: Path) -> None:
    environment(tmp_path, "a/cnn")
    with pytest.raises(UsageError) as caught:
        find_named("zzzzzz", {"CONDA_ENVS_DIRS": f"{tmp_path}/a"})
    assert "Environments found: cnn" in caught.value.next_step


def test_without_any_environment_that_is_said() -> None:
    with pytest.raises(UsageError) as caught:
        find_named("vit", {})
    assert "No conda environment was found at all" in caught.value.next_step


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\\b"])
def test_what_is_no_name(name: str) -> None:
    with pytest.raises(UsageError, match="not the name of an environment"):
        find_named(name, {})


@pytest.mark.parametrize(
    "text",
    [b"\xff\x00", b"envs_dirs: {a: b}\n", b"[" * 5000, b"!!python/object:os.system x\n", b"- a\n"],
)
def test_a_broken_configuration_names_no_folder(tmp_path: Path, text: bytes) -> None:
    plant(tmp_path, {"home/.condarc": text, "home/.conda/environments.txt/": ""})
    assert known_prefixes({"HOME": str(tmp_path / "home")}) == {}

"""Which solver is chosen, and what is said where there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from envkit.errors import CannotCheckError, UsageError
from envkit.specs.solvers import choose_solver


def _program(folder: Path, name: str) -> Path:
    path = folder / name
    path.write_text("#!/bin/sh\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def _all(name: str) -> bool:
    return bool(name)


def test_what_is_installed_comes_first(tmp_path: Path) -> None:
    mamba = _program(tmp_path, "mamba")
    _program(tmp_path, "micromamba")
    found = choose_solver("auto", mirror=None, variables={"PATH": str(tmp_path)}, installed=_all)
    assert (found.name, found.executable) == ("mamba", mamba)
    conda = _program(tmp_path, "conda")
    found = choose_solver("auto", mirror=None, variables={"PATH": str(tmp_path)}, installed=_all)
    assert found.executable == conda


def test_conda_exe_names_a_conda_that_is_not_on_the_path(tmp_path: Path) -> None:
    conda = _program(tmp_path, "conda")
    variables = {"PATH": "", "CONDA_EXE": str(conda)}
    assert choose_solver("auto", mirror=None, variables=variables, installed=_all).name == "conda"
    variables = {"PATH": "", "MAMBA_EXE": str(conda)}
    assert choose_solver("auto", mirror=None, variables=variables, installed=_all).name == "builtin"


def test_with_a_mirror_the_built_in_one_solves(tmp_path: Path) -> None:
    _program(tmp_path, "conda")
    variables = {"PATH": str(tmp_path)}
    found = choose_solver("auto", mirror=tmp_path, variables=variables, installed=_all)
    assert (found.name, found.executable) == ("builtin", None)
    with pytest.raises(UsageError, match="--mirror works with the built-in solver only"):
        choose_solver("conda", mirror=tmp_path, variables=variables, installed=_all)


@pytest.mark.parametrize("asked", ["conda", "mamba", "micromamba"])
def test_a_solver_that_is_not_there_is_named(asked: str, tmp_path: Path) -> None:
    with pytest.raises(CannotCheckError, match=f"{asked} was not found") as caught:
        choose_solver(asked, mirror=None, variables={"PATH": str(tmp_path)}, installed=_all)
    assert "--solver builtin" in caught.value.next_step


@pytest.mark.parametrize("missing", ["conda_lock", "rattler"])
def test_without_the_extra_it_is_said_how_to_get_it(missing: str) -> None:
    with pytest.raises(CannotCheckError) as caught:
        choose_solver(
            "auto", mirror=None, variables={"PATH": ""}, installed=lambda name: name != missing
        )
    assert "pipx install --force './envkit[lock]'" in caught.value.next_step
    assert caught.value.exit_code == 3

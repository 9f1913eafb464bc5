"""A prefix folder as a side: what its files say, without starting anything in it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from envkit.compare.sides import Side
from envkit.model.facts import Facts
from envkit.sources.conda_prefix import read_conda
from envkit.sources.interpreter import read_python
from envkit.sources.pip_packages import read_pip
from envkit.sources.redacted import home_folders
from envkit.sources.torch_build import read_torch_build
from envkit.workflows.package_lists import from_facts

_INTERPRETERS: Final = ("bin/python", "python.exe", "Scripts/python.exe")
_SIGNS: Final = ("conda-meta", "pyvenv.cfg", *_INTERPRETERS)


def is_prefix(folder: Path) -> bool:
    """Say whether a folder is an environment: conda's, a venv, or one with an interpreter."""
    return any((folder / sign).exists() for sign in _SIGNS)


def read_prefix(folder: Path, name: str, environ: Mapping[str, str]) -> Side:
    """Read a prefix; the facts are those of its files, none is of this machine."""
    homes = home_folders(environ)
    conda = read_conda(folder, homes=homes)
    pip = read_pip(folder, environ)
    facts = Facts(
        python=read_python(folder, _interpreter(folder), conda, homes=homes),
        conda=conda,
        pip=pip,
        torch=read_torch_build(folder, conda, pip, environ),
    )
    packages = from_facts(facts, complete=True)
    return Side(label=folder.name or name, kind="prefix", path=name, facts=facts, packages=packages)


def _interpreter(folder: Path) -> Path | None:
    return next((p for name in _INTERPRETERS if (p := folder / name).exists()), None)

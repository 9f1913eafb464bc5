"""Targets to look at: fake torches, fake interpreters, and the real ones of this machine."""

from __future__ import annotations

import importlib
import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from envkit.probes import launch
from envkit.probes.events import ChildRequest

CHILD = launch.START.parent


class Target:
    """An environment in a temporary folder that the running interpreter looks into."""

    def __init__(self, folder: Path) -> None:
        self.site = folder / "site"
        self.site.mkdir()
        self.env = {**os.environ, "PYTHONPATH": str(self.site)}

    def module(self, name: str, text: str) -> None:
        """Write a module or, with a dot at the end, a package."""
        path = self.site / f"{name}.py"
        if name.endswith("."):
            path = self.site / name[:-1] / "__init__.py"
            path.parent.mkdir(exist_ok=True)
        path.write_text(text)

    def run(self, *, python: str | Path = sys.executable, **request: object) -> launch.ChildRun:
        """Run the child there."""
        wanted = ChildRequest(**{"time_limit_s": 60.0, **request})  # type: ignore[arg-type]
        return launch.run_child(python, wanted, env=self.env)


@pytest.fixture
def target(tmp_path: Path) -> Target:
    """An environment without torch, unless a test writes one."""
    return Target(tmp_path)


@pytest.fixture
def fake_python(tmp_path: Path) -> Callable[[str], Path]:
    """Make an executable that answers with the given shell text instead of Python."""

    def make(shell_text: str) -> Path:
        program = tmp_path / "fake-python"
        program.write_text(f"#!/bin/sh\n{shell_text}\n")
        program.chmod(0o755)
        return program

    return make


@pytest.fixture(scope="session")
def torch_python() -> str:
    """An interpreter with a real torch: the running one."""
    found = subprocess.run(
        [sys.executable, "-c", "import torch; torch.ones(1)"],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    if found.returncode != 0:
        last = (found.stderr.strip().splitlines() or ["no message"])[-1]
        pytest.skip(f"no working torch in {sys.executable}: {last}")
    return sys.executable


@pytest.fixture(scope="session")
def child_module() -> Callable[[str], ModuleType]:
    """Load a module of the child in this process, under the name that it has in a target."""
    if "_envkit_child" not in sys.modules:
        spec = importlib.util.spec_from_file_location(
            "_envkit_child", CHILD / "__init__.py", submodule_search_locations=[str(CHILD)]
        )
        assert spec is not None
        assert spec.loader is not None
        package = importlib.util.module_from_spec(spec)
        sys.modules["_envkit_child"] = package
        spec.loader.exec_module(package)
    return lambda name: importlib.import_module(f"_envkit_child.{name}")

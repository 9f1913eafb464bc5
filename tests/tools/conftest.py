"""The tools are scripts, not a package: load one by its file."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

TOOLS = Path(__file__).parent.parent.parent / "tools"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"envkit_tools_{name}", TOOLS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    sys.path.insert(0, str(TOOLS))  # they import their neighbours
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(TOOLS))
    return module


@pytest.fixture(scope="session")
def torch_for_this_machine() -> ModuleType:
    return load("torch_for_this_machine")


@pytest.fixture(scope="session")
def check_wheel() -> ModuleType:
    return load("check_wheel")


@pytest.fixture(scope="session")
def check_docs() -> ModuleType:
    return load("check_docs")


@pytest.fixture(scope="session")
def docs_navigation() -> ModuleType:
    return load("docs_navigation")


@pytest.fixture(scope="session")
def docs_commands() -> ModuleType:
    return load("docs_commands")


@pytest.fixture
def program(tmp_path: Path) -> Callable[[str, str], Path]:
    """Write an executable shell script into tmp_path/bin and return the folder."""

    def write(name: str, script: str) -> Path:
        folder = tmp_path / "bin"
        folder.mkdir(exist_ok=True)
        (folder / name).write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        (folder / name).chmod(0o755)
        return folder

    return write


@pytest.fixture(scope="session")
def cli_reference() -> ModuleType:
    return load("cli_reference")


@pytest.fixture(scope="session")
def forbidden_strings() -> ModuleType:
    return load("forbidden_strings")


@pytest.fixture(scope="session")
def remedy_pages() -> ModuleType:
    return load("remedy_pages")


@pytest.fixture(scope="session")
def articles_checked() -> ModuleType:
    return load("articles_checked")


@pytest.fixture(scope="session")
def oom_remedy_page() -> ModuleType:
    return load("oom_remedy_page")


@pytest.fixture(scope="session")
def allocated_reserved_page() -> ModuleType:
    return load("allocated_reserved_page")


@pytest.fixture(scope="session")
def image_requirements() -> ModuleType:
    return load("image_requirements")


@pytest.fixture(scope="session")
def generated_pages() -> ModuleType:
    return load("generated_pages")

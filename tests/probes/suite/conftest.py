"""The child's package in this process, under its own name, with real torch and with a fake CUDA."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import envkit

ROOT = Path(__file__).parents[3]
CHILD = Path(envkit.__file__).parent / "probes" / "child"
PACKAGE = "_envkit_child"


def load_package() -> ModuleType:
    """Load the child's folder as the child does (start.py)."""
    if PACKAGE not in sys.modules:
        spec = importlib.util.spec_from_file_location(
            PACKAGE, CHILD / "__init__.py", submodule_search_locations=[str(CHILD)]
        )
        assert spec is not None
        assert spec.loader is not None
        package = importlib.util.module_from_spec(spec)
        sys.modules[PACKAGE] = package
        spec.loader.exec_module(package)
    return sys.modules[PACKAGE]


@pytest.fixture(scope="session")
def child() -> Callable[[str], ModuleType]:
    """Import a module of the child's package: `child("streams")`."""
    load_package()
    return lambda name: importlib.import_module(f"{PACKAGE}.{name}")


@pytest.fixture(scope="session")
def torch() -> Any:
    """Torch, where this environment has one; on one thread, since other tests may want the rest."""
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)
    return torch


@pytest.fixture
def model() -> Any:
    """Envkit's model of the caching allocator: the module with CachingAllocator."""
    return pytest.importorskip("envkit.allocator")


@pytest.fixture
def fake_torch(torch: Any, model: Any) -> Any:
    """A torch whose CUDA device is the CPU with the model as its allocator."""
    from fake_cuda import FakeTorch  # noqa: PLC0415  (needs torch)

    return FakeTorch(torch, model)

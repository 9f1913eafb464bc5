"""The recordings that the tests of the allocator share."""

from __future__ import annotations

import json
import lzma
from functools import cache
from pathlib import Path
from typing import Any

import pytest

RECORDINGS = Path(__file__).parent.parent / "data" / "allocator"


@cache
def _read(name: str) -> Any:
    return json.loads(lzma.decompress((RECORDINGS / name).read_bytes()))


@pytest.fixture(scope="session")
def exercises() -> dict[str, Any]:
    """204 traces of an H200 under ten settings, see tests/data/allocator/README.md."""
    return dict(_read("exercises.json.xz"))


@pytest.fixture(
    params=["r50_b32", "r50amp_b32", "r50var_b32", "vit_b16", "vitvar_b8"], scope="session"
)
def trainings(request: pytest.FixtureRequest) -> list[dict[str, Any]]:
    """One recorded training workload under five settings."""
    return list(_read(f"training-{request.param}.json.xz"))


@pytest.fixture(scope="session")
def accepted_settings() -> list[tuple[str, bool]]:
    """Settings texts, and whether torch 2.13.0 took them."""
    text = (RECORDINGS / "settings-torch-2.13.0.json").read_text(encoding="utf-8")
    return [(conf, taken) for conf, taken in json.loads(text)]

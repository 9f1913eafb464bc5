"""Differences planted on a real GPU: the right cause comes first, and none where there is none."""

from __future__ import annotations

import importlib.util
import json
import lzma
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from envkit.compare.compare import compare
from envkit.compare.sides import Side
from envkit.workflows.diff_inputs import recognise

HERE = Path(__file__).parent
RECORDED = HERE.parent / "data" / "h200" / "planted-differences.json.xz"

#: What was planted and the cause that must come first, as tools/gpu_diff_session.py has it.
EXPECTED = {
    "expandable_segments": "CAU001",
    "roundup": "CAU001",
    "tf32_matmul": "CAU003",
    "tf32_override": "CAU003",
    "cudnn_benchmark": "CAU004",
    "cudnn_off": "CAU006",
    "attention_math": "CAU007",
    "cudnn_deterministic": "CAU005",
    "deterministic": "CAU005",
    "cublas_workspace": "CAU002",
    "cublaslt_workspace": "CAU002",
    "cublaslt_preferred": "CAU002",
    "no_caching": "CAU011",
    "async_backend": "CAU011",
    "eager_modules": "CAU012",
    "busy_card": "CAU013",
    "cpu_threads": "CAU010",
}


@cache
def reports() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(lzma.decompress(RECORDED.read_bytes()))
    return found


def side(name: str) -> Side:
    content = json.dumps(reports()[name]).encode()
    return recognise(content, f"{name}.json", label=name)


@pytest.mark.parametrize("name", EXPECTED)
def test_the_planted_cause_comes_first(name: str) -> None:
    base = "base_cpu" if name == "cpu_threads" else "base"
    document = compare([side(base), side(name)]).document
    assert document.causes[0].code == EXPECTED[name]
    assert EXPECTED[name] not in {cause.code for cause in document.causes[1:]}


def test_the_same_machine_again_differs_in_nothing() -> None:
    document = compare([side("base"), side("base_again")]).document
    assert document.verdict.status == "same"
    assert document.causes == ()


def test_settings_of_the_allocator_never_move_a_stream() -> None:
    document = compare([side("base"), side("expandable_segments")]).document
    assert document.agreement["tensors"] == "same"
    assert document.agreement["workspaces"] == "same"
    assert document.agreement["numerics"] == "same"
    assert document.agreement["allocator"] == "different"


def test_precision_of_products_moves_numbers_only() -> None:
    document = compare([side("base"), side("tf32_matmul")]).document
    for layer in ("allocator", "tensors", "workspaces", "peaks"):
        assert document.agreement[layer] == "same", layer
    keys = {one.key for one in document.differences if one.layer == "numerics"}
    assert any(key.startswith("numerics.matmul.fp32") for key in keys)


def test_the_list_here_is_the_session_s() -> None:
    path = HERE.parent.parent / "tools" / "gpu_diff_session.py"
    if not path.is_file():
        pytest.skip("the tools are not beside these tests")
    spec = importlib.util.spec_from_file_location("gpu_diff_session", path)
    assert spec is not None
    assert spec.loader is not None
    session = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(session)
    assert {name: planted.code for name, planted in session.PLANTED.items()} == EXPECTED

"""GPU models by name, and what knows a compute capability."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from envkit.compat.answers import Unknown
from envkit.compat.arch import toolkit_compiles
from envkit.compat.gpus import capability_row, driven_by, find_gpu, table
from envkit.model.versions import parse_capability, parse_cuda


@pytest.mark.parametrize(
    ("device", "name", "capability"),
    [
        ("NVIDIA GeForce RTX 4090", "GeForce RTX 4090", "8.9"),
        ("NVIDIA A100-SXM4-80GB", "A100", "8.0"),
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", "A100", "8.0"),
        ("Tesla V100-SXM2-32GB", "Tesla V100", "7.0"),
        ("Tesla T4", "Tesla T4", "7.5"),
        ("GeForce GTX 1080 Ti", "GeForce GTX 1080 Ti", "6.1"),
        ("NVIDIA GeForce GTX 1080 Ti", "GeForce GTX 1080 Ti", "6.1"),
        ("NVIDIA H200", "H200", "9.0"),
        ("NVIDIA H100 80GB HBM3", "H100", "9.0"),
        ("NVIDIA GB10", "GB10 (DGX Spark)", "12.1"),
        ("NVIDIA RTX 6000 Ada Generation", "RTX 6000 Ada Generation", "8.9"),
        ("Quadro RTX 6000", "Quadro RTX 6000", "7.5"),
    ],
)
def test_models_by_the_name_of_the_driver(device: str, name: str, capability: str) -> None:
    found = find_gpu(device)
    assert not isinstance(found, Unknown)
    assert (found.name, found.capability) == (name, capability)


@pytest.mark.parametrize(
    "device",
    [
        "NVIDIA H20",
        "NVIDIA H2000",
        "NVIDIA GeForce RTX 4090 Laptop",
        "NVIDIA GeForce RTX 3080 Ti Laptop GPU",
        "AMD Instinct MI300X",
        "",
        "NVIDIA",
    ],
)
def test_a_model_that_is_not_in_the_tables_is_never_another_one(device: str) -> None:
    assert isinstance(find_gpu(device), Unknown)


def test_every_name_finds_its_own_row() -> None:
    for model in table().models:
        for name in (model.name, *model.device_names):
            assert find_gpu(name) is model


@given(st.text(max_size=60))
def test_any_text_has_an_answer(text: str) -> None:
    assert find_gpu(text) is not None


def test_memory_of_variants_is_ordered() -> None:
    for model in table().models:
        assert list(model.memory_gb) == sorted(set(model.memory_gb))
        assert all(gigabytes > 0 for gigabytes in model.memory_gb)


def test_capabilities_are_ordered_and_cover_the_models() -> None:
    rows = table().capabilities
    for older, newer in pairwise(rows):
        assert parse_capability(older.capability) < parse_capability(newer.capability)
    assert {model.capability for model in table().models} <= {row.capability for row in rows}


def test_toolkit_limits_agree_with_what_nvcc_was_seen_to_compile() -> None:
    for row in table().capabilities:
        if row.min_toolkit is not None and parse_cuda(row.min_toolkit) >= (11, 7):
            assert toolkit_compiles(row.min_toolkit, row.capability) is True, row.capability
        if row.max_toolkit is not None:
            major, _ = parse_cuda(row.max_toolkit)
            assert toolkit_compiles(row.max_toolkit, row.capability) is True
            assert toolkit_compiles(f"{major + 1}.0", row.capability) is False


def test_a_capability_newer_than_the_tables_is_said_to_be() -> None:
    newer, gap = capability_row("13.0"), capability_row("8.1")
    assert isinstance(newer, Unknown)
    assert newer.newer
    assert isinstance(gap, Unknown)
    assert not gap.newer


@pytest.mark.parametrize(
    ("capability", "branch", "answer"),
    [
        ("6.1", 580, True),
        ("6.1", 582, True),  # Windows numbers of R580
        ("6.1", 590, False),
        ("12.0", 565, False),
        ("12.0", 570, True),
        ("9.0", 640, True),
    ],
)
def test_driver_branches_of_a_capability(capability: str, branch: int, answer: bool) -> None:  # noqa: FBT001
    assert driven_by(capability, branch) is answer


def test_a_first_driver_that_no_source_gives_is_unknown() -> None:
    assert isinstance(driven_by("8.7", 580), Unknown)
    assert isinstance(driven_by("13.0", 580), Unknown)


def test_the_models_are_those_of_the_collected_facts(shared: Path) -> None:
    path = shared / "facts" / "compat" / "gpus.yaml"
    facts = yaml.load(path.read_bytes(), Loader=yaml.CSafeLoader)["gpus"]
    for row in facts:
        found = find_gpu(row["name"])
        assert not isinstance(found, Unknown)
        known = capability_row(found.capability)
        assert not isinstance(known, Unknown)
        assert found.capability == row["compute_capability"]
        assert list(found.memory_gb) == row["memory_gb"]
        assert known.min_toolkit == row["min_cuda_toolkit"]
        assert known.max_toolkit == row["max_cuda_toolkit"]

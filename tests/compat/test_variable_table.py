"""Process variables and allocator options."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from envkit.compat.answers import Unknown
from envkit.compat.variables import (
    allocator_option,
    option_introduced,
    option_known,
    recorded_variables,
    replaced_variable,
    table,
    variable,
)
from envkit.model.versions import parse_torch


def test_names_are_unique() -> None:
    for names in (
        [row.name for row in table().variables],
        [row.option for row in table().options],
        [row.flag for row in table().flags],
    ):
        assert len(names) == len(set(names))


def test_the_allow_list_is_sorted_and_leaves_out_what_changes_nothing() -> None:
    names = [row.name for row in recorded_variables()]
    assert names == sorted(names)
    assert {"PYTORCH_CUDA_ALLOC_CONF", "CUBLAS_WORKSPACE_CONFIG", "LD_LIBRARY_PATH"} <= set(names)
    assert "NCCL_DEBUG" not in names


def test_variables_that_must_match_change_something() -> None:
    for row in table().variables:
        assert row.changes or row.compare == "ignore", row.name


def test_paths_hosts_and_devices_are_sensitive() -> None:
    sensitive = {row.name for row in table().variables if row.sensitive}
    assert {"LD_LIBRARY_PATH", "LD_PRELOAD", "NCCL_SOCKET_IFNAME", "CUDA_CACHE_PATH"} <= sensitive
    assert "PYTORCH_CUDA_ALLOC_CONF" not in sensitive
    for row in table().variables:
        if row.name.endswith(("_PATH", "_FILE")):
            assert row.sensitive, row.name


def test_versions_are_versions_and_in_order() -> None:
    for row in table().variables:
        if row.first_seen is not None and row.last_seen is not None:
            assert parse_torch(row.first_seen).release <= parse_torch(row.last_seen).release
        if row.introduced is not None and row.first_seen is not None:
            first = parse_torch(row.first_seen).release[:2]
            assert parse_torch(row.introduced).release[:2] == first
    for option in table().options:
        if option.removed is not None:
            removed, introduced = parse_torch(option.removed), parse_torch(option.introduced)
            assert removed.release > introduced.release


@pytest.mark.parametrize(
    ("option", "version"),
    [
        ("expandable_segments", "2.1"),
        ("max_split_size_mb", "1.12"),
        ("per_process_memory_fraction", "2.10"),
        ("expandable_segments_reserve", "2.15"),
    ],
)
def test_first_release_of_an_option(option: str, version: str) -> None:
    assert option_introduced(option) == version


def test_an_option_outside_the_tables_is_unknown() -> None:
    assert isinstance(option_introduced("no_such_option"), Unknown)
    assert isinstance(option_known("no_such_option", "2.5.1"), Unknown)
    assert isinstance(allocator_option("no_such_option"), Unknown)
    assert isinstance(variable("NO_SUCH_VARIABLE"), Unknown)


@pytest.mark.parametrize(
    ("option", "torch", "answer"),
    [
        ("expandable_segments", "2.0.1", False),
        ("expandable_segments", "2.1.0+cu121", True),
        ("max_split_size_mb", "1.12.1", True),
        ("roundup_bypass_threshold_mb", "1.13.1", True),
        ("roundup_bypass_threshold_mb", "2.0.0", False),
        ("throw_on_cudamalloc_oom", "2.9.1", False),
    ],
)
def test_options_of_a_release(option: str, torch: str, answer: bool) -> None:  # noqa: FBT001
    assert option_known(option, torch) is answer


@pytest.mark.parametrize(
    ("torch", "newer"), [("2.16.0", True), ("1.10.0", False), ("2.6.0a0+git1234567", False)]
)
def test_options_of_a_release_outside_the_tables_are_unknown(torch: str, newer: bool) -> None:  # noqa: FBT001
    found = option_known("max_split_size_mb", torch)
    assert isinstance(found, Unknown)
    assert found.newer is newer


def test_a_removed_option_stays_removed_in_newer_releases() -> None:
    assert option_known("roundup_bypass_threshold_mb", "2.16.0") is False


@pytest.mark.parametrize(
    ("name", "torch", "newer"),
    [
        ("PYTORCH_CUDA_ALLOC_CONF", "2.8.0", None),
        ("PYTORCH_CUDA_ALLOC_CONF", "2.9.0", "PYTORCH_ALLOC_CONF"),
        ("NCCL_BLOCKING_WAIT", "2.5.1", "TORCH_NCCL_BLOCKING_WAIT"),
        ("PYTORCH_ALLOC_CONF", "2.15.0", None),
        ("NO_SUCH_VARIABLE", "2.15.0", None),
    ],
)
def test_old_names(name: str, torch: str, newer: str | None) -> None:
    assert replaced_variable(name, torch) == newer


def test_options_and_variables_are_those_of_the_collected_facts(shared: Path) -> None:
    path = shared / "facts" / "compat" / "env_vars.yaml"
    facts = yaml.load(path.read_bytes(), Loader=yaml.CSafeLoader)
    for row in facts["allocator_options"]:
        first = row["introduced"].removeprefix("<=")
        assert option_introduced(row["option"]) == first
    for row in facts["variables"]:
        found = variable(row["name"])
        assert not isinstance(found, Unknown)
        assert found.compare == row["envkit_hint"]
        assert found.verified is row["verified"]

"""The allow-list of variables and what is done to their values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from envkit.sources.process_env import ALLOWED, allowed, read_environment

from .trees import known


def test_only_listed_variables_are_kept() -> None:
    environ = {"AWS_SECRET_ACCESS_KEY": "x", "CUDA_VISIBLE_DEVICES": "0,1", "HOME": "/home/me"}
    assert known(read_environment(environ).variables) == {"CUDA_VISIBLE_DEVICES": "0,1"}


def test_no_variable_is_a_known_empty_set() -> None:
    assert known(read_environment({}).variables) == {}


def test_an_empty_value_is_kept_as_empty() -> None:
    assert known(read_environment({"CUDA_VISIBLE_DEVICES": ""}).variables) == {
        "CUDA_VISIBLE_DEVICES": ""
    }


def test_values_are_redacted_and_bounded() -> None:
    environ = {
        "HOME": "/home/me",
        "LD_LIBRARY_PATH": "/home/me/lib:/opt/lib",
        "LD_PRELOAD": "\x1b[31m" + "x" * 100_000,
        "TORCH_CUDA_ARCH_LIST": "https://me:secret@host/",
    }
    found = known(read_environment(environ).variables)
    assert found["LD_LIBRARY_PATH"] == "~/lib:/opt/lib"
    assert found["LD_PRELOAD"].startswith("\\x1b[31mxxx")
    assert len(found["LD_PRELOAD"]) < 1100
    assert "secret" not in found["TORCH_CUDA_ARCH_LIST"]


def test_variables_recorded_elsewhere_pass_the_same_list() -> None:
    assert allowed({"SECRET": "x", "OMP_NUM_THREADS": "4"}) == {"OMP_NUM_THREADS": "4"}


def test_names_are_sorted() -> None:
    found = known(read_environment({"OMP_NUM_THREADS": "1", "LD_PRELOAD": "x"}).variables)
    assert list(found) == ["LD_PRELOAD", "OMP_NUM_THREADS"]


def test_every_researched_variable_that_matters_is_on_the_list(shared: Path) -> None:
    text = (shared / "facts/compat/env_vars.yaml").read_text(encoding="utf-8")
    document: dict[str, Any] = yaml.safe_load(text)
    wanted = {row["name"] for row in document["variables"] if row["envkit_hint"] != "ignore"}
    assert wanted - ALLOWED == set()

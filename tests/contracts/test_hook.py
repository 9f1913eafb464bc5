"""The pre-commit hook runs on specs, and not on the locks beside them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

HOOKS = Path(__file__).parent.parent.parent / ".pre-commit-hooks.yaml"


@pytest.mark.parametrize(
    ("path", "runs"),
    [
        ("environment.yml", True),
        ("envs/environment-gpu.yaml", True),
        ("envs/environment-gpu.conda-lock.yml", False),
        ("conda-lock.yml", False),
        ("vit.yml", False),
    ],
)
def test_the_hook_runs_on_specs_and_not_on_locks(path: str, *, runs: bool) -> None:
    (hook,) = yaml.safe_load(HOOKS.read_text(encoding="utf-8"))
    taken = re.search(hook["files"], path) and not re.search(hook["exclude"], path)
    assert bool(taken) == runs

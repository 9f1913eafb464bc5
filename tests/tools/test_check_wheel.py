"""A wheel with a file too few or too many is named."""

from __future__ import annotations

from types import ModuleType

KEPT = ["README.md", "envkit/__init__.py", "baselines/h200.json", "environments/vit.yml"]
NAMES = [
    "envkit/__init__.py",
    "envkit/_baselines/h200.json",
    "envkit/_environments/vit.yml",
    "envkit_torch-0.1.0.dist-info/METADATA",
]


def test_complete_wheel(check_wheel: ModuleType) -> None:
    assert check_wheel.faults(NAMES, KEPT) == []


def test_missing_and_foreign_files(check_wheel: ModuleType) -> None:
    assert check_wheel.faults([*NAMES[1:], "tests/test_it.py"], KEPT) == [
        "not in the wheel: envkit/__init__.py",
        "in the wheel but ignored by git: tests/test_it.py",
    ]

"""Small specs for tests, and the short way to lint one."""

from __future__ import annotations

import datetime as dt

from envkit.model.environment_spec import EnvironmentSpec
from envkit.specs.environment_yml import read_spec
from envkit.specs.lint.engine import lint
from envkit.specs.lint.subject import Registered, Surroundings

TODAY = dt.date(2026, 11, 30)


def spec_of(text: str) -> EnvironmentSpec:
    return read_spec(text.encode(), origin="environment.yml")


def spec_text(*dependencies: str, channels: tuple[str, ...] = ("conda-forge", "nodefaults")) -> str:
    lines = ["name: test", "channels:", *(f"  - {one}" for one in channels), "dependencies:"]
    return "\n".join([*lines, *(f"  - {one}" for one in dependencies)]) + "\n"


def codes(
    text: str,
    *,
    today: dt.date = TODAY,
    lock_channels: frozenset[str] | None = None,
    registered: Registered | None = None,
) -> dict[str, int]:
    """Code to line, of every finding."""
    around = Surroundings(today=today, lock_channels=lock_channels, registered=registered)
    return {finding.code: finding.line for finding in lint(spec_of(text), around)}

"""The report that was measured on an H200, in a checkout or in an installed wheel."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import envkit
from envkit.model.codec import decode
from envkit.model.report import Report

NAME = "h200-torch2.11.0.json"


def h200_path() -> Path:
    package = Path(envkit.__file__).parent
    inside = package / "_baselines" / NAME
    return inside if inside.is_file() else package.parent / "baselines" / NAME


@cache
def h200_report() -> Report:
    return decode(h200_path().read_bytes(), Report, origin=NAME)

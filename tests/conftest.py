"""Fixtures that several folders use."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture
def shared() -> Path:
    """The private folder of facts and corpora beside the checkout."""
    folder = ROOT.parent / "shared"
    if not folder.is_dir():
        pytest.skip("../shared is not here")
    return folder

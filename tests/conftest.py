"""Fixtures that several folders use."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).parent.parent

# CI tries the same examples every time, so that it is red for the commit that broke something; by
# hand each run tries others.
settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")

# A shell starts background jobs with SIGINT ignored, and every process that a test starts would
# inherit that: those that are to be ended by Ctrl-C would go on for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def shared() -> Path:
    """The private folder of facts and corpora beside the checkout."""
    folder = ROOT.parent / "shared"
    if not folder.is_dir():
        pytest.skip("../shared is not here")
    return folder

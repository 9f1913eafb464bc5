"""Fixtures that several folders use."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

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

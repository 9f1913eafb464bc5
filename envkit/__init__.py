"""envkit: prove that a PyTorch experiment will behave the same on two machines."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from envkit import monitor as monitor
    from envkit.monitor import MemoryMonitor as MemoryMonitor
    from envkit.monitor import check_stamp as check_stamp
    from envkit.monitor import print_gpu_utilization as print_gpu_utilization
    from envkit.monitor import stamp as stamp

__version__ = "0.1.0"

#: For training scripts; loaded when first used, so that no command pays for them.
_FROM_MONITOR = frozenset({"MemoryMonitor", "check_stamp", "print_gpu_utilization", "stamp"})


def __getattr__(name: str) -> Any:
    """Load `envkit.monitor` when something of it is used."""
    if name == "monitor":
        return importlib.import_module("envkit.monitor")
    if name in _FROM_MONITOR:
        return getattr(importlib.import_module("envkit.monitor"), name)
    message = f"module 'envkit' has no attribute {name!r}"
    raise AttributeError(message)

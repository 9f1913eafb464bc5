"""For training scripts: watch memory while they run, and stamp their results.

The one part beside `probes/child` that touches torch, and only when something of it is used.
"""

from __future__ import annotations

from envkit.monitor.alarms import Alarm
from envkit.monitor.counters import CudaMemory, Sample
from envkit.monitor.memory_monitor import MemoryMonitor
from envkit.monitor.nvml import gpu_memory_used_bytes, print_gpu_utilization
from envkit.monitor.stamps import StampCheck, check_stamp, stamp

__all__ = [
    "Alarm",
    "CudaMemory",
    "MemoryMonitor",
    "Sample",
    "StampCheck",
    "check_stamp",
    "gpu_memory_used_bytes",
    "print_gpu_utilization",
    "stamp",
]

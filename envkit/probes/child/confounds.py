"""What could disturb a measurement: neighbours on the GPU, profilers and tracers, throttling.

Nothing here refuses or changes a probe; it is told so that a reader can judge.
"""

from __future__ import annotations

import os
import sys
from typing import Any, Dict, List

from . import device_state
from .place import Place

#: More than a context and its kernels have needed (816,644,096 bytes on an H200, FINGERPRINT.md):
#: the rest must be somebody else's.
OWN_CONTEXT_BYTES = 1 << 30

#: Variables with which a profiler puts itself into CUDA programs.
_INJECTIONS = (
    "CUDA_INJECTION64_PATH",
    "NVTX_INJECTION64_PATH",
    "NSYS_PROFILING_SESSION_ID",
    "CUDBG_USE_LEGACY_DEBUGGER",
    "COMPUTE_SANITIZER_INJECTION_PATH",
)


def find(place: Place) -> List[Dict[str, Any]]:
    """Return the fields of a `confound` event for everything that was seen."""
    seen = [*_python_tools(), *_injected(), *_traced(), *_torch_profiler(place)]
    if place.is_cuda:
        seen += [*_neighbours(place), *_throttling(place)]
    return seen


def _confound(name: str, reason: str, **values: int) -> Dict[str, Any]:
    return {"name": name, "reason": reason, "values": values or None}


def _python_tools() -> List[Dict[str, Any]]:
    seen = []
    for name, function in (("sys.settrace", sys.gettrace()), ("sys.setprofile", sys.getprofile())):
        if function is not None:
            seen.append(_confound("python_tracer", "a function is set with {}".format(name)))
    monitoring: Any = getattr(sys, "monitoring", None)  # Python 3.12
    if monitoring is not None:
        names = [monitoring.get_tool(number) for number in range(6)]
        seen += [
            _confound("python_tracer", "sys.monitoring is used by {}".format(name))
            for name in names
            if name
        ]
    return seen


def _injected() -> List[Dict[str, Any]]:
    return [
        _confound("profiler", "the variable {} is set".format(name))
        for name in _INJECTIONS
        if os.environ.get(name)
    ]


def _traced() -> List[Dict[str, Any]]:
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as status:
            lines = status.readlines()
    except OSError:
        return []
    for line in lines:
        if line.startswith("TracerPid:") and line.split()[1] != "0":
            return [_confound("debugger", "process {} traces this one".format(line.split()[1]))]
    return []


def _torch_profiler(place: Place) -> List[Dict[str, Any]]:
    if place.api.profiler_is_on(place.torch):
        return [_confound("profiler", "torch's own profiler is on")]
    return []


def _throttling(place: Place) -> List[Dict[str, Any]]:
    return [
        _confound("throttling", "the device is slowed down: {}".format(reason))
        for reason in device_state.slowdowns(place)
    ]


def _neighbours(place: Place) -> List[Dict[str, Any]]:
    free, total = place.torch.cuda.mem_get_info(place.index)
    ours = place.torch.cuda.memory_reserved(place.index) + OWN_CONTEXT_BYTES
    others = int(total) - int(free) - ours
    if others <= 0:
        return []
    text = "other processes hold at least this much of the device's memory"
    return [_confound("other_processes", text, at_least_bytes=others)]

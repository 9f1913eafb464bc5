"""What the driver's management library says about a device: is it slowed down, and by what.

NVML through ctypes, since this part of envkit has nothing but the standard library and torch.
"""

from __future__ import annotations

import ctypes
from typing import Any, List

from .place import Place

LIBRARY = "libnvidia-ml.so.1"

#: Bits of nvmlDeviceGetCurrentClocksThrottleReasons (nvml.h) that mean less than asked for.
#: Left out: idle (1), application clocks (2), sync boost (0x10), display clocks (0x100).
_SLOWDOWNS = (
    (0x4, "software power cap"),
    (0x8, "hardware slowdown"),
    (0x20, "software thermal slowdown"),
    (0x40, "hardware thermal slowdown"),
    (0x80, "hardware power brake"),
)


def slowdowns(place: Place) -> List[str]:
    """Return every reason for which the device is slowed down now.

    Empty when the device is not slowed down, and when NVML cannot tell (no library, a device that
    cannot be told from others): then nothing is claimed.
    """
    found = place.api.attempt(lambda: _reasons(place))
    if isinstance(found, place.api.Missing) or found is None:
        return []
    return [text for bit, text in _SLOWDOWNS if found & bit]


def _reasons(place: Place) -> Any:
    properties = place.torch.cuda.get_device_properties(place.index)
    bus = "{:08x}:{:02x}:{:02x}.0".format(
        properties.pci_domain_id, properties.pci_bus_id, properties.pci_device_id
    )
    nvml = ctypes.CDLL(LIBRARY)
    if nvml.nvmlInit_v2() != 0:
        return None
    try:
        handle = ctypes.c_void_p()
        name = bus.encode("ascii")
        if nvml.nvmlDeviceGetHandleByPciBusId_v2(name, ctypes.byref(handle)) != 0:
            return None
        reasons = ctypes.c_ulonglong()
        if nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle, ctypes.byref(reasons)) != 0:
            return None
        return reasons.value
    finally:
        nvml.nvmlShutdown()

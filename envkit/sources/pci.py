"""Which NVIDIA display and compute controllers are on the PCI bus, with or without a driver."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from envkit.model.facts import PciDevice
from envkit.model.observed import Absent, Known, NotApplicable, Observed, Unreadable
from envkit.sources.files import NotRead, as_state, is_there, list_folder, read_bytes, read_text
from envkit.sources.redacted import escape_control

NVIDIA: Final = "10de"
#: Base class 03: display controllers, 3D controllers among them.
DISPLAY_CLASS: Final = 0x03
#: Position of the base class in a device's configuration space (PCI Local Bus 3.0, 6.1).
_BASE_CLASS_OFFSET = 0x0B
_HEX_ID = re.compile(r"0x([0-9a-f]{4})")
_HEX_CLASS = re.compile(r"0x([0-9a-f]{2})[0-9a-f]{4}")
_PROC_LINE = re.compile(r"([0-9a-f]{4})\t([0-9a-f]{4})([0-9a-f]{4})\t")


def read_pci(*, root: Path = Path("/")) -> Observed[tuple[PciDevice, ...]]:
    """Return the NVIDIA GPUs on the bus, sorted by address; none is a known empty tuple."""
    if is_there(root / "dev/dxg"):
        reason = "WSL hands the GPU through /dev/dxg and shows no PCI device for it"
        return NotApplicable(reason=reason, source="/dev/dxg")
    folder = root / "sys/bus/pci/devices"
    names = list_folder(folder)
    if not isinstance(names, NotRead):
        return _from_sysfs(folder, names)
    listed = read_text(root / "proc/bus/pci/devices")
    if not isinstance(listed, NotRead):
        return _from_proc(root / "proc/bus/pci", listed)
    if names.kind == "failed":
        return as_state(names, source="/sys/bus/pci/devices")
    reason = "neither /sys/bus/pci/devices nor /proc/bus/pci/devices is there"
    return Unreadable(reason=reason, source="PCI bus")


def _from_sysfs(folder: Path, names: tuple[str, ...]) -> Observed[tuple[PciDevice, ...]]:
    source = "/sys/bus/pci/devices"
    found: list[PciDevice] = []
    for name in names:
        vendor = read_text(folder / name / "vendor")
        if isinstance(vendor, NotRead):
            if vendor.kind == "missing":
                continue  # unplugged between the listing and now
            return Unreadable(reason=vendor.reason, source=source)
        if vendor.strip() == f"0x{NVIDIA}" and _is_display(folder / name):
            found.append(_device(folder / name))
    return Known(value=tuple(found), source=source)


def _is_display(device: Path) -> bool:
    text = read_text(device / "class")
    # A class that cannot be read: better a device too many than a GPU unseen.
    if isinstance(text, NotRead) or not (match := _HEX_CLASS.match(text)):
        return True
    return int(match.group(1), 16) == DISPLAY_CLASS


def _device(device: Path) -> PciDevice:
    text = read_text(device / "device")
    match = None if isinstance(text, NotRead) else _HEX_ID.match(text)
    return PciDevice(
        address=escape_control(device.name),
        device_id=f"{NVIDIA}:{match.group(1) if match else '????'}",
        kernel_driver=_driver(device / "driver"),
    )


def _driver(link: Path) -> Observed[str]:
    source = "/sys/bus/pci/devices/*/driver"
    try:
        return Known(value=escape_control(link.readlink().name), source=source)
    except FileNotFoundError:
        return Absent(source=source, reason="no kernel driver is bound to the device")
    except OSError as error:
        return Unreadable(reason=f"{link} cannot be read: {error.strerror}", source=source)


def _from_proc(folder: Path, listed: str) -> Observed[tuple[PciDevice, ...]]:
    source = "/proc/bus/pci/devices"
    found: list[PciDevice] = []
    for line in listed.splitlines():
        match = _PROC_LINE.match(line)
        if match is None or match.group(2) != NVIDIA:
            continue
        number = int(match.group(1), 16)
        bus, slot, function = number >> 8, (number >> 3) & 0x1F, number & 0x7
        if not _is_display_in_proc(folder / f"{bus:02x}" / f"{slot:02x}.{function}", function):
            continue
        driver = line.rsplit("\t", 1)[-1].strip()
        found.append(
            PciDevice(
                address=f"0000:{bus:02x}:{slot:02x}.{function}",
                device_id=f"{NVIDIA}:{match.group(3)}",
                kernel_driver=Known(value=escape_control(driver), source=source)
                if driver
                else Absent(source=source, reason="no kernel driver is bound to the device"),
            )
        )
    return Known(value=tuple(sorted(found, key=lambda device: device.address)), source=source)


def _is_display_in_proc(config: Path, function: int) -> bool:
    content = read_bytes(config)
    if isinstance(content, NotRead) or len(content) <= _BASE_CLASS_OFFSET:
        # The list itself has no class. A GPU is function 0; its audio and USB parts are not.
        return function == 0
    return content[_BASE_CLASS_OFFSET] == DISPLAY_CLASS

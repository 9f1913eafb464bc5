"""NVIDIA devices on recorded PCI buses."""

from __future__ import annotations

from pathlib import Path

from envkit.model.facts import PciDevice
from envkit.model.observed import Absent, Known, NotApplicable, Unreadable
from envkit.sources.pci import read_pci

from .trees import known, plant

BUS = "sys/bus/pci/devices"


def device(address: str, vendor: str, kind: str, number: str = "0x2330") -> dict[str, str]:
    base = f"{BUS}/{address}"
    return {
        f"{base}/vendor": f"{vendor}\n",
        f"{base}/class": f"{kind}\n",
        f"{base}/device": f"{number}\n",
    }


def test_a_gpu_with_and_one_without_a_driver(tmp_path: Path) -> None:
    plant(tmp_path, device("0000:65:00.0", "0x10de", "0x030200"))
    plant(tmp_path, device("0000:17:00.0", "0x10de", "0x030000", "0x20b5"))
    (tmp_path / BUS / "0000:65:00.0/driver").symlink_to("../../../bus/pci/drivers/nvidia")
    source = "/sys/bus/pci/devices/*/driver"
    unbound = Absent(source=source, reason="no kernel driver is bound to the device")
    assert known(read_pci(root=tmp_path)) == (
        PciDevice(address="0000:17:00.0", device_id="10de:20b5", kernel_driver=unbound),
        PciDevice(
            address="0000:65:00.0",
            device_id="10de:2330",
            kernel_driver=Known(value="nvidia", source=source),
        ),
    )


def test_other_makers_and_other_kinds_are_passed_over(tmp_path: Path) -> None:
    plant(tmp_path, device("0000:00:02.0", "0x8086", "0x030000"))
    plant(tmp_path, device("0000:17:00.1", "0x10de", "0x040300"))  # sound of a graphics card
    plant(tmp_path, device("0000:c3:00.0", "0x10de", "0x068000"))  # NVSwitch
    assert known(read_pci(root=tmp_path)) == ()


def test_a_broken_device_is_a_gpu_too_many_rather_than_one_unseen(tmp_path: Path) -> None:
    plant(tmp_path, {f"{BUS}/0000:17:00.0/vendor": "0x10de\n"})
    plant(tmp_path, {f"{BUS}/0000:17:00.0/class": b"\xff\xfe\x00", f"{BUS}/0000:18:00.0/": ""})
    (tmp_path / BUS / "0000:17:00.0/driver").mkdir()  # a folder in place of the link
    (found,) = known(read_pci(root=tmp_path))
    assert found.device_id == "10de:????"
    assert isinstance(found.kernel_driver, Unreadable)


def test_a_vendor_that_cannot_be_read_makes_the_list_unreadable(tmp_path: Path) -> None:
    plant(tmp_path, {f"{BUS}/0000:17:00.0/vendor/": ""})
    found = read_pci(root=tmp_path)
    assert isinstance(found, Unreadable)
    assert "vendor is not a regular file" in found.reason


PROC_LINES = (
    "0000\t80860d57\t0\t0\n"
    "1700\t10de2330\t10\t0\tnvidia\n"
    "1701\t10de10f8\t11\t0\tsnd_hda_intel\n"
    "6508\t10de20b5\t12\t0\t\n"
    "c300\t10de22a3\t13\t0\tnvidia-nvswitch\n"
    "a line of something else\n"
)


def test_without_sysfs_the_list_of_proc_is_read(tmp_path: Path) -> None:
    config = bytearray(64)
    config[0x0B] = 0x06
    plant(tmp_path, {"proc/bus/pci/devices": PROC_LINES, "proc/bus/pci/c3/00.0": bytes(config)})
    config[0x0B] = 0x03
    plant(tmp_path, {"proc/bus/pci/17/00.0": bytes(config)})
    found = known(read_pci(root=tmp_path))
    assert [(one.address, one.device_id) for one in found] == [
        ("0000:17:00.0", "10de:2330"),
        ("0000:65:01.0", "10de:20b5"),
    ]
    assert known(found[0].kernel_driver) == "nvidia"
    assert isinstance(found[1].kernel_driver, Absent)


def test_no_bus_at_all_is_not_the_same_as_no_gpu(tmp_path: Path) -> None:
    assert isinstance(read_pci(root=tmp_path), Unreadable)


def test_wsl_has_no_pci_device_for_its_gpu(tmp_path: Path) -> None:
    plant(tmp_path, {"dev/dxg": "", f"{BUS}/": ""})
    assert isinstance(read_pci(root=tmp_path), NotApplicable)

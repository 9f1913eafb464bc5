"""The machine: its operating system, C library, container, processors and memory."""

from __future__ import annotations

import ctypes
import os
import platform
import re
import shlex
import sys
from pathlib import Path
from typing import Final

from envkit.model.facts import HostFacts, OsName
from envkit.model.observed import Absent, Known, NotApplicable, Observed, Unreadable
from envkit.sources.files import NotRead, as_state, is_file, is_folder, is_there, read_text
from envkit.sources.redacted import clipped, escape_control

#: Longest text of one fact of the host.
MAX_CHARS: Final = 200


def read_host(*, root: Path = Path("/"), system: str = sys.platform) -> HostFacts:
    """Return the facts of the host.

    Args:
        root: folder that stands for `/`; only files below it are read on Linux.
        system: `sys.platform` of the machine.

    """
    if system.startswith("linux"):
        return _linux(root)
    name: OsName | None = {"win32": "windows", "darwin": "macos"}.get(system)  # type: ignore[assignment]
    elsewhere = NotApplicable(reason="only Linux has it", source="sys.platform")
    return HostFacts(
        os=_known(name, "sys.platform")
        if name
        else Unreadable(reason=f"envkit does not know the system {system}", source="sys.platform"),
        os_release=_platform_text(platform.platform(), "platform.platform"),
        kernel=_platform_text(platform.release(), "platform.release"),
        arch=_arch(),
        glibc=elsewhere,
        container=elsewhere,
        jetson=elsewhere,
        cpu_model=_platform_text(platform.processor(), "platform.processor"),
        cpu_count=_cpu_count(),
        memory_bytes=Unreadable(reason="memory is read on Linux only", source="platform"),
    )


def _linux(root: Path) -> HostFacts:
    kernel = _kernel(root)
    return HostFacts(
        os=_known("wsl" if _is_wsl(root, kernel) else "linux", "/proc/sys/kernel/osrelease"),
        os_release=_os_release(root),
        kernel=kernel,
        arch=_arch(),
        glibc=_glibc(),
        container=_container(root),
        jetson=_jetson(root),
        cpu_model=_cpu_model(root),
        cpu_count=_cpu_count(),
        memory_bytes=_memory_bytes(root),
    )


def _known(value: OsName, source: str) -> Observed[OsName]:
    return Known(value=value, source=source)


def _text(value: str) -> str:
    return clipped(escape_control(value.strip()), MAX_CHARS)


def _platform_text(value: str, source: str) -> Observed[str]:
    if not value:
        return Unreadable(reason=f"{source} says nothing", source=source)
    return Known(value=_text(value), source=source)


def _kernel(root: Path) -> Observed[str]:
    source = "/proc/sys/kernel/osrelease"
    text = read_text(root / "proc/sys/kernel/osrelease")
    if isinstance(text, NotRead):
        return Unreadable(reason=text.reason, source=source)
    return Known(value=_text(text), source=source)


def _is_wsl(root: Path, kernel: Observed[str]) -> bool:
    # WSL 1: 4.4.0-19041-Microsoft; WSL 2: 5.15.146.1-microsoft-standard-WSL2, or a kernel of the
    # user's own, with the folder that Windows mounts its driver into.
    if isinstance(kernel, Known) and "microsoft" in kernel.value.lower():
        return True
    return is_there(root / "dev/dxg") and is_folder(root / "usr/lib/wsl/lib")


def _arch() -> Observed[str]:
    machine = platform.machine().lower()
    # One name for one architecture: Windows says AMD64, macOS says arm64.
    return _platform_text({"amd64": "x86_64", "arm64": "aarch64"}.get(machine, machine), "uname")


def _os_release(root: Path) -> Observed[str]:
    for place in ("etc/os-release", "usr/lib/os-release"):
        text = read_text(root / place)
        if isinstance(text, NotRead):
            if text.kind == "failed":
                return Unreadable(reason=text.reason, source=f"/{place}")
            continue
        fields = _shell_assignments(text)
        name = fields.get("NAME") or fields.get("ID") or ""
        shown = fields.get("PRETTY_NAME") or f"{name} {fields.get('VERSION_ID', '')}"
        return _platform_text(_text(shown), f"/{place}")
    return Absent(source="/etc/os-release", reason="there is no os-release file")


def _shell_assignments(text: str) -> dict[str, str]:
    found = {}
    for line in text.splitlines():
        name, equals, value = line.partition("=")
        if not equals or not name.isidentifier():
            continue
        try:
            found[name] = " ".join(shlex.split(value))
        except ValueError:  # a quotation mark that is not closed
            found[name] = value
    return found


def _glibc() -> Observed[str]:
    # The C library of this process is the host's; `platform.libc_ver()` would read the one that
    # the interpreter was linked against.
    source = "gnu_get_libc_version"
    try:
        version = ctypes.CDLL(None).gnu_get_libc_version
    except (OSError, AttributeError):
        return NotApplicable(reason="the C library is not glibc (musl?)", source=source)
    version.restype = ctypes.c_char_p
    answer = version()
    if not isinstance(answer, bytes):
        return Unreadable(reason="gnu_get_libc_version says nothing", source=source)
    return Known(value=answer.decode("ascii", "replace"), source=source)


#: Marks that a kind of container leaves: a file, or a word in the cgroup of process 1.
_CONTAINER_FILES = (
    ("var/run/secrets/kubernetes.io", "kubernetes"),
    ("run/secrets/kubernetes.io", "kubernetes"),
    (".singularity.d", "apptainer"),
    ("run/.containerenv", "podman"),
    (".dockerenv", "docker"),
)
_CONTAINER_WORDS = (
    ("kubepods", "kubernetes"),
    ("libpod", "podman"),
    ("docker", "docker"),
    ("lxc", "lxc"),
    ("containerd", "unknown kind"),
)
#: Values of the variable `container` of process 1 (systemd's container interface).
_CONTAINER_VARIABLE = {
    "docker": "docker",
    "podman": "podman",
    "oci": "unknown kind",
    "lxc": "lxc",
    "lxc-libvirt": "lxc",
    "apptainer": "apptainer",
    "singularity": "apptainer",
}


def _container(root: Path) -> Observed[str]:
    for place, kind in _CONTAINER_FILES:
        if is_there(root / place):
            return Known(value=kind, source=f"/{place}")
    cgroup = read_text(root / "proc/1/cgroup")
    if not isinstance(cgroup, NotRead):
        for word, kind in _CONTAINER_WORDS:
            if re.search(rf"[/.:-]{word}", cgroup):
                return Known(value=kind, source="/proc/1/cgroup")
    variable = read_text(root / "run/systemd/container")
    if not isinstance(variable, NotRead) and variable.strip():
        kind = _CONTAINER_VARIABLE.get(variable.strip(), "unknown kind")
        return Known(value=kind, source="/run/systemd/container")
    return Absent(
        source="/.dockerenv, /run/.containerenv, /.singularity.d, /proc/1/cgroup",
        reason="no mark of a container",
    )


def _jetson(root: Path) -> Observed[bool]:
    if is_file(root / "etc/nv_tegra_release"):
        return Known(value=True, source="/etc/nv_tegra_release")
    model = read_text(root / "proc/device-tree/model")
    if isinstance(model, NotRead):
        # No device tree: every machine with firmware tables, so every x86 one.
        return Known(value=False, source="/etc/nv_tegra_release, /proc/device-tree/model")
    is_one = re.search(r"\b(jetson|tegra|orin|xavier)\b", model, re.IGNORECASE) is not None
    return Known(value=is_one, source="/proc/device-tree/model")


def _cpu_model(root: Path) -> Observed[str]:
    source = "/proc/cpuinfo"
    # A machine with hundreds of processors repeats itself for megabytes.
    text = read_text(root / "proc/cpuinfo", limit_bytes=16 << 20)
    if isinstance(text, NotRead):
        return as_state(text, source=source)
    for label in ("model name", "Model", "Hardware", "cpu model"):
        match = re.search(rf"^{label}[ \t]*:[ \t]*(\S.*)$", text, re.MULTILINE)
        if match:
            return Known(value=_text(match.group(1)), source=source)
    match = re.search(r"^CPU part[ \t]*:[ \t]*(0x[0-9a-f]+)$", text, re.MULTILINE)
    if match:
        # Arm servers give numbers only; they tell two models apart all the same.
        return Known(value=f"Arm part {match.group(1)}", source=source)
    return Unreadable(reason=f"{source} names no model", source=source)


def _cpu_count() -> Observed[int]:
    try:
        return Known(value=len(os.sched_getaffinity(0)), source="sched_getaffinity")
    except (AttributeError, OSError):
        count = os.cpu_count()
    if count is None:
        return Unreadable(reason="os.cpu_count says nothing", source="os.cpu_count")
    return Known(value=count, source="os.cpu_count")


def _memory_bytes(root: Path) -> Observed[int]:
    source = "/proc/meminfo"
    text = read_text(root / "proc/meminfo")
    if isinstance(text, NotRead):
        return as_state(text, source=source)
    match = re.search(r"^MemTotal:\s{0,20}(\d{1,15}) kB$", text, re.MULTILINE)
    if match is None:
        return Unreadable(reason=f"{source} has no MemTotal", source=source)
    return Known(value=int(match.group(1)) * 1024, source=source)

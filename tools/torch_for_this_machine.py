"""Which build of torch fits this machine, and where pip finds it.

`make verify` and `make test` run it with `.venv`'s interpreter: standard library and pip only. It
prints one line for each thing it found out or does, and leaves a torch that is there alone. Driver
floors are those of NVIDIA's CUDA release notes ("CUDA Driver"), builds and their GPU architectures
those of PyTorch's release matrix (RELEASE.md), both as read on 2026-11-30.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import platform
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

#: The torch that the tests are written against.
TESTED = "2.13.0"
#: Upstream's own wheel index; one folder a build.
WHEEL_INDEX = "https://download.pytorch.org/whl/"
#: Written by the kernel module, so it is there where `nvidia-smi` is missing or broken.
KERNEL_MODULE = Path("/proc/driver/nvidia/version")
#: `nvidia-smi` outside PATH: WSL keeps it here.
WSL_SMI = Path("/usr/lib/wsl/lib/nvidia-smi")

Version = tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Driver:
    """The NVIDIA driver of this machine and the compute capabilities it reports, if it does."""

    version: str
    capabilities: tuple[Version, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Build:
    """A torch release and its build's tag; `plain`: the Python package index has this build."""

    release: str
    tag: str
    why: str
    plain: bool = False


def numbers(text: str) -> Version:
    """Return a dotted version as a tuple of integers."""
    return tuple(int(part) for part in text.split("."))


def printed_by(*command: str, seconds: float) -> str | None:
    """Return what a program printed, or None where it failed, hung or is not there."""
    try:
        done = subprocess.run(  # noqa: S603 - a fixed argument list, no shell
            command, capture_output=True, check=True, text=True, timeout=seconds
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout


def driver_of_this_machine(kernel_module: Path = KERNEL_MODULE) -> Driver | None:
    """Ask `nvidia-smi`, then the kernel module; None where neither knows a driver."""
    smi = shutil.which("nvidia-smi") or (str(WSL_SMI) if WSL_SMI.exists() else None)
    if smi is not None:
        asked = "--query-gpu=driver_version,compute_cap"
        rows = re.findall(
            r"^(\d+(?:\.\d+)+), *(\d+\.\d+)?",
            printed_by(smi, asked, "--format=csv,noheader", seconds=30) or "",
            re.MULTILINE,
        )
        if rows:
            found = tuple(numbers(row[1]) for row in rows if row[1])
            return Driver(version=rows[0][0], capabilities=found)
    try:
        text = kernel_module.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    match = re.search(r"Kernel Module\s+(?:for \S+\s+)?(\d+(?:\.\d+)+)", text)
    return Driver(version=match.group(1)) if match else None


def build_for(driver: Driver | None, system: str) -> Build:
    """Return the build of torch that this driver and these GPUs can run."""
    if system != "Linux":
        why = f"{system}: the package index's own build"
        return Build(release=TESTED, tag="cpu", plain=True, why=why)
    if driver is None:
        return Build(release=TESTED, tag="cpu", why="no NVIDIA driver: the CPU build")
    return build_for_driver(driver)


def build_for_driver(driver: Driver) -> Build:
    """Return the newest build that the driver can run and that has the newest GPU's kernels."""
    version = numbers(driver.version)
    newest = max(driver.capabilities, default=None)
    seen = f"NVIDIA driver {driver.version}"
    if newest is not None:
        seen += f", compute capability {'.'.join(map(str, newest))}"
    if version >= (580, 65, 6):
        if newest is not None and newest < (7, 5):
            why = f"{seen}: CUDA 12.6, the last build with kernels for this GPU"
            return Build(release=TESTED, tag="cu126", why=why)
        why = f"{seen}: CUDA 13.0 (needs 580.65.06 or newer)"
        return Build(release=TESTED, tag="cu130", plain=True, why=why)
    if version >= (525, 60, 13):
        if newest is not None and newest >= (10, 0):
            why = f"{seen}: CUDA 12.9 (needs 525.60.13 or newer; 12.6 has no kernels for this GPU)"
            return Build(release=TESTED, tag="cu129", why=why)
        why = f"{seen}: CUDA 12.6 (needs 525.60.13 or newer; 13.0 needs 580.65.06)"
        return Build(release=TESTED, tag="cu126", why=why)
    if version >= (450, 80, 2):
        why = f"{seen}: torch 2.7.1, the last with a build for CUDA 11 (CUDA 12 needs 525.60.13)"
        return Build(release="2.7.1", tag="cu118", why=why)
    why = f"{seen} is under 450.80.02, the floor of CUDA 11: the CPU build; update the driver"
    return Build(release=TESTED, tag="cpu", why=why)


def known_to_pip() -> frozenset[str]:
    """Return the versions of torch that pip's own configuration finds; nothing is downloaded."""
    command = (sys.executable, "-m", "pip", "--disable-pip-version-check", "index", "versions")
    text = printed_by(*command, "torch", seconds=120) or ""
    match = re.search(r"^Available versions: (.*)$", text, re.MULTILINE)
    return frozenset(match.group(1).split(", ")) if match else frozenset()


def ways_to_install(build: Build, known: frozenset[str]) -> list[tuple[str, list[str]]]:
    """Return what to try, best first: a sentence and pip's arguments."""
    tagged = f"{build.release}+{build.tag}"
    if tagged in known:
        return [(f"{tagged} is in a place pip is configured to look", [f"torch=={tagged}"])]
    # '===' takes the untagged release alone: '==' would prefer any other tagged build pip knows.
    plain = [f"torch==={build.release}"]
    if build.plain:
        return [(f"{build.release} from the package index is this build", plain)]
    index = WHEEL_INDEX + build.tag
    ways = [
        (
            f"{tagged} from {index}",
            ["--retries", "1", "--timeout", "20", "--index-url", index, f"torch=={tagged}"],
        )
    ]
    if build.tag == "cpu":
        warning = (
            f"WARNING: that index could not be used; the package index's {build.release} is a "
            "CUDA build, several GB with its libraries, and works on the CPU too"
        )
        ways.append((warning, plain))
    return ways


def install(ways: list[tuple[str, list[str]]], *, dry_run: bool) -> bool:
    """Try each way until pip succeeds; say whether one did."""
    pip = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check"]
    if not sys.stdout.isatty():
        pip.append("--quiet")  # a person wants to see several gigabytes move, a log does not
    for sentence, arguments in ways:
        print(f"torch: {sentence}", flush=True)
        if dry_run or subprocess.run([*pip, *arguments], check=False).returncode == 0:  # noqa: S603
            return True
    return False


def main() -> int:
    """Install a torch that fits this machine into the running interpreter's environment."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--dry-run", action="store_true", help="say what would be installed")
    dry_run: bool = parser.parse_args().dry_run
    try:
        there = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        pass
    else:
        print(f"torch: {there} is in {sys.prefix}, nothing to install")
        return 0
    build = build_for(driver_of_this_machine(), platform.system())
    print(f"torch: {build.why}")
    if install(ways_to_install(build, known_to_pip()), dry_run=dry_run):
        return 0
    print(
        f"torch: could not be installed. Install one by hand into {sys.prefix}, "
        "or judge another environment: make verify TARGET=/path/to/its/python",
        file=sys.stderr,
    )
    return 1


if __name__ == "__main__":
    raise SystemExit(main())

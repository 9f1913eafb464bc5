"""Compare reading a lock of 885 packages with conda-lock's own reader and PyYAML's, in one run.

Run from the root of a checkout, with the extra `lock`: `python benchmarks/lock_reading.py`. The
lock is put together from those of environments/: all their packages, once each, over platforms
until there are 885. Prints milliseconds (best of seven, each reader in turn) and ratios.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import yaml
from conda_lock.lockfile import parse_conda_lock_file

from envkit.model.conda_lock import CondaLock, LockedPackage
from envkit.model.lock_reading import _by_yaml, read_conda_lock
from envkit.model.lock_writing import write_conda_lock

ENVIRONMENTS = Path(__file__).parent.parent / "environments"
PACKAGES = 885
ROUNDS = 7


def large_lock() -> CondaLock:
    """Return a lock of 885 packages: real ones, a name at most once for a platform."""
    locks = [
        read_conda_lock(path.read_bytes(), origin=path.name)
        for path in sorted(ENVIRONMENTS.glob("*.conda-lock.yml"))
    ]
    found: dict[str, LockedPackage] = {}
    for lock in locks:
        for package in lock.package:
            found.setdefault(package.name, package)
    platforms = ("linux-64", "linux-aarch64", "osx-arm64")
    everywhere = [
        msgspec.structs.replace(
            package,
            platform=platform,
            url=package.url.replace("/linux-64/", f"/{platform}/"),
        )
        for platform in platforms
        for package in found.values()
    ]
    metadata = msgspec.structs.replace(locks[0].metadata, platforms=platforms)
    return CondaLock(metadata=metadata, package=tuple(everywhere[:PACKAGES]))


def milliseconds(work: Callable[[], object]) -> float:
    """Time one call."""
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * 1000


def main() -> None:
    """Print a line a reader."""
    content = write_conda_lock(large_lock(), header="Made by a benchmark.")
    assert len(read_conda_lock(content, origin="lock").package) == PACKAGES  # noqa: S101
    text = content.decode()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "conda-lock.yml"
        path.write_bytes(content)
        readers: dict[str, Callable[[], object]] = {
            "envkit": lambda: read_conda_lock(path.read_bytes(), origin="lock"),
            "envkit, layout unknown": lambda: _by_yaml(text, "lock"),
            "PyYAML, C loader": lambda: yaml.load(text, Loader=yaml.CSafeLoader),
            "conda-lock": lambda: parse_conda_lock_file(path),
        }
        times = {name: [] for name in readers}  # type: dict[str, list[float]]
        for _ in range(ROUNDS):
            for name, read in readers.items():
                times[name].append(milliseconds(read))
    slowest = min(times["conda-lock"])
    print(f"{PACKAGES} packages, {len(content) >> 10} KiB")
    for name, taken in times.items():
        print(f"{name:24} {min(taken):8.1f} ms   {slowest / min(taken):5.1f}x")


if __name__ == "__main__":
    main()

"""How long `envkit verify` takes for a conda environment of 885 packages, and for its files.

Run from the root of a checkout with the interpreter that has envkit. The environment is synthetic:
real packages of environments/, filled up with made-up ones, each with 20 files; its records and
its lock are true. The commands take turns in one run, and ratios are of medians.

    python benchmarks/verify_prefix.py                        default check, --deep on 17,700 files
    python benchmarks/verify_prefix.py --peer pixi-sbom       beside pixi-sbom --verify-files
    python benchmarks/verify_prefix.py --big FOLDER           --deep on 8 files of 1 GiB, in FOLDER
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import msgspec

from envkit.model.conda_lock import CondaLock, LockedPackage, PackageHash
from envkit.model.lock_reading import read_conda_lock
from envkit.model.lock_writing import write_conda_lock
from envkit.sources.file_records import recorded_files
from envkit.sources.file_turns import check_files, processors

ENVIRONMENTS = Path(__file__).parent.parent / "environments"
PACKAGES = 885
FILES_EACH = 20
BIG_FILES = 8
BIG_BYTES = 1 << 30
BLOCK_BYTES = 1 << 20


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--bytes", type=int, default=4000, help="size of a small file")
    parser.add_argument("--peer", help="the program pixi-sbom")
    parser.add_argument("--big", type=Path, help="a folder with room for 8 GiB; emptied again")
    options = parser.parse_args()
    print_machine()
    if options.big is not None:
        measure_big(options.big, options.runs)
        return
    with tempfile.TemporaryDirectory(prefix="envkit-prefix-") as folder:
        measure_small(Path(folder), options)


# -- many packages, many small files --------------------------------------------------------------


def measure_small(folder: Path, options: argparse.Namespace) -> None:
    """Measure whole processes on an environment of 885 packages."""
    prefix, lock = folder / "prefix", folder / "conda-lock.yml"
    large = large_lock()
    lock.write_bytes(write_conda_lock(large, header="Made by a benchmark."))
    write_prefix(prefix, large.package, FILES_EACH, options.bytes)
    check = [sys.executable, "-m", "envkit", "verify", "-p", str(prefix), "--no-fingerprint", "-q"]
    commands = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "verify, no lock": check,
        "verify --lock": [*check, "--lock", str(lock)],
        "verify --lock --deep": [*check, "--lock", str(lock), "--deep"],
    }
    if options.peer:
        sbom = [options.peer, "--prefix", str(prefix), "--verify-files"]
        commands["pixi-sbom --verify-files"] = [*sbom, "--output", str(folder / "sbom.json")]
    print(f"{PACKAGES} packages, {PACKAGES * FILES_EACH} files of {options.bytes} bytes")
    seconds = run_in_turns(commands, options.runs)
    bare = statistics.median(seconds["python -c pass"])
    for name, taken in seconds.items():
        median = statistics.median(taken)
        print(
            f"{name:28} median {median:6.3f} s, best {min(taken):6.3f} s"
            f"  {median / bare:6.1f} x bare start"
        )
    if options.peer:
        deep = statistics.median(seconds["verify --lock --deep"])
        peer = statistics.median(seconds["pixi-sbom --verify-files"])
        print(f"--deep / pixi-sbom           {deep / peer:.2f}")


def run_in_turns(commands: dict[str, list[str]], runs: int) -> dict[str, list[float]]:
    """Run every command in turn, once unmeasured, and return wall times in seconds."""
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    for turn in range(runs + 1):
        for name, command in commands.items():
            started = time.perf_counter()
            done = subprocess.run(command, capture_output=True, check=False)
            ended = time.perf_counter()
            if done.returncode != 0:
                message = f"{name} ended with {done.returncode}: {done.stderr.decode()[-500:]}"
                raise RuntimeError(message)
            if turn > 0:
                seconds[name].append(ended - started)
    return seconds


def large_lock() -> CondaLock:
    """Return a lock of 885 packages for linux-64: real ones, filled up with made-up ones."""
    locks = [
        read_conda_lock(path.read_bytes(), origin=path.name)
        for path in sorted(ENVIRONMENTS.glob("*.conda-lock.yml"))
    ]
    found: dict[str, LockedPackage] = {}
    for lock in locks:
        for package in lock.packages("linux-64"):
            found.setdefault(package.name, package)
    for number in range(PACKAGES - len(found)):
        name = f"made-up-{number:03}"
        digest = hashlib.sha256(name.encode()).hexdigest()
        found[name] = LockedPackage(
            name=name,
            version="1.0",
            manager="conda",
            platform="linux-64",
            url=f"https://conda.anaconda.org/conda-forge/noarch/{name}-1.0-py_0.conda",
            hash=PackageHash(md5=digest[:32], sha256=digest),
        )
    metadata = msgspec.structs.replace(locks[0].metadata, platforms=("linux-64",))
    return CondaLock(metadata=metadata, package=tuple(found.values())[:PACKAGES])


def write_prefix(
    prefix: Path, packages: tuple[LockedPackage, ...], files: int, size_bytes: int
) -> None:
    """Write an environment with true records: so many files of so many bytes for each package."""
    numbers = random.Random(0)  # noqa: S311 (nothing secret)
    (prefix / "conda-meta").mkdir(parents=True)
    (prefix / "conda-meta" / "history").touch()
    for package in packages:
        folder = prefix / "lib" / package.name
        folder.mkdir(parents=True)
        paths = []
        for number in range(files):
            content = numbers.randbytes(size_bytes)
            (folder / f"f{number}.bin").write_bytes(content)
            paths.append(entry(f"lib/{package.name}/f{number}.bin", content))
        write_record(prefix, package, paths)


def entry(path: str, content: bytes) -> dict[str, object]:
    """Return what a record says of a file."""
    digest = hashlib.sha256(content).hexdigest()
    return {
        "_path": path,
        "path_type": "hardlink",
        "sha256": digest,
        "sha256_in_prefix": digest,
        "size_in_bytes": len(content),
    }


def write_record(prefix: Path, package: LockedPackage, paths: list[dict[str, object]]) -> None:
    """Write the record of a package as conda does."""
    stem = f"{package.name}-{package.version}-{package.build_string}"
    record = {
        "name": package.name,
        "version": package.version,
        "build": package.build_string,
        "build_number": 0,
        "channel": package.channel_url,
        "subdir": package.subdir,
        "fn": package.file_name,
        "url": package.url,
        "md5": package.hash.md5,
        "sha256": package.hash.sha256,
        "depends": [f"{name} {text}".strip() for name, text in package.dependencies.items()],
        "constrains": [],
        "files": [one["_path"] for one in paths],
        "paths_data": {"paths_version": 1, "paths": paths},
        "link": {"source": "", "type": 1},
        "requested_spec": "None",
    }
    (prefix / "conda-meta" / f"{stem}.json").write_text(json.dumps(record, indent=1))


# -- a few large files ----------------------------------------------------------------------------


def measure_big(folder: Path, runs: int) -> None:
    """Compare hashing 8 files of 1 GiB with what the processors can hash from memory."""
    place = Path(tempfile.mkdtemp(prefix="envkit-big-", dir=folder))
    try:
        write_big(place)
        recorded = recorded_files(place)
        size = BIG_FILES * BIG_BYTES
        ratios = []
        for _ in range(runs):
            before = memory_rate()
            started = time.perf_counter()
            checked = check_files(place, recorded.files, lambda *_: None)
            rate = size / (time.perf_counter() - started)
            after = memory_rate()
            if checked.found or checked.size_bytes != size:
                message = "the files are not as recorded"
                raise RuntimeError(message)
            ratios.append(rate / ((before + after) / 2))
            print(
                f"--deep {rate / 1e9:6.3f} GB/s, processors {before / 1e9:6.3f} and "
                f"{after / 1e9:6.3f} GB/s: {ratios[-1]:.1%}"
            )
        print(f"median {statistics.median(ratios):.1%} of what {processors()} processors can hash")
    finally:
        shutil.rmtree(place)


def write_big(prefix: Path) -> None:
    """Write an environment of one package with 8 files of 1 GiB each."""
    (prefix / "conda-meta").mkdir()
    (prefix / "lib").mkdir()
    block = random.Random(0).randbytes(BLOCK_BYTES)  # noqa: S311 (nothing secret)
    digest = hashlib.sha256()
    for _ in range(BIG_BYTES // BLOCK_BYTES):
        digest.update(block)
    paths = []
    for number in range(BIG_FILES):
        path = f"lib/f{number}.bin"
        with (prefix / path).open("wb") as file:
            for _ in range(BIG_BYTES // BLOCK_BYTES):
                file.write(block)
        one = entry(path, b"")
        one.update(sha256=digest.hexdigest(), sha256_in_prefix=digest.hexdigest())
        paths.append({**one, "size_in_bytes": BIG_BYTES})
    write_record(prefix, large_lock().package[0], paths)


def memory_rate() -> float:
    """Return how many bytes a second all processors hash together, from memory."""
    block = bytes(BLOCK_BYTES)
    counts = [0] * processors()
    end = time.perf_counter() + 2

    def work(place: int) -> None:
        while time.perf_counter() < end:
            digest = hashlib.sha256()
            for _ in range(64):
                digest.update(block)
            counts[place] += 64 * BLOCK_BYTES

    started = time.perf_counter()
    threads = [threading.Thread(target=work, args=(place,)) for place in range(len(counts))]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    return sum(counts) / (time.perf_counter() - started)


def print_machine() -> None:
    """Print what the numbers belong to."""
    load = f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"
    print(f"Python {platform.python_version()}, {processors()} processors, load {load}")


if __name__ == "__main__":
    main()

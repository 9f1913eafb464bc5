"""How long `envkit verify --from PASTE` takes as a whole process, beside a bare start of Python.

The package is copied and its byte code compiled first, as an installation does; the two commands
take turns, so that a machine that is busy for a while is busy for both. Ratio of medians.
"""

from __future__ import annotations

import argparse
import compileall
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PASTE = ROOT / "tests" / "data" / "pastes" / "works-a100.txt"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("paste", nargs="?", type=Path, default=PASTE)
    parser.add_argument("--runs", type=int, default=15)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT / "envkit", Path(folder, "envkit"))
        compileall.compile_dir(folder, quiet=2)
        judge = [sys.executable, "-m", "envkit", "verify", "--from", str(options.paste.resolve())]
        commands = {
            "envkit verify --from PASTE": judge,
            "the same, --json": [*judge, "--json"],
            "python -c pass": [sys.executable, "-c", "pass"],
        }
        seconds = measure(commands, options.runs, folder)
    load = f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"
    print(f"Python {platform.python_version()}, {os.cpu_count()} processors, load {load}")
    for name, found in seconds.items():
        print(f"{name:<28} median {statistics.median(found):6.3f} s, best {min(found):6.3f} s")
    medians = [statistics.median(found) for found in seconds.values()]
    print(f"judging / bare start         {medians[0] / medians[-1]:.1f}")


def measure(commands: dict[str, list[str]], runs: int, folder: str) -> dict[str, list[float]]:
    """Run every command in turn, once unmeasured, and return the wall times in seconds."""
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    environment = {**os.environ, "PYTHONPATH": folder}
    for turn in range(runs + 1):
        for name, command in commands.items():
            started = time.perf_counter()
            done = subprocess.run(
                command, capture_output=True, check=False, env=environment, cwd=folder
            )
            ended = time.perf_counter()
            if done.returncode not in {0, 1, 3}:
                message = f"{name} ended with {done.returncode}: {done.stderr.decode()}"
                raise RuntimeError(message)
            if turn > 0:
                seconds[name].append(ended - started)
    return seconds


if __name__ == "__main__":
    main()

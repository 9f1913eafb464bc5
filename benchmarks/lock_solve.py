"""Time the lock of `vit` with the built-in solver, as a whole process and solver alone.

Run from the root of a checkout that has ../shared, with the extra `lock`:
`python benchmarks/lock_solve.py [CHANNELS]`. Prints seconds of three runs, and beside them those of
starting conda-lock for its help alone: what no solver could save.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
CHANNELS = ROOT.parent / "shared" / "facts" / "conda" / "snapshot"
ROUNDS = 3


def seconds(argv: list[str], folder: Path) -> float:
    """Run a program to its end and return how long it took."""
    start = time.perf_counter()
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run(argv, cwd=folder, env=environment, check=True, capture_output=True)
    return time.perf_counter() - start


def main() -> None:
    """Print a line a program."""
    channels = Path(sys.argv[1]) if len(sys.argv) > 1 else CHANNELS
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copy(ROOT / "environments" / "vit.yml", folder)
        programs = {
            "envkit lock vit.yml": ["-m", "envkit", "lock", "vit.yml", "--mirror", str(channels)],
            "envkit lock --check": ["-m", "envkit", "lock", "--check", "vit.yml"],
            "conda-lock --help": ["-m", "conda_lock", "--help"],
        }
        for label, arguments in programs.items():
            runs = [seconds([sys.executable, *arguments], folder) for _ in range(ROUNDS)]
            print(f"{label:22} " + "  ".join(f"{run:5.2f} s" for run in sorted(runs)))


if __name__ == "__main__":
    main()

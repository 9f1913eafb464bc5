"""What a user waits for: `envkit --help`, `lint`, and `verify --no-fingerprint` beside torch's own.

Run with the interpreter that has envkit; `--python EXE` names one with torch. The commands take
turns, so that a machine that is busy for a while is busy for all; the ratio is of medians.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import subprocess
import sys
import time

HELP = "envkit --help"
LINT = "envkit lint vit"
VERIFY = "envkit verify --no-fingerprint"
COLLECT = "python -m torch.utils.collect_env"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", default=sys.executable, help="an interpreter with torch")
    parser.add_argument("--runs", type=int, default=7)
    options = parser.parse_args()
    commands = {
        HELP: [sys.executable, "-m", "envkit", "--help"],
        LINT: [sys.executable, "-m", "envkit", "lint", "vit"],
        VERIFY: [
            *(sys.executable, "-m", "envkit", "verify", "--no-fingerprint"),
            *("--python", options.python),
        ],
        COLLECT: [options.python, "-m", "torch.utils.collect_env"],
    }
    print_machine(options.python)
    seconds = measure(commands, options.runs)
    for name, found in seconds.items():
        print(f"{name:<36} median {statistics.median(found):6.3f} s, best {min(found):6.3f} s")
    ratio = statistics.median(seconds[VERIFY]) / statistics.median(seconds[COLLECT])
    print(f"verify / collect_env                 {ratio:.2f}")


def measure(commands: dict[str, list[str]], runs: int) -> dict[str, list[float]]:
    """Run every command in turn, once unmeasured, and return the wall times in seconds."""
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    for turn in range(runs + 1):
        for name, command in commands.items():
            started = time.perf_counter()
            done = subprocess.run(command, capture_output=True, check=False)
            ended = time.perf_counter()
            if done.returncode not in {0, 1, 3}:
                message = f"{name} ended with {done.returncode}: {done.stderr.decode()}"
                raise RuntimeError(message)
            if turn > 0:
                seconds[name].append(ended - started)
    return seconds


def print_machine(python: str) -> None:
    """Print what the numbers belong to."""
    code = "import torch; print(torch.__version__, torch.cuda.is_available())"
    torch = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    load = f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"
    print(f"Python {platform.python_version()}, torch and CUDA: {torch.stdout.strip() or 'none'}")
    print(f"{platform.machine()}, {os.cpu_count()} processors, load {load}")


if __name__ == "__main__":
    main()

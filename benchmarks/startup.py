"""What a user waits for: help, Tab, the commit hooks, and `verify --no-fingerprint` beside torch's.

Run with the interpreter that has envkit; `--python EXE` names one with torch. The commands take
turns, so that a machine that is busy for a while is busy for all; the ratio is of medians.
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import statistics
import subprocess
import sys
import time

HELP = "envkit --help"
TAB = "Tab after `envkit verify --f`"
LINT = "envkit lint vit"
CHECK = "envkit lock --check vit"
VERIFY = "envkit verify --no-fingerprint"
COLLECT = "python -m torch.utils.collect_env"

#: What the completion script of bash hands over.
AT_TAB = {
    "_ENVKIT_COMPLETE": "bash_complete",
    "COMP_WORDS": "envkit verify --f",
    "COMP_CWORD": "2",
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", default=sys.executable, help="an interpreter with torch")
    parser.add_argument("--runs", type=int, default=7)
    options = parser.parse_args()
    commands = {
        HELP: [sys.executable, "-m", "envkit", "--help"],
        LINT: [sys.executable, "-m", "envkit", "lint", "vit"],
        TAB: [sys.executable, "-m", "envkit"],
        CHECK: [sys.executable, "-m", "envkit", "lock", "--check", "vit"],
        VERIFY: [
            *(sys.executable, "-m", "envkit", "verify", "--no-fingerprint"),
            *("--python", options.python),
        ],
        COLLECT: [options.python, "-m", "torch.utils.collect_env"],
    }
    print_machine(options.python)
    seconds = measure(commands, options.runs)
    for name, found in seconds.items():
        wall, work = ([one[at] for one in found] for at in (0, 1))
        said = f"median {statistics.median(wall):6.3f} s, best {min(wall):6.3f} s"
        print(f"{name:<36} {said}; processor {statistics.median(work):6.3f} s")
    walls = {name: statistics.median(one[0] for one in found) for name, found in seconds.items()}
    ratio = walls[VERIFY] / walls[COLLECT]
    print(f"verify / collect_env                 {ratio:.2f}")


def measure(commands: dict[str, list[str]], runs: int) -> dict[str, list[tuple[float, float]]]:
    """Run every command in turn, once unmeasured; return seconds of the clock and of processors."""
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    for turn in range(runs + 1):
        for name, command in commands.items():
            started, worked = time.perf_counter(), processor_seconds()
            environ = {**os.environ, **(AT_TAB if name == TAB else {})}
            done = subprocess.run(command, capture_output=True, check=False, env=environ)
            ended, work = time.perf_counter(), processor_seconds() - worked
            if done.returncode not in {0, 1, 3}:
                message = f"{name} ended with {done.returncode}: {done.stderr.decode()}"
                raise RuntimeError(message)
            if turn > 0:
                seconds[name].append((ended - started, work))
    return seconds


def processor_seconds() -> float:
    """Return what all ended children have used of processors."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def print_machine(python: str) -> None:
    """Print what the numbers belong to."""
    code = "import torch; print(torch.__version__, torch.cuda.is_available())"
    torch = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    load = f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"
    print(f"Python {platform.python_version()}, torch and CUDA: {torch.stdout.strip() or 'none'}")
    print(f"{platform.machine()}, {os.cpu_count()} processors, load {load}")


if __name__ == "__main__":
    main()

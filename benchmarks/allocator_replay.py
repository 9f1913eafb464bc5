"""How many trace events a second the allocator model replays, beside the prototype.

Run from the root of a checkout:
`python benchmarks/allocator_replay.py [--rounds 15] [--workload vitvar_b8]`.

Replays the recorded training streams of tests/data/allocator with full statistics, which are
checked against the measured ones. Model and prototype (`../shared/facts/allocator/sim.py`, where
it is there) take turns in one run, so that the ratio does not depend on what else the machine does;
of each the fastest round counts. An event is a line of torch's memory history: an allocation and
its free are three (alloc, free_requested, free_completed), of which the allocator answers two, so
operations a second are printed as well.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import lzma
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from envkit.allocator import CachingAllocator, replay

ROOT = Path(__file__).resolve().parent.parent
PROTOTYPE = ROOT.parent / "shared" / "facts" / "allocator" / "sim.py"
Stats = dict[str, int]


def load_prototype() -> ModuleType | None:
    """Import the prototype, where it is there."""
    spec = importlib.util.spec_from_file_location("allocator_prototype", PROTOTYPE)
    if not PROTOTYPE.is_file() or spec is None or spec.loader is None:
        return None
    sys.dont_write_bytecode = True
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def run_model(run: dict[str, Any]) -> Stats:
    """Replay with the model."""
    return replay(
        run["events"], CachingAllocator(run["conf"], total_memory=run["total_memory"])
    ).stats


def prototype_runner(prototype: ModuleType) -> Callable[[dict[str, Any]], Stats]:
    """Return a function that replays with the prototype, in the same way."""

    def run_prototype(run: dict[str, Any]) -> Stats:
        allocator = prototype.CachingAllocator(run["conf"], total_memory=run["total_memory"])
        malloc, free = allocator.malloc, allocator.free
        held: dict[int, int] = {}
        hint = None
        for action, address, size, stream in run["events"]:
            if action == "a":
                held[address] = malloc(size, stream, hint)
                hint = None
            elif action == "c":
                free(held.pop(address))
            elif action == "S":
                hint = address
        return dict(allocator.memory_stats())

    return run_prototype


def fastest(runners: list[Callable[..., Stats]], run: dict[str, Any], rounds: int) -> list[float]:
    """Let the runners take turns; return the shortest time of each, in seconds."""
    best = [float("inf")] * len(runners)
    for _ in range(rounds):
        for index, runner in enumerate(runners):
            start = time.perf_counter()
            stats = runner(run)
            best[index] = min(best[index], time.perf_counter() - start)
            wrong = [name for name, value in run["stats"].items() if stats[name] != value]
            if wrong:
                message = f"{run['workload']} {run['conf']}: {wrong} differ from the measured ones"
                raise ValueError(message)
    return best


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--workload", default="*", help="r50_b32, vitvar_b8 ...; default: all")
    given = parser.parse_args()
    prototype = load_prototype()
    runners = [run_model] + ([prototype_runner(prototype)] if prototype else [])
    print(f"Python {platform.python_version()} ({platform.python_implementation()})")
    print("settings                             events  M events/s  M operations/s  ratio")
    events, times = 0, [0.0] * len(runners)
    for path in sorted((ROOT / "tests/data/allocator").glob(f"training-{given.workload}.json.xz")):
        for run in json.loads(lzma.decompress(path.read_bytes())):
            run["events"] = [tuple(event) for event in run["events"]]
            best = fastest(runners, run, given.rounds)
            count = len(run["events"])
            operations = sum(event[0] in "ac" for event in run["events"])
            name = f"{run['workload']} {run['conf'] or 'default'}"
            ratio = f"{best[1] / best[0]:5.1f}" if prototype else "    -"
            print(
                f"{name[:36]:36} {count:6}  {count / best[0] / 1e6:10.2f}"
                f"  {operations / best[0] / 1e6:14.2f}  {ratio}"
            )
            events += count
            times = [total + one for total, one in zip(times, best, strict=True)]
    print(f"all: {events / times[0] / 1e6:.2f} M events/s", end="")
    if prototype:
        print(
            f", prototype {events / times[1] / 1e6:.2f} M events/s, {times[1] / times[0]:.1f} times"
        )
    else:
        print("; the prototype is not here")


if __name__ == "__main__":
    main()

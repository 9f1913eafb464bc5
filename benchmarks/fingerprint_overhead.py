"""What recording a training step costs: plain, with history, and split by the dispatcher.

Run from the root of a checkout with an interpreter that has torch:
`python benchmarks/fingerprint_overhead.py [--device cuda:0] [--workload gpt.bf16] [--rounds 15]`.

The three take turns in one process, so that the ratios do not depend on what else the machine does.
Each does what the suite does: builds the model, trains two steps, and waits for the device. History
is torch's memory history on CUDA and its profiler on the CPU; the split adds a dispatch mode that
looks at the storages of every result.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from envkit.probes.child import recording, torch_api
from envkit.probes.child.challenge import SEED
from envkit.probes.child.place import Place
from envkit.probes.child.workloads.catalogue import WORKLOADS, carry_out

Mode = Callable[[], Any]


def modes(place: Place, name: str) -> dict[str, Mode]:
    """Return the ways to do the same work."""
    workload = WORKLOADS[place.kind][name]

    def work(mark: Callable[[str], None]) -> Any:
        carry_out(place, workload, SEED, mark)

    return {
        "plain": lambda: work(lambda _moment: None),
        "history": lambda: recording.record(place, work),
        "split": lambda: recording.watch(place, work),
    }


def seconds(place: Place, mode: Mode) -> float:
    """Time one run, from a clean place to the end of all that was launched."""
    place.clean()
    started = time.perf_counter()
    mode()
    place.synchronize()
    return time.perf_counter() - started


def measure(place: Place, name: str, rounds: int) -> dict[str, Any]:
    """Return the seconds of each mode's fastest run, and their ratio to the plain one's."""
    ways = modes(place, name)
    for mode in ways.values():
        seconds(place, mode)  # kernels are loaded, libraries have chosen
    turns = [{way: seconds(place, mode) for way, mode in ways.items()} for _ in range(rounds)]
    fastest = {way: min(turn[way] for turn in turns) for way in ways}
    return {
        way: {"fastest_s": round(best, 5), "ratio": round(best / fastest["plain"], 3)}
        for way, best in fastest.items()
    }


def machine(place: Place) -> dict[str, Any]:
    """Say what was measured on."""
    card = torch.cuda.get_device_name(place.index) if place.is_cuda else platform.machine()
    threads = torch.get_num_threads()
    return {"torch": torch.__version__, "device": card, "threads": threads}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda:0" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--workload", action="append", choices=sorted(WORKLOADS["cpu"]))
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    place = Place(torch, torch_api, options.device)
    place.start()
    found: dict[str, Any] = {"machine": machine(place), "rounds": options.rounds, "workloads": {}}
    print(f"{found['machine']}, {options.rounds} rounds of two steps")
    for name in options.workload or ["vit.bf16", "resnet.fp32", "gpt.bf16"]:
        found["workloads"][name] = measured = measure(place, name, options.rounds)
        said = (f"{way} {m['fastest_s'] * 1e3:.1f} ms x{m['ratio']}" for way, m in measured.items())
        print(f"  {name:24} {', '.join(said)}")
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()

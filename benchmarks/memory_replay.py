"""How long reading, proving and replaying a snapshot of a million events takes.

Run from the root of a checkout: `python benchmarks/memory_replay.py [--events 1000000]`.

The history is made by the model: training steps of a small network, so sizes and orders repeat as
they do in practice. Times are of the processor. The speed of the loop that only counts (no model)
is measured in the same run, so that the ratio does not depend on what else the machine does.
"""

from __future__ import annotations

import argparse
import gc
import pickle
import platform
import time
from typing import Any

from envkit.allocator import CachingAllocator
from envkit.allocator.chunks import DriverAddresses
from envkit.allocator.prove import prove
from envkit.allocator.recording import recordings_of
from envkit.allocator.snapshot_pickle import read_pickle
from envkit.allocator.what_if import USEFUL_CONFS, what_if

MIB = 1 << 20
FRAMES = [{"filename": "train.py", "line": 42, "name": "step"}]


class Logged(DriverAddresses):
    """Notes the segments that are taken."""

    def __init__(self, trace: list[dict[str, Any]]) -> None:
        super().__init__(0x7F0000000000)
        self.trace = trace

    def claim(self, size: int, observed: int | None) -> int:
        """Take a range and note it."""
        start = super().claim(size, observed)
        self.trace.append(entry("segment_alloc", start, size))
        return start


def entry(action: str, address: int, size: int) -> dict[str, Any]:
    """Return an event as torch records it."""
    return {
        "action": action,
        "addr": address,
        "size": size,
        "stream": 0,
        "time_us": 1,
        "frames": FRAMES,
    }


def made_up_snapshot(events: int) -> bytes:
    """Return a pickled snapshot with so many events, or a few more."""
    trace: list[dict[str, Any]] = []
    allocator = CachingAllocator(total_memory=80 << 30, addresses=Logged(trace))

    def take(size: int) -> tuple[int, int]:
        address = allocator.malloc(size)
        trace.append(entry("alloc", address, size))
        return address, size

    def give(block: tuple[int, int]) -> None:
        trace.append(entry("free_requested", *block))
        trace.append(entry("free_completed", *block))
        allocator.free(block[0])

    weights = [take((layer % 7 + 1) * MIB + 512 * layer) for layer in range(48)]
    step = 0
    while len(trace) < events:
        step += 1
        kept = []
        for _, size in weights:
            work = take(size // 3 + 4096 * (step % 5))
            kept.append(take(size * 2))
            give(work)
        for block in reversed(kept):
            gradient = take(block[1] // 2)
            give(block)
            give(gradient)
    snapshot = {"segments": allocator.snapshot(), "device_traces": [trace]}
    return pickle.dumps(snapshot, 4)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--events", type=int, default=1_000_000)
    gc.disable()  # as the command does
    content = made_up_snapshot(parser.parse_args().events)
    print(f"Python {platform.python_version()}, {len(content) / 1e6:.0f} MB")
    start = time.process_time()
    snapshot = read_pickle(content, origin="benchmark")
    print(f"read           {time.process_time() - start:6.2f} s")
    start = time.process_time()
    (recording,) = recordings_of(snapshot, origin="benchmark", size_bytes=len(content))
    print(f"as values      {time.process_time() - start:6.2f} s, {len(recording.events)} events")
    start = time.process_time()
    total = 0
    for _, address, size, _ in recording.events:
        total += address ^ size
    bare = time.process_time() - start
    start = time.process_time()
    proof, state = prove(recording)
    print(f"proof          {time.process_time() - start:6.2f} s, {proof.reason or 'exact'}")
    for conf in USEFUL_CONFS:
        start = time.process_time()
        what_if(recording, state, conf, None)
        took = time.process_time() - start
        print(f"{conf or 'default':28} {took:6.2f} s, {took / bare:5.1f} times a bare loop")


if __name__ == "__main__":
    main()

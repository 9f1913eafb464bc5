"""What `MemoryMonitor` costs a training loop: the share of a step, with a sample every 10 steps.

Steps with and without a monitor take turns in blocks, so that a machine that is busy for a while is
busy for both. On a GPU it measures there, else on the CPU. What a sample costs by itself is
measured too: with the time of your own step, that says what the share would be.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

from envkit.monitor import MemoryMonitor

EVERY = 10
STEPS_A_BLOCK = 50


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=11)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--history", action="store_true", help="record the memory history too")
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    step = make_step(device, options.width)
    with tempfile.TemporaryDirectory() as folder:
        for suffix in ("csv", "jsonl"):
            log = Path(folder) / f"memory.{suffix}"
            with MemoryMonitor(every=EVERY, log=log, history=options.history) as monitor:
                plain, watched = take_turns(step, monitor, options.blocks)
                sample_s = cost_of_a_sample(monitor)
            show(device, suffix, (plain, watched, sample_s))


def make_step(device: str, width: int) -> Callable[[], None]:
    """Return a small training step that waits for its end."""
    model = torch.nn.Sequential(
        *(torch.nn.Linear(width, width, device=device) for _ in range(4)),
    )
    optimizer = torch.optim.Adam(model.parameters())
    batch = torch.randn(64, width, device=device)

    def step() -> None:
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()
        if device == "cuda":
            torch.cuda.synchronize()

    return step


def take_turns(
    step: Callable[[], None], monitor: MemoryMonitor, blocks: int
) -> tuple[list[float], list[float]]:
    """Return the seconds of a step, block by block, without and with the monitor."""
    plain: list[float] = []
    watched: list[float] = []
    for turn in range(blocks + 1):
        for seconds, after in ((plain, _nothing), (watched, monitor.step)):
            started = time.perf_counter()
            for _ in range(STEPS_A_BLOCK):
                step()
                after()
            if turn > 0:
                seconds.append((time.perf_counter() - started) / STEPS_A_BLOCK)
    return plain, watched


def cost_of_a_sample(monitor: MemoryMonitor, samples: int = 300) -> float:
    """Return the median seconds of a step at which a sample is taken, checks for trends included.

    Mean over six samples each time: the trends are looked at once in six.
    """
    found: list[float] = []
    for _ in range(samples // 6):
        started = time.perf_counter()
        for _ in range(6 * EVERY):
            monitor.step()
        found.append((time.perf_counter() - started) / 6)
    return statistics.median(found)


def show(device: str, suffix: str, found: tuple[list[float], list[float], float]) -> None:
    """Print a line of results."""
    plain, watched, sample_s = found
    pairs = [after / before - 1 for before, after in zip(plain, watched, strict=True)]
    step_s = statistics.median(plain)
    print(
        f"{device}, {suffix}: step {step_s * 1e3:.3f} ms, "
        f"with monitor {statistics.median(pairs):+.2%} "
        f"(median of {len(pairs)} pairs of blocks); a sample {sample_s * 1e6:.0f} us, "
        f"so {sample_s / EVERY / step_s:.3%} of this step"
    )


def _nothing() -> None:
    pass


if __name__ == "__main__":
    main()

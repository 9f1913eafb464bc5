"""Compare reading the compatibility tables as compiled JSON with parsing their YAML, in one run.

Run from the root of a checkout: `python benchmarks/compat_tables.py`. Prints milliseconds (best of
seven, each way of reading in turn) and the ratio.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import yaml

from envkit.compat import arch, cudnn, driver, gpus, store, torch_builds, variables
from envkit.compat.rows import Table

KINDS: dict[str, type[Table]] = {
    "arch": arch.ArchTable,
    "cudnn": cudnn.CudnnTable,
    "driver": driver.DriverTable,
    "gpus": gpus.GpuTable,
    "torch": torch_builds.TorchTable,
    "variables": variables.VariableTable,
}
ROUNDS = 7


def milliseconds(work: Callable[[], object]) -> float:
    """Time one call."""
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * 1000


def main() -> None:
    """Print a line a table."""
    print(f"{'table':10} {'JSON ms':>8} {'YAML ms':>8} {'ratio':>6}")
    for stem, kind in KINDS.items():
        text = (store.FOLDER / f"{stem}.yaml").read_bytes()
        compiled, parsed = [], []
        for _ in range(ROUNDS):
            compiled.append(milliseconds(partial(store.load, stem, kind)))
            parsed.append(milliseconds(partial(yaml.load, text, Loader=yaml.CSafeLoader)))
        quick, slow = min(compiled), min(parsed)
        print(f"{stem:10} {quick:8.2f} {slow:8.2f} {slow / quick:6.0f}")


if __name__ == "__main__":
    main()

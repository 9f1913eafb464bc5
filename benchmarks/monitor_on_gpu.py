"""The parts of `envkit.monitor` that only a GPU can show: a leak's line, an OOM's last words, NVML.

Run on a machine with a GPU: `python benchmarks/monitor_on_gpu.py FOLDER`. It prints what monitors
say, leaves what they write in the folder, and ends with 1 if something that must be there is not.
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import torch

import envkit
from envkit.monitor import MemoryMonitor

MIB = 1 << 20
#: Share of the GPU in which memory runs out quickly.
FRACTION = 0.05


def leaking(folder: Path) -> bool:
    """Keep 2 MiB a step; return whether the alarm names this file."""
    kept = []
    log = folder / "leak.jsonl"
    with MemoryMonitor(every=1, history=True, log=log, on_oom=None) as monitor:
        for _ in range(24):
            kept.append(torch.ones(2 * MIB // 4, device="cuda"))
            monitor.step()
    print(monitor.summary())
    leaks = [alarm.text for alarm in monitor.alarms if alarm.kind == "leak"]
    return len(leaks) == 1 and "monitor_on_gpu.py" in leaks[0]


def running_out(folder: Path) -> bool:
    """Ask for more than there is; return whether snapshot and explanation were kept."""
    torch.cuda.set_per_process_memory_fraction(FRACTION)
    kept = []
    raised = None
    try:
        with MemoryMonitor(every=1, history=True, on_oom=folder / "oom") as monitor:
            while True:
                kept.append(torch.ones(100 * MIB // 4, device="cuda"))
                monitor.step()
    except torch.OutOfMemoryError as error:
        raised = error
    torch.cuda.set_per_process_memory_fraction(1.0)
    written = sorted(path.name.split("-")[0] for path in (folder / "oom").iterdir())
    return raised is not None and written == ["explanation", "snapshot"]


def counting() -> bool:
    """Return whether NVML sees what torch holds."""
    held = torch.ones(512 * MIB // 4, device="cuda")
    envkit.print_gpu_utilization()
    return envkit.monitor.gpu_memory_used_bytes() >= held.nbytes


def main() -> int:
    """Run all three."""
    logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s")
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    shown = {"leak": leaking(folder), "oom": running_out(folder), "nvml": counting()}
    print(shown)
    return 0 if all(shown.values()) else 1


if __name__ == "__main__":
    raise SystemExit(main())

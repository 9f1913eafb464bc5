"""How long `envkit diff` takes: two reports as a whole process, and a fleet in groups.

    PYTHONPATH=. python benchmarks/diff.py [REPORT REPORT]

The process is timed against `python -c pass` in the same run, so that a ratio comes out that a
busy machine changes little. Fingerprints of the fleet are synthetic: the probes of suite standard,
streams of 2,000 requests, 10 kinds of machine; time and memory are those of a process of their own.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec

from envkit.model.fingerprint import Fingerprint, Key, Layers, ProbeResult, Short, Suite

ROOT = Path(__file__).resolve().parent.parent
ROUNDS = 11
FLEET = (1_250, 2_500, 5_000, 10_000)
REQUESTS = 2_000
KINDS = 10

#: Run in a process of its own: makes N fingerprints one after the other and groups them.
GROUPING = """
import resource, sys, time
sys.path[:0] = [{root!r}, {here!r}]
from diff import synthetic
from envkit.compare.groups import group_fingerprints
number = int(sys.argv[1])
made = [0.0]
def fleet():
    for n in range(number):
        begun = time.perf_counter()
        one = synthetic(n)
        made[0] += time.perf_counter() - begun
        yield one
begun = time.perf_counter()
groups = group_fingerprints(fleet())
seconds = time.perf_counter() - begun
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(seconds - made[0], peak, len(groups))
"""


def synthetic(number: int) -> Any:
    """Return a fingerprint of machine number `number`: one of KINDS kinds."""
    kind = number % KINDS

    def stream(name: str) -> ProbeResult:
        requests = [512 * (n % 97 + 1) + kind for n in range(REQUESTS)]
        values = {"requests": requests, "streams": {}}
        return ProbeResult(status="exact", values=values, digest=f"sha256:{name}{kind}")

    def bits(name: str) -> ProbeResult:
        values = {"out": {"sha256": f"{kind:064x}", "dtype": "float32", "shape": [4, 4]}}
        return ProbeResult(status="exact", values=values, digest=f"sha256:{name}{kind}")

    workloads = ("vit.fp32", "vit.bf16", "resnet.fp32", "resnet.bf16")
    return Fingerprint(
        suite=Suite(name="standard", version=1),
        key=Key(
            torch="2.11.0+cu130",
            cuda="13.0",
            cudnn=91900,
            cublas="13.1",
            capability="9.0",
            sm_count=132,
            settings={},
            flags={},
            threads=16,
            model_version="1",
        ),
        challenge=None,
        device="synthetic",
        layers=Layers(
            allocator={f"exercise{n}": bits(f"exercise{n}") for n in range(8)},
            tensors={name: stream(name) for name in workloads},
            workspaces={name: stream(f"w{name}") for name in workloads},
            peaks={},
            numerics={f"numerics{n}": bits(f"numerics{n}") for n in range(25)},
            context={},
        ),
        digests={},
        short=Short(mem=None, num=None),
    )


def whole_process(reports: list[str]) -> None:
    """Time `envkit diff` of two reports beside a Python that does nothing."""
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    commands = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "envkit diff --json": [sys.executable, "-m", "envkit", "diff", *reports, "--json"],
        "envkit diff": [sys.executable, "-m", "envkit", "diff", *reports],
    }
    taken: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(ROUNDS):
        for name, argv in commands.items():
            begun = time.perf_counter()
            subprocess.run(argv, env=environ, stdout=subprocess.DEVNULL, check=False)
            taken[name].append(time.perf_counter() - begun)
    base = statistics.median(taken["python -c pass"])
    sizes = " and ".join(f"{Path(one).stat().st_size:,} B" for one in reports)
    print(f"two reports ({sizes}), {ROUNDS} rounds: fastest, median, against python -c pass")
    for name, seconds in taken.items():
        middle = statistics.median(seconds)
        print(f"  {name:<20} {min(seconds):.3f} s  {middle:.3f} s  x{middle / base:.1f}")


def grouping() -> None:
    """Time the grouping of fleets of growing size, each in a process of its own."""
    code = GROUPING.format(root=str(ROOT), here=str(Path(__file__).parent))
    print("grouping (making the synthetic fingerprints not counted): machines, s, peak, groups")
    for number in FLEET:
        done = subprocess.run(
            [sys.executable, "-c", code, str(number)], capture_output=True, text=True, check=True
        )
        seconds, peak, groups = done.stdout.split()
        each = 1e6 * float(seconds) / number
        print(
            f"  {number:>6,}  {float(seconds):6.2f} s  ({each:.0f} us each)  "
            f"{int(peak) / 1e6:6.0f} MB  {groups} groups"
        )


def main(arguments: list[str]) -> None:
    """Run both measurements."""
    with tempfile.TemporaryDirectory() as folder:
        reports = arguments or _made(Path(folder))
        whole_process(reports)
    grouping()


def _made(folder: Path) -> list[str]:
    """Write two reports of this machine's size from the synthetic fingerprint."""
    files = []
    for number in (0, 1):
        plain = {
            "schema": "envkit.report/1",
            "envkit_version": "0",
            "created": "2026-11-30T00:00:00Z",
            "label": f"machine-{number}",
            "target": {"kind": "conda", "prefix": None, "python": None, "chosen_by": "benchmark"},
            "facts": {},
            "findings": [],
            "checks": [],
            "fingerprint": msgspec.to_builtins(synthetic(number)),
            "verdict": {"status": "pass", "exit_code": 0, "headline": "made for a benchmark"},
        }
        file = folder / f"report-{number}.json"
        file.write_text(json.dumps(plain, indent=2))
        files.append(str(file))
    return files


if __name__ == "__main__":
    main(sys.argv[1:])

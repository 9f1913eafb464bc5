"""How long `envkit report` takes for the H200 baseline, beside a bare Python, and how large it is.

PYTHONPATH=. python benchmarks/report.py
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REPORT = ROOT / "baselines" / "h200-torch2.11.0.json"
ROUNDS = 7


def seconds(*arguments: str) -> float:
    """Time one process."""
    start = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, cwd=ROOT)
    return time.perf_counter() - start


def main() -> None:
    """Print the best and the median of both, taken in turns."""
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        pairs = [
            (seconds("-c", "pass"), seconds("-m", "envkit", "report", str(REPORT), "-o", str(page)))
            for _ in range(ROUNDS)
        ]
        size = page.stat().st_size
    for name, times in zip(
        ("python -c pass", "envkit report"), zip(*pairs, strict=True), strict=True
    ):
        ordered = sorted(times)
        print(f"{name:16} best {ordered[0]:.2f} s, median {ordered[ROUNDS // 2]:.2f} s")
    print(f"page: {size:,} bytes")


if __name__ == "__main__":
    main()

"""One run of `growing_texts` within a memory limit: `growing_texts_run.py LIMIT_BYTES SNAPSHOT`.

Prints one line of JSON. When memory runs out, writes torch's memory snapshot first.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import torch
from growing_texts import GPU, train


def main() -> None:
    """Run it on the first GPU."""
    limit_bytes, snapshot = int(sys.argv[1]), sys.argv[2]
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(limit_bytes / total)
    torch.cuda.memory._record_memory_history(stacks="python", max_entries=1_000_000)  # noqa: SLF001
    losses: list[float] = []
    oom = ""
    try:
        train(GPU, torch.device("cuda"), losses)
    except torch.cuda.OutOfMemoryError as error:
        oom = str(error).partition("\n")[0]
        torch.cuda.memory._dump_snapshot(snapshot)  # noqa: SLF001
    print(json.dumps({"oom": oom, "steps": len(losses), "losses": losses, **measured(total)}))


def measured(total: int) -> dict[str, Any]:
    """Return the counters of torch and what it ran on."""
    stats = torch.cuda.memory_stats()
    return {
        "peak_allocated_bytes": stats["allocated_bytes.all.peak"],
        "peak_reserved_bytes": stats["reserved_bytes.all.peak"],
        "retries": stats["num_alloc_retries"],
        "total_bytes": total,
        "gpu": torch.cuda.get_device_name(0),
        "torch": torch.__version__,
    }


if __name__ == "__main__":
    main()

"""A GPU as a monitor sees one: torch's counters, its snapshot and its out-of-memory error."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
import torch

MIB = 1 << 20
TRAIN_PY = "/home/me/train.py"
MESSAGE = (
    "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.64 GiB of "
    "which 1.10 GiB is free. Including non-PyTorch memory, this process has 22.50 GiB memory in "
    "use. Of the allocated memory 21.50 GiB is allocated by PyTorch, and 512.00 MiB is reserved "
    "by PyTorch but unallocated."
)


class CountedGpu:
    """What a test says that torch counts on its one device."""

    def __init__(self) -> None:
        self.allocated_bytes = 100 * MIB
        self.reserved_bytes = 200 * MIB
        self.peak_bytes = 150 * MIB
        self.retries = 0
        self.ooms = 0
        self.kept_bytes = 0
        self.recording: list[Any] = []

    def counters(self, _device: int | None) -> dict[str, Any]:
        return {
            "allocated_bytes": {"all": {"current": self.allocated_bytes, "peak": self.peak_bytes}},
            "reserved_bytes": {
                "all": {"current": self.reserved_bytes, "peak": self.reserved_bytes}
            },
            "num_alloc_retries": self.retries,
            "num_ooms": self.ooms,
        }

    def record(self, *arguments: Any, **_: Any) -> None:
        self.recording.append(arguments[0])

    def snapshot(self) -> dict[str, Any]:
        frames = [
            {"filename": "/venv/site-packages/torch/nn/linear.py", "line": 1, "name": "forward"},
            {"filename": TRAIN_PY, "line": 88, "name": "step"},
        ]
        kept = {"state": "active_allocated", "size": self.kept_bytes, "frames": frames}
        other = {"state": "inactive", "size": 5 * MIB, "frames": frames}
        early = {"state": "active_allocated", "size": MIB, "requested_size": MIB - 5}
        return {"segments": [{"blocks": [kept, other, early]}], "device_traces": []}

    def dump(self, path: str) -> None:
        Path(path).write_bytes(pickle.dumps(self.snapshot()))

    def install(self, patch: pytest.MonkeyPatch) -> None:
        patch.setattr(torch.cuda, "is_initialized", lambda: True)
        patch.setattr(torch.cuda, "memory_stats_as_nested_dict", self.counters)
        patch.setattr(torch.version, "cuda", "13.0")
        patch.setattr(torch.cuda.memory, "_record_memory_history", self.record)
        patch.setattr(torch.cuda.memory, "_snapshot", self.snapshot)
        patch.setattr(torch.cuda.memory, "_dump_snapshot", self.dump)

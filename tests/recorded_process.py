"""A process whose allocator is the model and which records its history as torch does."""

from __future__ import annotations

import random
from typing import Any

from envkit.allocator import CachingAllocator, OutOfMemory
from envkit.allocator.chunks import DriverAddresses
from envkit.allocator.sizes import MIB

PAGE = 2 * MIB
RANGE = 64 << 30
STACK = [
    {"filename": "/x/site-packages/torch/nn/modules/module.py", "line": 7, "name": "_call"},
    {"filename": "/home/me/train.py", "line": 42, "name": "step"},
]


class LoggedAddresses(DriverAddresses):
    """Keeps a log of what the driver gave and took."""

    def __init__(self) -> None:
        super().__init__(0x7F4000000000)
        self.log: list[tuple[str, int, int]] = []
        self.sizes: dict[int, int] = {}

    def claim(self, size: int, observed: int | None) -> int:
        start = super().claim(size, observed)
        self.sizes[start] = size
        self.log.append(("segment_alloc", start, size))
        return start

    def give_up(self, start: int) -> None:
        size = self.sizes.pop(start)
        if size < RANGE:  # the ranges of expandable segments are not used again
            super().give_up(start)
        self.log.append(("segment_free", start, size))


class RecordedProcess:
    """Allocate and free; `snapshot` is what `torch.cuda.memory._snapshot()` would return."""

    def __init__(self, conf: str = "", capacity: int = 8 << 30) -> None:
        self.conf = conf
        self.addresses = LoggedAddresses()
        self.allocator = CachingAllocator(
            conf, total_memory=80 << 30, capacity=capacity, addresses=self.addresses
        )
        self.trace: list[dict[str, Any]] = []
        self.live: dict[int, tuple[int, int]] = {}
        self._waiting: dict[int, tuple[int, int]] = {}
        self._streams: dict[int, int] = {}
        self._pages: dict[int, int] = {}

    def malloc(self, size: int, stream: int = 0, pool: tuple[int, int] | None = None) -> int:
        if pool is not None:
            self.allocator.begin_pool(pool)
        try:
            address = self.allocator.malloc(size, stream)
        except OutOfMemory:
            self._note_memory()
            free = self.allocator.heap.capacity - self.allocator.heap.reserved_bytes
            rounded = self.allocator.heap.kind_of(size).block_bytes
            self.trace.append(
                {"action": "oom", "device_free": free, "size": rounded, "stream": stream}
            )
            return 0
        finally:
            if pool is not None:
                self.allocator.end_pool(pool)
        self._note_memory()
        self._note("alloc", address, size, stream)
        self.live[address] = (size, stream)
        return address

    def free(self, address: int, used_by: int | None = None) -> None:
        size, stream = self.live.pop(address)
        if used_by is not None:
            self.allocator.record_stream(address, used_by)
        self._note("free_requested", address, size, stream)
        self.allocator.free(address)
        if address in self.allocator.heap.waiting:
            self._waiting[address] = (size, stream)
        else:
            self._note("free_completed", address, size, stream)

    def empty_cache(self) -> None:
        self.allocator.empty_cache()
        self._note_memory()

    def snapshot(self, last: int | None = None) -> dict[str, Any]:
        segments = self.allocator.snapshot()
        trace = self.trace if last is None else self.trace[len(self.trace) - last :]
        settings = {"PYTORCH_CUDA_ALLOC_CONF": self.conf}
        return {
            "segments": segments,
            "device_traces": [[], trace],
            "allocator_settings": settings,
        } | {"segments": [{**segment, "device": 1} for segment in segments]}

    def _note(self, action: str, address: int, size: int, stream: int) -> None:
        entry = {"action": action, "addr": address, "size": size, "stream": stream}
        self.trace.append({**entry, "frames": STACK})

    def _note_memory(self) -> None:
        """Record what completed, and what the driver gave or took, since the last look."""
        for address in [a for a in self._waiting if a not in self.allocator.heap.waiting]:
            self._note("free_completed", address, *self._waiting.pop(address))
        pages: dict[int, int] = {}
        streams: dict[int, int] = {}
        for segment in self.allocator.snapshot():
            start, size, stream = segment["address"], segment["total_size"], segment["stream"]
            streams[start] = stream
            if segment["is_expandable"]:
                pages.update((page, stream) for page in range(start, start + size, PAGE))
        self._note_pages("segment_unmap", self._pages, pages)
        for action, start, size in self.addresses.log:
            if "expandable" not in self.conf:
                known = self._streams if action == "segment_free" else streams
                self._note(action, start, size, known[start])
        self.addresses.log.clear()
        self._note_pages("segment_map", pages, self._pages)
        self._pages, self._streams = pages, streams

    def _note_pages(self, action: str, one: dict[int, int], other: dict[int, int]) -> None:
        runs: list[list[int]] = []
        for page in sorted(one.keys() - other.keys()):
            if runs and sum(runs[-1][:2]) == page and runs[-1][2] == one[page]:
                runs[-1][1] += PAGE
            else:
                runs.append([page, PAGE, one[page]])
        for address, size, stream in runs:
            self._note(action, address, size, stream)


def busy(seed: int, conf: str = "", *, steps: int = 300, pools: bool = False) -> RecordedProcess:
    """Let a process allocate and free at random, with streams, flushes and failures."""
    chance = random.Random(seed)  # noqa: S311  (a program, not a secret)
    process = RecordedProcess(conf, capacity=chance.choice([256, 600, 8192]) * MIB)
    for _ in range(steps):
        dice = chance.random()
        if dice < 0.55 or not process.live:
            size = chance.choice([300, 4096, 700_000, 2 * MIB, 3_000_000, 12 * MIB, 30_000_001])
            pool = (0, 1) if pools and chance.random() < 0.2 else None
            process.malloc(size * chance.randint(1, 3), chance.choice([0, 0, 0, 7]), pool)
        elif dice < 0.97:
            used_by = 9 if chance.random() < 0.1 else None
            process.free(chance.choice(list(process.live)), used_by)
        elif dice < 0.985:
            process.allocator.synchronize()
        else:
            process.empty_cache()
    return process

"""Record what torch's private pools do on a GPU: `python tools/gpu_pools.py FILE.json`.

Programs of allocations in MemPools and graph captures are carried out; after every operation the
events of torch's memory history and the counters are written down. `tests/allocator` replays the
file in the model. Needs torch with CUDA and nothing else; some seconds on an H200.
"""

from __future__ import annotations

import gc
import importlib
import json
import multiprocessing
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

#: Not imported as a module: what it has depends on the version, so nothing can be said of types.
torch: Any = importlib.import_module("torch")

MIB = 1 << 20
#: Seconds that a program may take, the beginning of CUDA included.
LIMIT_S = 30.0
GROUPS = (
    *("allocation", "segment", "active", "inactive_split", "allocated_bytes", "reserved_bytes"),
    *("active_bytes", "inactive_split_bytes", "requested_bytes"),
)
PARTS = ("all", "small_pool", "large_pool")
KEYS = (
    *(f"{group}.{part}.{w}" for group in GROUPS for part in PARTS for w in ("current", "peak")),
    *("num_alloc_retries", "num_ooms", "num_sync_all_streams"),
    *("num_device_alloc", "num_device_free"),
)
#: Operations: `alloc NAME MIB` (0: one byte), `free NAME`, `empty`, `limit MIB` (0: none), `peaks`,
#: `pool P [oom|nosplit]`, `enter P`, `exit P`, `drop P`, `capture G [P]`, `endcapture G`,
#: `replay G`, `reset G`, `random NAME` (random numbers inside a capture).
PROGRAMS: dict[str, str] = {
    "mempool": """alloc a 4; pool P; enter P; alloc b 4; alloc c 30; alloc d 0; free c; alloc e 12;
        exit P; alloc f 4; empty; free b; free e; empty; free d; drop P; empty; free a; free f;
        empty""",
    "drop_with_live_blocks": """pool P; enter P; alloc a 30; alloc b 4; exit P; free b; drop P;
        empty; free a; empty""",
    "drop_leaves_the_cache": """alloc a 4; free a; alloc b 30; free b; pool P; enter P; alloc c 4;
        free c; exit P; drop P; alloc d 4; free d; empty""",
    "drop_at_once": """pool P; drop P; empty""",
    "entered_twice": """pool P; enter P; alloc a 30; free a; exit P; empty; enter P; alloc b 28;
        exit P; free b; peaks; drop P; empty""",
    "empty_while_entered": """alloc a 30; free a; pool P; enter P; alloc b 30; free b; empty;
        exit P; empty; drop P; empty""",
    "two_pools": """pool P; pool Q; enter P; alloc a 4; exit P; enter Q; alloc b 4; exit Q; free a;
        free b; enter Q; alloc c 12; exit Q; enter P; alloc d 12; exit P; drop P; free c; empty;
        free d; empty; drop Q; empty""",
    "nested": """pool P; pool Q; enter P; alloc a 4; enter Q; alloc b 4; exit Q; alloc c 4; exit P;
        alloc d 4; free a; free b; free c; free d; drop Q; drop P; empty""",
    "use_on_oom": """limit 100; pool P oom; enter P; alloc a 60; free a; exit P; alloc b 50;
        alloc c 60; free b; drop P; empty; limit 0""",
    "no_split": """pool P nosplit; enter P; alloc a 0; alloc b 4; alloc c 30; free c; alloc d 12;
        exit P; free a; free b; free d; drop P; empty""",
    "oom_in_pool": """limit 100; alloc a 60; free a; pool P; enter P; alloc b 60; exit P;
        alloc c 90; free b; drop P; alloc d 90; free d; empty; limit 0""",
    "oom_beside_pool": """limit 100; pool P; enter P; alloc a 60; free a; exit P; alloc b 60;
        drop P; alloc c 60; free c; empty; limit 0""",
    "graph": """alloc a 4; capture G; alloc b 4; alloc c 30; free c; alloc d 12; endcapture G;
        empty; replay G; free b; free d; replay G; empty; reset G; empty; free a; empty""",
    "graph_with_random_numbers": """capture G; random a; alloc b 4; endcapture G; replay G; free a;
        free b; reset G; empty""",
    "graph_in_pool": """pool P; capture G P; alloc a 4; alloc b 30; free b; endcapture G; replay G;
        free a; drop P; empty; reset G; empty""",
    "two_graphs_one_pool": """pool P; capture G P; alloc a 4; free a; endcapture G; capture H P;
        alloc b 4; free b; endcapture H; replay G; replay H; reset G; empty; reset H; empty; drop P;
        empty""",
    "graph_with_cached_memory": """alloc a 30; free a; alloc b 4; free b; capture G; alloc c 30;
        alloc d 0; endcapture G; alloc e 30; empty; free c; free d; free e; reset G; empty""",
    "graph_dropped_with_live_block": """capture G; alloc a 30; alloc b 4; free b; endcapture G;
        reset G; empty; free a; empty""",
}
ACTIONS = ("alloc", "free_requested", "segment_alloc", "segment_free")


class Machine:
    """Carries out operations on torch's allocator."""

    def __init__(self) -> None:
        self.tensors: dict[str, Any] = {}
        self.pools: dict[str, Any] = {}
        self.graphs: dict[str, Any] = {}
        self.open: list[Any] = []
        self.side = torch.cuda.Stream()
        self.total = torch.cuda.get_device_properties(0).total_memory
        self.seen = 0

    def step(self, operation: str) -> dict[str, Any]:
        """Carry out one operation; return what torch said, did and counts."""
        verb, *words = operation.split()
        found: dict[str, Any] = {"op": operation}
        try:
            told = getattr(self, f"_{verb}")(*words)
        except torch.OutOfMemoryError:
            told = {"oom": True}
        found.update(told or {})
        snapshot = torch.cuda.memory._snapshot()  # noqa: SLF001
        stats = torch.cuda.memory_stats()
        found["events"] = self._events(snapshot)
        found["stats"] = {key: stats.get(key, 0) for key in KEYS}
        return found

    def _events(self, snapshot: dict[str, Any]) -> list[list[Any]]:
        trace = snapshot["device_traces"][0]
        new, self.seen = trace[self.seen :], len(trace)
        spans = [
            (one["address"], one["address"] + one["total_size"], list(one["segment_pool_id"]))
            for one in snapshot["segments"]
        ]
        rows = []
        for entry in new:
            if entry["action"] in ACTIONS:
                pool = next((p for a, b, p in spans if a <= entry["addr"] < b), None)
                row = [entry["action"], entry["addr"], entry["size"], entry.get("stream", 0), pool]
                rows.append(row)
        return rows

    def _alloc(self, name: str, mebibytes: str) -> None:
        nbytes = int(mebibytes) * MIB or 1
        self.tensors[name] = torch.empty(nbytes, dtype=torch.uint8, device="cuda")

    def _random(self, name: str) -> None:
        self.tensors[name] = torch.rand(1024, device="cuda")

    def _free(self, name: str) -> None:
        self.tensors.pop(name, None)

    def _empty(self) -> None:
        torch.cuda.empty_cache()

    def _peaks(self) -> None:
        torch.cuda.reset_peak_memory_stats()

    def _limit(self, mebibytes: str) -> None:
        share = int(mebibytes) * MIB / self.total if int(mebibytes) else 1.0
        torch.cuda.set_per_process_memory_fraction(share)

    def _pool(self, name: str, option: str = "") -> dict[str, Any]:
        options = {"oom": {"use_on_oom": True}, "nosplit": {"no_split": True}}.get(option, {})
        self.pools[name] = torch.cuda.MemPool(**options)
        return {"id": list(self.pools[name].id)}

    def _enter(self, name: str) -> None:
        self.open.append(torch.cuda.use_mem_pool(self.pools[name]))
        self.open[-1].__enter__()

    def _exit(self, _name: str) -> None:
        self.open.pop().__exit__(None, None, None)

    def _drop(self, name: str) -> None:
        del self.pools[name]
        gc.collect()

    def _capture(self, name: str, pool: str = "") -> dict[str, Any]:
        graph = self.graphs[name] = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        self.open.append(torch.cuda.stream(self.side))
        self.open[-1].__enter__()
        handle = self.pools[pool].id if pool else torch.cuda.graph_pool_handle()
        graph.capture_begin(pool=handle)
        return {"id": list(handle), "stream": self.side.cuda_stream}

    def _endcapture(self, name: str) -> None:
        self.graphs[name].capture_end()
        self.open.pop().__exit__(None, None, None)

    def _replay(self, name: str) -> None:
        self.graphs[name].replay()
        torch.cuda.synchronize()

    def _reset(self, name: str) -> None:
        self.graphs.pop(name).reset()
        gc.collect()


def record(program: str) -> dict[str, Any]:
    """Carry out a program from an empty allocator; a step that fails ends it, and says why."""
    torch.zeros(1, device="cuda")
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    torch.cuda.reset_accumulated_memory_stats()
    memory: Callable[..., None] = torch.cuda.memory._record_memory_history  # noqa: SLF001
    memory("all", context=None, max_entries=100000, clear_history=True)
    machine = Machine()
    start = torch.cuda.memory_stats()
    found: dict[str, Any] = {"start": {key: start[key] for key in KEYS if start.get(key)}}
    steps = found["steps"] = []
    try:
        for operation in program.split(";"):
            steps.append(machine.step(operation.strip()))  # noqa: PERF401 (kept where it fails)
    except Exception:  # noqa: BLE001 (what a program may not do is a result too)
        found["failed"] = traceback.format_exception_only(*sys.exc_info()[:2])[-1].strip()
    finally:
        while machine.open:
            machine.open.pop().__exit__(None, None, None)
        memory(None)
    return found


def machine() -> dict[str, Any]:
    """Return what the recordings were made with."""
    torch.zeros(1, device="cuda")
    return {
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name(0),
        "total_memory": torch.cuda.get_device_properties(0).total_memory,
    }


def in_a_process(task: Callable[..., dict[str, Any]], *words: str) -> dict[str, Any]:
    """Do a task in a process of its own: a capture that failed spoils what comes after it."""
    context = multiprocessing.get_context("fork")  # CUDA is not begun here
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=lambda: sender.send(task(*words)))
    process.start()
    sender.close()
    found: dict[str, Any] = {"steps": [], "failed": "no answer"}
    try:
        if receiver.poll(LIMIT_S):
            found = receiver.recv()
    except EOFError:
        pass
    process.kill()
    process.join()
    return found


def main(path: Path) -> None:
    """Record every program and write the file."""
    document = in_a_process(machine)
    document["programs"] = {name: in_a_process(record, text) for name, text in PROGRAMS.items()}
    path.write_text(json.dumps(document) + "\n")
    for name, found in document["programs"].items():
        print(name, len(found["steps"]), "steps", found.get("failed", "")[-200:], flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""What surrounds the measurements: device totals and free memory, and what could disturb them."""

from __future__ import annotations

import threading
from typing import Any, Callable, Dict, List

from . import confounds as found_confounds
from .place import Place

RUNS = 2

Report = Callable[..., None]


def measure(place: Place, _group: str, _seed: int, report: Report) -> Dict[str, Any]:
    """Report the memory around the allocator and return `{"free_bytes": n}` on CUDA."""
    _memory(place)  # the first kernel loads code, which takes memory
    runs = [_memory(place) for _ in range(RUNS)]
    report(runs=runs)
    return {"free_bytes": runs[-1]["free_bytes"]} if place.is_cuda else {}


def _memory(place: Place) -> Dict[str, Any]:
    if not place.is_cuda:
        return {
            "threads": place.torch.get_num_threads(),
            "python_threads": threading.active_count(),
        }
    torch = place.torch
    # One kernel, so that the context is whole.
    torch.zeros(1, device=place.device)
    place.synchronize()
    free, total = torch.cuda.mem_get_info(place.index)
    reserved = torch.cuda.memory_reserved(place.index)
    return {
        "total_bytes": int(total),
        "torch_total_bytes": place.total_bytes(),
        "free_bytes": int(free),
        # Of every process on the device: the driver does not tell them apart here.
        "used_outside_this_allocator_bytes": int(total - free - reserved),
    }


def confounds(place: Place) -> List[Dict[str, Any]]:
    """Return the fields of the `confound` events."""
    return found_confounds.find(place)

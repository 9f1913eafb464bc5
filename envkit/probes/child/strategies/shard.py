"""Sharding over every GPU as a strategy: all ranks measure, and one answer is made of theirs."""

from __future__ import annotations

from typing import Any, Dict, List

from ..place import Unmet
from ..spread.ranks import joined, run_ranks
from .measure import measured


def measure_sharded(device: str, args: Dict[str, Any], emit: Any) -> Dict[str, Any]:
    """Return `status`, `reason` and `values`: peaks of the fullest rank, time of the slowest."""
    try:
        answers = run_ranks(device, measure_rank, args, emit)
    except Unmet as unmet:
        return {"status": "not_run", "reason": str(unmet), "values": {}}
    except RuntimeError as error:
        return {"status": "failed", "reason": str(error)[:2000], "values": {}}
    unlike = next((one for one in answers if one["status"] != "measured"), None)
    return unlike or _together([one["values"] for one in answers], device)


def measure_rank(args: Dict[str, Any], emit: Any) -> Dict[str, Any]:
    """Job of a rank: measure its part of the training."""
    emit.stage(args["name"])
    with joined(args) as place:
        return measured(place, args)


def _together(ranks: List[Dict[str, Any]], device: str) -> Dict[str, Any]:
    what = "processes of the CPU" if device == "cpu" else "GPUs"
    found = {
        "losses": [sum(losses) / len(losses) for losses in zip(*(one["losses"] for one in ranks))],
        "step_seconds": max((one["step_seconds"] for one in ranks), key=sum),
        "digest": None,
    }
    for name in ("allocated_bytes", "reserved_bytes"):
        peaks = [one[name] for one in ranks if name in one]
        if peaks:
            found[name] = max(peaks)
    reason = "sharded over {} {}; peaks of the fullest".format(len(ranks), what)
    return {"status": "measured", "reason": reason, "values": found}

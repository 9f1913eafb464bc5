"""Measuring a step in this very process, for a test suite that holds the step as an object.

Elsewhere a child measures: here nothing can be put between the user's code and ours, and the
process may have used the device before.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional

from .challenge import SEED
from .protocol import Kept


def measure_here(step: Callable[[], Any], device: str) -> Dict[str, Any]:
    """Return `key`, `name` of the device and `probes` (fields of their events) of a step.

    Or `no_device` alone, where torch does not find the device.

    Args:
        step: called five times, with the same random numbers each time.
        device: `cpu`, `cuda:N`, or `auto`: the first GPU that torch can use, else the CPU.

    Raises what the step raises. The random numbers of torch go on afterwards as if nothing was.

    """
    __tracebackhide__ = True
    import torch

    from . import torch_api
    from .device_facts import comparability_key, device_facts
    from .families import GroupReport
    from .membership import call_probes
    from .place import Place
    from .workloads.call import StepRaised, from_theirs, measure_step

    kept = Kept()
    facts = device_facts(torch, kept)  # type: ignore[arg-type]  # it asks for stages alone
    if device == "auto":
        device = "cuda:0" if facts.get("cuda_available") is True else "cpu"
    if device != "cpu" and not _is_there(torch, device):
        return {"no_device": device}
    place = Place(torch, torch_api, device)
    report = GroupReport(kept, call_probes(place.kind, "step"))
    error: Optional[BaseException] = None
    with torch.random.fork_rng(devices=_devices_to_keep(torch, place)):
        try:
            measure_step(place, step, SEED, report)
        except StepRaised as raised:
            error = raised.__cause__ or raised
    if error is not None:  # here, where nothing is being handled that would become its context
        raise error.with_traceback(from_theirs(error.__traceback__))
    name = torch.cuda.get_device_name(place.index) if place.is_cuda else "CPU"
    events = [event for event in kept.events if event.pop("event") == "probe"]
    return {"key": comparability_key(torch, facts, device), "name": name, "probes": events}


def _is_there(torch: Any, device: str) -> bool:
    number = int(device.partition(":")[2])
    return bool(torch.cuda.is_available()) and number < torch.cuda.device_count()


def _devices_to_keep(torch: Any, place: Any) -> List[int]:
    """Return the GPUs whose random numbers a seed would move; looking starts no GPU."""
    if place.is_cuda or torch.cuda.is_initialized():
        return list(range(torch.cuda.device_count()))
    return []

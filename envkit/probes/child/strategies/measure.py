"""One strategy in a child of its own: peaks, time of a step, and what its results are."""

from __future__ import annotations

import os
import re
import time
from typing import Any, Callable, Dict, List

from .. import recording, torch_api
from ..place import Place, Unmet, out_of_memory
from ..protocol import message_of
from ..recording import Unrecorded
from ..workloads.call import StepRaised
from ..workloads.training import without_collector
from .steps import Steps, prepare

#: Steps of which results are compared; they warm up too: kernels, optimizer states, cuDNN's choice.
COMPARED = 3
#: Timed steps: this many, or as many as fit into this time, but never fewer than three.
TIMED = 15
TIMED_S = 4.0
FEWEST_TIMED = 3
#: Steps under the CPU's profiler, for the peak of what they asked for.
PROFILED = 2

_CONF = "PYTORCH_CUDA_ALLOC_CONF"
#: Replaces it in newer versions of torch, and is read first.
_NEW_CONF = "PYTORCH_ALLOC_CONF"


def measure_strategy(args: Dict[str, Any], emit: Any) -> Dict[str, Any]:
    """Job: measure one strategy; returns `status`, `reason` and `values`.

    `args`: device, memory_fraction (None: all), conf, in_effect, steps (None: as above), and what
    `steps.prepare` takes.
    """
    import torch

    if args["conf"]:
        os.environ[_CONF] = args["conf"]
        os.environ.pop(_NEW_CONF, None)
    place = Place(torch, torch_api, args["device"])
    emit.stage(args["name"])
    return measured(place, args)


def measured(place: Place, args: Dict[str, Any]) -> Dict[str, Any]:
    """Measure on a device that nothing has used yet; what does not fit is an answer."""
    try:
        _set_up(place, args)
        values = _Measured(place, args).values()
    except Unmet as unmet:
        return {"status": "not_run", "reason": str(unmet), "values": {}}
    except StepRaised as raised:
        return {"status": "failed", "reason": str(raised), "values": {}}
    except RuntimeError as error:
        if not out_of_memory(place.torch, error):
            raise
        values = place.peaks() if place.is_cuda else {}
        return {"status": "out_of_memory", "reason": message_of(error), "values": values}
    return {"status": "measured", "reason": "", "values": values}


def _set_up(place: Place, args: Dict[str, Any]) -> None:
    if args["conf"] and not place.is_cuda:
        message = "the settings are those of the CUDA allocator; the CPU has none"
        raise Unmet(message)
    place.start()
    limit(place, args["memory_fraction"])
    if args["conf"]:
        _must_be_in_effect(place, args)


def limit(place: Place, fraction: Any) -> None:
    """Let the allocator take a share of the device only.

    Raises:
        Unmet: this torch has no such limit.

    """
    if fraction is None:
        return
    done = place.api.set_memory_fraction(place.torch, fraction, place.index)
    if isinstance(done, place.api.Missing):
        message = "the memory fraction cannot be set: {}".format(done.reason)
        raise Unmet(message)


def _must_be_in_effect(place: Place, args: Dict[str, Any]) -> None:
    """Check that torch took the settings; ask it once more where it read the variable too early."""
    if _in_effect(place, args["in_effect"]):
        return
    place.api.set_allocator_settings(place.torch, args["conf"])
    if not _in_effect(place, args["in_effect"]):
        message = "this torch does not take {}".format(args["conf"])
        raise Unmet(message)


def _in_effect(place: Place, wanted: Dict[str, Any]) -> bool:
    found = place.api.allocator_settings(place.torch)
    if isinstance(found, place.api.Missing):
        return False
    return all(found.get(name) == value for name, value in wanted.items())


class _Measured:
    """Carries out the steps of a strategy."""

    def __init__(self, place: Place, args: Dict[str, Any]) -> None:
        self._place = place
        self._args = args
        self._losses: List[Any] = []

    def values(self) -> Dict[str, Any]:
        """Return everything that was measured."""
        before = resident()
        with without_collector():
            steps = prepare(self._place, self._args)
            if self._args["steps"] is not None:
                return self._only_run(steps, self._args["steps"])
            for _ in range(COMPARED):
                steps.step()
                self._losses.append(steps.loss())
            self._place.synchronize()
            digest = steps.digest()
            seconds = self._timed(steps.step)
        found = {"step_seconds": seconds, "losses": self._losses, "digest": digest}
        found.update(self._peaks())
        if self._args["kind"] == "load":
            found["host_growth_bytes"] = _grown(before)
        return found

    def _only_run(self, steps: Steps, count: int) -> Dict[str, Any]:
        for _ in range(count):
            steps.step()
        self._place.synchronize()
        return self._place.peaks() if self._place.is_cuda else {}

    def _timed(self, step: Callable[[], None]) -> List[float]:
        seconds: List[float] = []
        # Ranks must take the same number of steps, whatever each of them measures.
        most = FEWEST_TIMED if self._args["kind"] == "shard" else TIMED
        while len(seconds) < FEWEST_TIMED or (len(seconds) < most and sum(seconds) < TIMED_S):
            self._place.synchronize()
            started = time.perf_counter()
            step()
            self._place.synchronize()
            seconds.append(time.perf_counter() - started)
        return seconds

    def _peaks(self) -> Dict[str, Any]:
        if self._place.is_cuda:
            return self._place.peaks()
        if self._args["kind"] in ("load", "call"):
            # The one is measured as the process's memory; a second run of the other would go on
            # where the first one ended.
            return {}
        try:
            recorded = recording.record(self._place, self._again)
        except (Unrecorded, Unmet) as missing:
            return {"why_no_peak": str(missing)}
        return {"allocated_bytes": recorded.stream.peak_bytes()}

    def _again(self, _mark: Any) -> None:
        with without_collector():
            steps = prepare(self._place, self._args)
            for _ in range(PROFILED):
                steps.step()


def resident() -> Dict[str, int]:
    """Return this process's resident memory and its peak, in bytes; empty without /proc."""
    try:
        with open("/proc/self/status") as status:
            text = status.read()
    except OSError:
        return {}
    pairs = re.findall(r"^(VmRSS|VmHWM):\s+(\d+) kB", text, re.MULTILINE)
    return {name: int(number) * 1024 for name, number in pairs}


def _grown(before: Dict[str, int]) -> Any:
    after = resident()
    if "VmRSS" not in before or "VmHWM" not in after:
        return None
    return max(0, after["VmHWM"] - before["VmRSS"])

"""Whether the allocator did in an exercise what the model of it says, operation by operation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any, Final

import msgspec

from envkit.allocator import CachingAllocator, Config, ConfigError, OutOfMemory
from envkit.allocator.options import FIRST_VERSION, LAST_VERSION
from envkit.model.fingerprint import Key
from envkit.model.versions import parse_torch
from envkit.probes.child.exercises.operations import carry_out

#: Total memory the model has on a machine without a GPU; no exercise of a suite comes near it.
MODEL_MEMORY_BYTES: Final = 80 << 30


class Conformity(msgspec.Struct, frozen=True, kw_only=True):
    """Whether an exercise agrees with the model; None: it could not be compared, and why."""

    conforms: bool | None
    reason: str


def check_exercise(
    operations: Sequence[list[Any]],
    values: Mapping[str, Any],
    observed: Mapping[str, Any],
    key: Key,
) -> Conformity:
    """Replay the operations of an exercise in the model and compare every counter.

    Args:
        operations: what was carried out (`probes/child/exercises/operations.py` has the forms).
        values: the probe's values: `steps` with the counters that each operation moved.
        observed: `total_memory_bytes` of the device, and `addresses`: what every operation gave.
            Of equally large free blocks the lowest is taken, so a trace that a challenge seeds
            can depend on where the driver put the segments.
        key: version and settings to model.

    """
    unfit = _unfit(operations)
    if unfit:
        return Conformity(conforms=None, reason=unfit)
    total_memory_bytes = observed.get("total_memory_bytes")
    if not isinstance(total_memory_bytes, int) or not 0 < total_memory_bytes < 1 << 60:
        return Conformity(conforms=None, reason="the total memory of the device is not known")
    model = model_of(key, total_memory_bytes)
    if isinstance(model, Conformity):
        return model
    placed = _Placed(model, operations, observed.get("addresses"))
    try:
        walk = carry_out(operations, placed, total_memory_bytes, OutOfMemory)
    except ValueError as error:
        return Conformity(conforms=False, reason=f"the model needs a segment: {error}")
    steps = values.get("steps", ())
    theirs_all = steps if isinstance(steps, list) else ()
    for number, (ours, theirs) in enumerate(zip_longest(walk.steps, theirs_all), start=1):
        difference = _first_difference(ours, theirs)
        if difference:
            return Conformity(conforms=False, reason=f"operation {number}, {difference}")
    return Conformity(conforms=True, reason="every counter is the model's")


class _Placed:
    """A model whose new segments lie where the driver put those of the measured allocator."""

    def __init__(
        self, model: CachingAllocator, operations: Sequence[list[Any]], addresses: Any
    ) -> None:
        seen = addresses if isinstance(addresses, list) else []
        mallocs = (at for at, one in zip(seen, operations, strict=False) if one[0] == "malloc")
        self._hints = (at if type(at) is int else None for at in mallocs)
        self._model = model
        self.free = model.free
        self.record_stream = model.record_stream
        self.synchronize = model.synchronize
        self.empty_cache = model.empty_cache
        self.set_memory_fraction = model.set_memory_fraction
        self.reset_peak = model.reset_peak
        self.memory_stats = model.memory_stats

    def malloc(self, nbytes: int, stream: int = 0) -> int:
        """Allocate, and place the segment where one is needed."""
        return self._model.malloc(nbytes, stream, next(self._hints, None))


def model_exercise(operations: Sequence[list[Any]], key: Key) -> dict[str, Any] | Conformity:
    """Return what the model answers where there is no GPU, or why it has no answer."""
    model = model_of(key, MODEL_MEMORY_BYTES)
    unfit = _unfit(operations)
    if unfit:
        return Conformity(conforms=None, reason=unfit)
    if isinstance(model, Conformity):
        return model
    return {"steps": carry_out(operations, model, MODEL_MEMORY_BYTES, OutOfMemory).steps}


#: How many whole numbers follow the name of an operation.
_OPERANDS: Final = {
    "malloc": 3,
    "free": 1,
    "record_stream": 2,
    "synchronize": 0,
    "empty_cache": 0,
    "limit": 1,
    "reset_peak": 0,
}
_LARGEST_OPERAND: Final = 1 << 53


def _unfit(operations: Sequence[Any]) -> str:
    """Say why these operations cannot be replayed; empty when they can."""
    if not operations:
        return "no operation was carried out"
    strange = next((number for number, one in enumerate(operations, 1) if not _is_one(one)), None)
    return "" if strange is None else f"operation {strange} is none that an allocator has"


def _is_one(operation: Any) -> bool:
    if not isinstance(operation, list) or not operation or not isinstance(operation[0], str):
        return False
    name, *operands = operation
    return _OPERANDS.get(name) == len(operands) and all(
        type(one) is int and 0 <= one < _LARGEST_OPERAND for one in operands
    )


def model_of(key: Key, total_memory_bytes: int) -> CachingAllocator | Conformity:
    """Return an empty allocator with the version and settings of a key, or why there is none."""
    try:
        release = parse_torch(key.torch).release[:2]
    except ValueError as error:
        return Conformity(conforms=None, reason=str(error))
    if not FIRST_VERSION <= release <= LAST_VERSION:
        oldest, newest = (".".join(map(str, v)) for v in (FIRST_VERSION, LAST_VERSION))
        return Conformity(conforms=None, reason=f"the model describes torch {oldest} to {newest}")
    if key.capability is not None and not key.settings:
        # Not the defaults: torch always reports some, so these could not be read.
        return Conformity(conforms=None, reason="the settings in effect could not be read")
    text = key.settings.get("PYTORCH_CUDA_ALLOC_CONF", "")
    try:
        config = Config.parse(str(text), release)
    except ConfigError as error:
        return Conformity(conforms=None, reason=f"settings that are not modelled: {error}")
    unlike = _unlike(config, key)
    if unlike:
        return Conformity(conforms=None, reason=unlike)
    return CachingAllocator(str(text), total_memory=total_memory_bytes, version=release)


def _unlike(config: Config, key: Key) -> str:
    """Say what is not modelled: another allocator, or a setting that code may have changed."""
    if config.backend != "native":
        return f"the allocator is {config.backend}, not torch's own"
    for name, expected in config.as_torch_reports().items():
        if name in key.settings and key.settings[name] != expected:
            return f"{name} is {key.settings[name]!r} and the settings text makes it {expected!r}"
    return ""


def _first_difference(ours: Any, theirs: Any) -> str:
    if not isinstance(theirs, Mapping) or ours is None:
        return "the exercise and the model have a different number of operations"
    if ours["op"] != theirs.get("op"):
        return f"the model was asked {ours['op']}, the allocator {theirs.get('op')}"
    told = theirs.get("counters", {})
    counters = told if isinstance(told, Mapping) else {}
    for name in sorted({*ours["counters"], *counters}):
        mine, measured = ours["counters"].get(name), counters.get(name)
        if mine != measured:
            return f"{ours['op']}: {name} is {measured}, by the model {mine}"
    return ""

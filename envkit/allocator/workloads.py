"""The memory of a fingerprint's workloads over their course, and of its exercises at a moment."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from typing import Any, Final

import msgspec

from envkit.allocator.config import ConfigError
from envkit.allocator.curve import Curve, add_up, follow
from envkit.allocator.fingerprinted import carry_out, model_of, total_bytes
from envkit.allocator.rebuilt import read_part, rebuild
from envkit.allocator.snapshot import Segment
from envkit.model.fingerprint import Fingerprint

_TENSORS, _WORKSPACES, _PEAKS = ".tensors", ".workspaces", ".peaks"
#: Operations of an exercise that are carried out again; the longest of a suite has 162.
_MOST_OPERATIONS: Final = 10_000
#: Moments of an exercise that are shown.
MOST_MOMENTS: Final = 4


class WorkloadMemory(msgspec.Struct, frozen=True, kw_only=True):
    """What one workload held, as the model follows it and as it was measured."""

    name: str
    curve: Curve | None
    reason: str = ""
    """Why there is no curve, or what it lacks."""
    requests: int = 0
    measured: Mapping[str, int] = msgspec.field(default_factory=dict)
    """Peaks as measured: `allocated_bytes`, `reserved_bytes`, `segments`; those there are."""


class Moment(msgspec.Struct, frozen=True, kw_only=True):
    """The segments of an exercise after some of its operations."""

    operations: int
    last: str
    """The kind of the operations that led here."""
    count: int
    """How many of that kind there were in a row."""
    segments: tuple[Segment, ...]


def workload_memory(fingerprint: Fingerprint) -> tuple[WorkloadMemory, ...]:
    """Follow every workload of which requests or peaks are recorded, by name."""
    layers = fingerprint.layers
    named = {name.removesuffix(_TENSORS) for name in layers.tensors if name.endswith(_TENSORS)}
    named |= {name.removesuffix(_PEAKS) for name in layers.peaks if name.endswith(_PEAKS)}
    return tuple(_memory(fingerprint, name) for name in sorted(named))


def _memory(fingerprint: Fingerprint, name: str) -> WorkloadMemory:
    measured = _measured(fingerprint, name)
    result = fingerprint.layers.tensors.get(name + _TENSORS)
    if result is None or result.values is None:
        reason = (result.reason if result is not None else "") or "its requests are not recorded"
        return WorkloadMemory(name=name, curve=None, reason=reason, measured=measured)
    beside = fingerprint.layers.workspaces.get(name + _WORKSPACES)
    lacks = "" if beside is not None and beside.values is not None else "without workspaces"
    try:
        workspaces = None if lacks or beside is None else read_part(beside.values)
        requests = rebuild(read_part(result.values), workspaces)
        if fingerprint.key.capability is None:
            curve = add_up(requests)
        else:
            curve = follow(requests, model_of(fingerprint, as_driver=True))
    except (ConfigError, ValueError) as error:
        return WorkloadMemory(name=name, curve=None, reason=str(error), measured=measured)
    return WorkloadMemory(
        name=name, curve=curve, reason=lacks, requests=len(requests), measured=measured
    )


def _measured(fingerprint: Fingerprint, name: str) -> dict[str, int]:
    result = fingerprint.layers.peaks.get(name + _PEAKS)
    values = (result.values if result is not None else None) or {}
    return {key: value for key, value in values.items() if type(value) is int}


def moments(fingerprint: Fingerprint, exercise: str) -> tuple[Moment, ...]:
    """Carry out an exercise in the model and return its segments after each run of one kind.

    Raises:
        ConfigError: torch would refuse the settings.
        ValueError: it is not recorded, or is no exercise.

    """
    texts = _operations(fingerprint, exercise)
    model, held, size = model_of(fingerprint), dict[int, int](), total_bytes(fingerprint)
    found: list[Moment] = []
    done = 0
    for kind, run in groupby(texts, key=lambda text: text.split(" ", 1)[0]):
        count = 0
        for text in run:
            carry_out(text, model, held, size)
            count += 1
        done += count
        segments = tuple(model.snapshot())
        found.append(Moment(operations=done, last=kind, count=count, segments=segments))
        if len(found) == MOST_MOMENTS:
            break
    return tuple(found)


def _operations(fingerprint: Fingerprint, exercise: str) -> list[str]:
    result = fingerprint.layers.allocator.get(exercise)
    values: Any = result.values if result is not None else None
    steps = values.get("steps") if isinstance(values, Mapping) else None
    if not isinstance(steps, list) or not steps or len(steps) > _MOST_OPERATIONS:
        message = f"the operations of {exercise} are not recorded"
        raise ValueError(message)
    texts = [step.get("op") if isinstance(step, Mapping) else None for step in steps]
    if not all(isinstance(text, str) for text in texts):
        message = f"an operation of {exercise} is not recorded"
        raise ValueError(message)
    return [text for text in texts if isinstance(text, str)]

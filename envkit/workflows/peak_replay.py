"""Whether measured peaks are those of the model's replay of the same requests.

The model is fed with the addresses that the driver gave: then its peaks must be the measured ones.
With canonical addresses, counted upwards, it says what the same requests need without that luck.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from envkit.allocator import CachingAllocator, OutOfMemory
from envkit.model.fingerprint import Key, PeakReplay
from envkit.workflows.conformity import model_of

#: Figure of the probe -> counter of the allocator.
FIGURES: Final[Mapping[str, str]] = {
    "allocated_bytes": "allocated_bytes.all.peak",
    "reserved_bytes": "reserved_bytes.all.peak",
    "segments": "segment.all.peak",
}
#: The model needs a segment where torch did not: what it says of an address that is taken.
_LEFT: Final = "another segment is there"


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What the replay says of measured peaks."""

    conforms: bool | None
    """None: they could not be replayed."""
    reason: str
    replay: PeakReplay | None = None


class Recording(msgspec.Struct, frozen=True, kw_only=True):
    """The requests of a workload, as `probes/child/streams.py` writes them."""

    requests: tuple[int, ...]
    """n > 0: an allocation of n bytes; -k: the free of allocation number k."""
    streams: dict[str, int]
    segments: tuple[tuple[int, int, int], ...]
    """Number of the allocation that needed it, address, bytes; none for expandable ones."""
    foreign_frees: int


def replay_peaks(
    values: Mapping[str, Any], observed: Mapping[str, Any] | None, key: Key, total_bytes: int
) -> Answer:
    """Replay the recorded requests of a workload and compare the peaks.

    Args:
        values: `allocated_bytes`, `reserved_bytes` and `segments` as torch counted them.
        observed: the recording, see `Recording`; None where torch could not record.
        key: version and settings to model.
        total_bytes: memory of the device.

    """
    measured = {name: values.get(name) for name in FIGURES}
    recording = _recording(observed)
    if isinstance(recording, str):
        return Answer(conforms=None, reason=recording)
    if not measured["allocated_bytes"]:
        return Answer(conforms=None, reason="torch counted nothing: its caching is off")
    replays = [_replay(recording, key, total_bytes, observed=one) for one in (True, False)]
    if isinstance(replays[0], str) or isinstance(replays[1], str):
        reason = next(one for one in replays if isinstance(one, str))
        left = _LEFT in reason and not recording.streams
        return Answer(conforms=False if left else None, reason=f"not replayed: {reason}")
    replay = PeakReplay(observed=replays[0], canonical=replays[1])
    return _answer(measured, replay, shared=bool(recording.streams))


def _answer(measured: Mapping[str, Any], replay: PeakReplay, *, shared: bool) -> Answer:
    unlike = next((name for name in FIGURES if measured[name] != replay.observed[name]), None)
    if unlike is None:
        return Answer(conforms=True, reason="", replay=replay)
    said = f"{unlike} is {measured[unlike]}, by the model's replay {replay.observed[unlike]}"
    if shared:  # a block that other streams use is given back later, which no recording says
        return Answer(conforms=None, reason=f"{said}; several streams were used", replay=replay)
    return Answer(conforms=False, reason=said, replay=replay)


def _recording(observed: Mapping[str, Any] | None) -> Recording | str:
    """Return the recording, or why it cannot be replayed."""
    if observed is None:
        return "the requests were not recorded"
    try:
        found = msgspec.convert(observed, Recording)
    except msgspec.ValidationError as error:
        return f"the recording is damaged: {error}"
    if found.foreign_frees:
        return "memory from before the recording was freed in it"
    return found


def _replay(
    recording: Recording, key: Key, total_bytes: int, *, observed: bool
) -> dict[str, int] | str:
    """Return the peaks of the model, or why it has none."""
    model = model_of(key, total_bytes)
    if not isinstance(model, CachingAllocator):
        return model.reason
    placed = {number: address for number, address, _ in recording.segments} if observed else {}
    held: dict[int, int] = {}
    number = 0
    try:
        for request in recording.requests:
            if request > 0:
                number += 1
                stream = recording.streams.get(str(number), 0)
                held[number] = model.malloc(request, stream, placed.get(number))
            else:
                model.free(held.pop(-request))
    except (OutOfMemory, ValueError) as error:
        return str(error)
    except KeyError:
        return f"what request {number} frees is not held"
    stats = model.memory_stats()
    return {name: stats[counter] for name, counter in FIGURES.items()}

"""A torch memory snapshot as values: for each device its history and the segments at its end.

The layout of snapshots, release by release, is that of `torch.cuda.memory._snapshot()`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from envkit.allocator.blocks import DEFAULT_POOL, PoolId
from envkit.allocator.options import LAST_VERSION, Version
from envkit.allocator.replay import (
    ACTIONS,
    SEGMENT_ALLOC,
    SEGMENT_MAP,
    SEGMENT_UNMAP,
    Event,
)
from envkit.errors import InputError

OOM: Final = "o"
_ACTIONS: Final = {**ACTIONS, "oom": OOM}
#: Events of all devices together that are read; each takes some hundred bytes of memory here.
MAX_EVENTS: Final = 20_000_000
MAX_BLOCKS: Final = 5_000_000
#: The shortest block that can be written, in a pickle: a dictionary of size and state with two
#: bytes for a key and for a text that was there before. Events and segments are longer.
_ENTRY_BYTES: Final = 10
#: No device has more; a larger size is damage, or an attempt to keep us busy.
MAX_SIZE_BYTES: Final = 1 << 42
#: All mapping and unmapping of expandable segments together, which is followed page by page.
MAX_MAPPED_BYTES: Final = 1 << 46
_LARGEST: Final = 1 << 64

#: Keys by which a release is told from the one before it, newest first.
_SIGNS: Final[tuple[tuple[str, str, Version], ...]] = (
    ("snapshot", "host_segments", (2, 14)),
    ("settings", "max_round_threshold", (2, 13)),
    ("entry", "pool_id", (2, 12)),
    ("entry", "user_metadata", (2, 10)),
    ("settings", "graph_capture_record_stream_reuse", (2, 9)),
    ("entry", "compile_context", (2, 8)),
    ("snapshot", "external_annotations", (2, 5)),
    ("snapshot", "allocator_settings", (2, 3)),
    ("entry", "time_us", (2, 2)),
)


class EndBlock(NamedTuple):
    """A block at the end of the history."""

    address: int
    size: int
    requested: int
    is_active: bool


class EndSegment(NamedTuple):
    """A segment at the end, or a contiguous mapped run of an expandable one."""

    address: int
    size: int
    stream: int
    is_small: bool
    is_expandable: bool
    pool_id: PoolId
    blocks: tuple[EndBlock, ...]


class Recording(msgspec.Struct, frozen=True, kw_only=True):
    """The recorded history of one device."""

    device: int
    events: tuple[Event, ...]
    """`OOM` events have the free bytes of the driver in place of an address."""
    stacks: tuple[Any, ...]
    """The frames of each event, as torch gives them; empty where none were recorded."""
    segments: tuple[EndSegment, ...]
    block_stacks: dict[int, Any]
    """Frames of blocks that are active at the end, by address."""
    conf: str
    """The settings in force, as far as the snapshot tells."""
    version: Version
    """The oldest release that writes such a snapshot."""

    @property
    def is_expandable(self) -> bool:
        """Whether segments were expandable."""
        return "expandable_segments:True" in self.conf


def recordings_of(snapshot: Any, *, origin: str, size_bytes: int) -> list[Recording]:
    """Return the devices of a snapshot that have a history.

    Args:
        snapshot: what the file holds.
        origin: what to call it in messages.
        size_bytes: size of that file, which bounds what it can hold.

    Raises:
        InputError: it is no memory snapshot, or a value in it is impossible.

    """
    if not isinstance(snapshot, dict) or not isinstance(snapshot.get("device_traces"), list):
        raise _invalid(
            origin, "it has no history", "Record one with torch.cuda.memory._record_memory_history."
        )
    try:
        return _recordings(snapshot, size_bytes)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise _invalid(origin, f"a value is missing or impossible ({error})") from error


def _recordings(snapshot: Mapping[str, Any], size_bytes: int) -> list[Recording]:
    traces, segments = snapshot["device_traces"], snapshot["segments"]
    _check_number("events", sum(map(len, traces)), MAX_EVENTS, size_bytes)
    _check_number("segments", len(segments), MAX_BLOCKS, size_bytes)
    blocks = sum(len(segment["blocks"]) for segment in segments)
    _check_number("blocks", blocks, MAX_BLOCKS, size_bytes)
    settings = snapshot.get("allocator_settings") or {}
    own: dict[int, list[Any]] = {}
    for segment in segments:
        own.setdefault(_number(segment.get("device", 0)), []).append(segment)
    return [
        _recording(device, trace, own.get(device, []), (snapshot, settings))
        for device, trace in enumerate(traces)
        if trace
    ]


def _check_number(name: str, number: int, most: int, size_bytes: int) -> None:
    """Refuse more entries than the file has room for: a pickle repeats one with two bytes."""
    if number > most:
        message = f"more than {most} {name}"
        raise ValueError(message)
    if number * _ENTRY_BYTES > size_bytes:
        message = f"{number} {name} in {size_bytes} bytes: they repeat each other"
        raise ValueError(message)


def _recording(
    device: int,
    trace: Sequence[Mapping[str, Any]],
    segments: list[Any],
    outer: tuple[Mapping[str, Any], Mapping[str, Any]],
) -> Recording:
    snapshot, settings = outer
    kept = [entry for entry in trace if entry["action"] in _ACTIONS]
    stacks = tuple(_stack(entry) for entry in kept)
    blocks = {
        block.get("address", 0): _stack(block)
        for segment in segments
        for block in segment["blocks"]
        if block.get("frames") and block["state"].startswith("active")
    }
    expandable = any(segment.get("is_expandable") for segment in segments) or any(
        entry["action"] in {"segment_map", "segment_unmap"} for entry in kept
    )
    events = tuple(_event(entry) for entry in kept)
    _check_mapped(events, segments)
    return Recording(
        device=device,
        events=events,
        stacks=stacks if any(stacks) else (),
        segments=tuple(_segment(segment) for segment in segments),
        block_stacks=blocks,
        conf=_conf(settings, expandable=expandable),
        version=_version(snapshot, settings, trace[-1]),
    )


def _stack(entry: Mapping[str, Any]) -> Sequence[Any]:
    frames: Sequence[Any] = entry.get("frames", ())
    if not isinstance(frames, (list, tuple)):
        message = f"a {type(frames).__name__} is no stack"
        raise TypeError(message)
    return frames


def _check_mapped(events: tuple[Event, ...], segments: Sequence[Mapping[str, Any]]) -> None:
    mapped = sum(e[2] for e in events if e[0] in {SEGMENT_MAP, SEGMENT_UNMAP})
    mapped += sum(_size(s["total_size"]) for s in segments if s.get("is_expandable"))
    if mapped > MAX_MAPPED_BYTES:
        message = f"{mapped} bytes of expandable segments"
        raise ValueError(message)


def _event(entry: Mapping[str, Any]) -> Event:
    action = _ACTIONS[entry["action"]]
    place = entry["device_free"] if action == OOM else entry["addr"]
    return (action, _number(place), _size(entry["size"]), _number(entry.get("stream", 0)))


def _segment(entry: Mapping[str, Any]) -> EndSegment:
    blocks, address = [], _number(entry["address"])
    for block in entry["blocks"]:
        size = _size(block["size"])
        asked = _size(block.get("requested_size", size))
        blocks.append(EndBlock(address, size, asked, block["state"].startswith("active")))
        address += size
    first, second = entry.get("segment_pool_id", DEFAULT_POOL)
    return EndSegment(
        _number(entry["address"]),
        _size(entry["total_size"]),
        _number(entry.get("stream", 0)),
        entry["segment_type"] == "small",
        bool(entry.get("is_expandable", False)),
        (_number(first), _number(second)),
        tuple(blocks),
    )


def _size(value: Any) -> int:
    size = _number(value)
    if size > MAX_SIZE_BYTES:
        message = f"{size} bytes are more than any device has"
        raise ValueError(message)
    return size


def _number(value: Any) -> int:
    if not isinstance(value, int) or not 0 <= value < _LARGEST:
        # Only what is small is shown: a list of lists of the same can be endless.
        shown = repr(value)[:40] if isinstance(value, (int, str)) else f"a {type(value).__name__}"
        message = f"{shown} is no size or address"
        raise ValueError(message)
    return int(value)


def _conf(settings: Mapping[str, Any], *, expandable: bool) -> str:
    """Return the settings that change what the allocator does, as one text."""
    text = settings.get("PYTORCH_CUDA_ALLOC_CONF") or ""
    if not isinstance(text, str):
        message = f"a {type(text).__name__} is no allocator settings"
        raise TypeError(message)
    given = [part for part in _parts(text) if not part.startswith("expandable_segments")]
    names = {part.partition(":")[0] for part in given}
    limit = settings.get("max_split_size", -1)
    if "max_split_size_mb" not in names and isinstance(limit, int) and 0 < limit < (1 << 50):
        given.append(f"max_split_size_mb:{limit >> 20}")
    if expandable:
        given.append("expandable_segments:True")
    return ",".join(given)


def _parts(text: str) -> Iterable[str]:
    """Split a settings text at its commas, those inside brackets left out."""
    depth, start = 0, 0
    for at, character in enumerate(text):
        depth += {"[": 1, "]": -1}.get(character, 0)
        if character == "," and not depth:
            yield text[start:at].strip()
            start = at + 1
    if text[start:].strip():
        yield text[start:].strip()


def _version(
    snapshot: Mapping[str, Any], settings: Mapping[str, Any], entry: Mapping[str, Any]
) -> Version:
    places = {"snapshot": snapshot, "settings": settings, "entry": entry}
    for place, key, version in _SIGNS:
        if key in places[place]:
            return min(version, LAST_VERSION)
    return (2, 1)


class PoolMap:
    """Which private pool an allocation went to, from the segments at the end.

    Snapshots before 2.12 do not say it of an event. Of segments that are gone at the end it is not
    known; their allocations count as the default pools'.
    """

    def __init__(self, recording: Recording) -> None:
        private = sorted(s for s in recording.segments if s.pool_id != DEFAULT_POOL)
        self._starts = [segment.address for segment in private]
        self._private = private
        #: The event that made each; before it the address was another segment's.
        self._since = dict.fromkeys(self._starts, -1)
        if private:
            for index, event in enumerate(recording.events):
                if event[0] == SEGMENT_ALLOC and event[1] in self._since:
                    self._since[event[1]] = index

    def __bool__(self) -> bool:
        """Tell whether there is any private pool."""
        return bool(self._starts)

    def pool_of(self, address: int, index: int) -> PoolId:
        """Return the pool of an allocation; (0, 0) for the default ones."""
        at = bisect_right(self._starts, address) - 1
        if at < 0:
            return DEFAULT_POOL
        segment = self._private[at]
        if address >= segment.address + segment.size or index < self._since[segment.address]:
            return DEFAULT_POOL
        return segment.pool_id


def _invalid(origin: str, reason: str, step: str = "") -> InputError:
    return InputError(
        f"{origin} is not a memory snapshot that can be replayed: {reason}.",
        next_step=step or "Give the file that torch.cuda.memory._dump_snapshot wrote.",
    )

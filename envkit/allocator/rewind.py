"""The allocator's state where a recorded history begins, rebuilt from the state at its end.

A history is a ring buffer, so it mostly begins in the middle of a process. What was there then:
the segments at the end, without those that the history made, with those that it released; in them
the blocks that are active at the end and not made by the history, and those that it frees without
having made them. Free neighbours always merge, so the live blocks fix the whole layout.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import Final, NamedTuple

from envkit.allocator.blocks import DEFAULT_POOL, PoolId
from envkit.allocator.config import Config
from envkit.allocator.recording import Recording
from envkit.allocator.replay import (
    ALLOC,
    FREE,
    SEGMENT_ALLOC,
    SEGMENT_FREE,
    SEGMENT_MAP,
    SEGMENT_UNMAP,
    Event,
)
from envkit.allocator.sizes import (
    MIN_BLOCK_BYTES,
    SMALL_LIMIT_BYTES,
    SMALL_SEGMENT_BYTES,
    round_request,
)

_PAGE: Final = SMALL_SEGMENT_BYTES


class StartBlock(NamedTuple):
    """A block that lived before the history."""

    address: int
    size: int
    requested: int


class StartSegment(NamedTuple):
    """A segment, or a contiguous mapped run of an expandable one, before the history."""

    address: int
    size: int
    stream: int
    is_small: bool
    is_expandable: bool
    pool_id: PoolId
    blocks: tuple[StartBlock, ...]


class _Ends(NamedTuple):
    """What a history leaves open."""

    made: dict[int, int]
    """Blocks that it made and did not free: address to event."""
    orphans: list[Event]
    """Frees of what it did not make."""
    new_segments: set[int]
    lost_segments: list[Event]


def state_at_start(recording: Recording, config: Config) -> list[StartSegment]:
    """Return the segments before the first event, by address.

    Args:
        recording: the history.
        config: the settings it was recorded under.

    """
    ends = _open_ends(recording.events)
    blocks = _blocks_at_start(recording, ends, config)
    spans = [*_plain_spans(recording, ends), *_mapped_runs(recording)]
    spans.sort()
    starts = [span.address for span in spans]
    inside: list[list[StartBlock]] = [[] for _ in spans]
    for block in blocks:
        at = bisect_right(starts, block.address) - 1
        if at >= 0 and block.address < spans[at].address + spans[at].size:
            inside[at].append(block)
    return [
        span._replace(blocks=tuple(_with_tails(span, found, ends, config)))
        for span, found in zip(spans, inside, strict=True)
    ]


def _open_ends(events: Iterable[Event]) -> _Ends:
    made: dict[int, int] = {}
    orphans: list[Event] = []
    new: set[int] = set()
    lost: list[Event] = []
    for index, event in enumerate(events):
        action, address = event[0], event[1]
        if action == ALLOC:
            made[address] = index
        elif action == FREE:
            if made.pop(address, None) is None:
                orphans.append(event)
        elif action == SEGMENT_ALLOC:
            new.add(address)
        elif action == SEGMENT_FREE:
            if address in new:
                new.discard(address)
            else:
                lost.append(event)
    return _Ends(made, orphans, new, lost)


def _blocks_at_start(recording: Recording, ends: _Ends, config: Config) -> list[StartBlock]:
    found = {
        block.address: StartBlock(block.address, block.size, block.requested)
        for segment in recording.segments
        for block in segment.blocks
        if block.is_active and block.address not in ends.made
    }
    for _, address, size, _ in ends.orphans:
        block_bytes = round_request(max(size, 1), config.roundup_divisions)
        found[address] = StartBlock(address, block_bytes, size)
    return sorted(found.values())


def _plain_spans(recording: Recording, ends: _Ends) -> list[StartSegment]:
    kept = [
        StartSegment(s.address, s.size, s.stream, s.is_small, False, s.pool_id, ())  # noqa: FBT003
        for s in recording.segments
        if not s.is_expandable and s.address not in ends.new_segments
    ]
    lost = [
        StartSegment(address, size, stream, size <= SMALL_SEGMENT_BYTES, False, DEFAULT_POOL, ())  # noqa: FBT003
        for _, address, size, stream in ends.lost_segments
    ]
    return kept + lost


def _mapped_runs(recording: Recording) -> list[StartSegment]:
    """Undo what the history mapped and unmapped of expandable segments, page by page."""
    ends = [segment for segment in recording.segments if segment.is_expandable]
    pages = {
        page: (s.stream, s.is_small, s.pool_id)
        for s in ends
        for page in range(s.address, s.address + s.size, _PAGE)
    }
    areas = sorted((s.address, (s.stream, s.is_small, s.pool_id)) for s in ends)
    for action, address, size, stream in reversed(recording.events):
        if action == SEGMENT_MAP:
            for page in range(address, address + size, _PAGE):
                pages.pop(page, None)
        elif action == SEGMENT_UNMAP:
            owner = _owner(areas, address, stream, is_small=size % (10 * _PAGE) != 0)
            pages.update((page, owner) for page in range(address, address + size, _PAGE))
    return _runs(pages)


def _owner(
    areas: list[tuple[int, tuple[int, bool, PoolId]]], address: int, stream: int, *, is_small: bool
) -> tuple[int, bool, PoolId]:
    """Return whose an unmapped page was: that of the nearest area below, of the same stream."""
    for start, owner in reversed(areas):
        if start <= address and owner[0] == stream:
            return owner
    return (stream, is_small, DEFAULT_POOL)


def _runs(pages: dict[int, tuple[int, bool, PoolId]]) -> list[StartSegment]:
    runs: list[StartSegment] = []
    for page in sorted(pages):
        stream, is_small, pool_id = owner = pages[page]
        if runs and runs[-1].address + runs[-1].size == page:
            last = runs[-1]
            if owner == (last.stream, last.is_small, last.pool_id):
                runs[-1] = last._replace(size=last.size + _PAGE)
                continue
        runs.append(StartSegment(page, _PAGE, stream, is_small, True, pool_id, ()))  # noqa: FBT003
    return runs


def _with_tails(
    span: StartSegment, blocks: list[StartBlock], ends: _Ends, config: Config
) -> Iterable[StartBlock]:
    """Give a block the rest of its memory that was too small to be split off.

    Only of blocks that the history frees is the size not known: it says what was asked for.
    """
    orphans = {event[1] for event in ends.orphans}
    for index, block in enumerate(blocks):
        last = index + 1 == len(blocks)
        following = span.address + span.size if last else blocks[index + 1].address
        rest = following - block.address - block.size
        if block.address in orphans and 0 < rest <= _unsplit(span, block, config):
            yield block._replace(size=block.size + rest)
        else:
            yield block


def _unsplit(span: StartSegment, block: StartBlock, config: Config) -> int:
    """Return how much behind a block of this size is not split off."""
    if span.is_small or span.is_expandable:
        return MIN_BLOCK_BYTES - 1
    return SMALL_LIMIT_BYTES if block.size < config.max_split_size_bytes else span.size

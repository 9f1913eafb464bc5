"""The allocator's state where a recorded history begins, rebuilt from the state at its end.

A history is a ring buffer, so it mostly begins in the middle of a process. What was there then:
the segments at the end, without those that the history made, with those that it released; in them
the blocks that are active at the end and not made by the history, and those that it frees without
having made them. Free neighbours always merge, so the live blocks fix the whole layout.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import Final, NamedTuple

from envkit.allocator.blocks import DEFAULT_POOL, PoolId
from envkit.allocator.config import Config
from envkit.allocator.recording import OOM, Recording
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
    LARGE_SEGMENT_BYTES,
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
    orphans: dict[int, tuple[int, Event]]
    """Frees of what it did not make: address to event, with its number."""
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
    tails = _Tails(recording, ends, config)
    return [
        span._replace(blocks=tuple(tails.added(span, found)))
        for span, found in zip(spans, inside, strict=True)
    ]


def _open_ends(events: Iterable[Event]) -> _Ends:
    made: dict[int, int] = {}
    orphans: dict[int, tuple[int, Event]] = {}
    new: set[int] = set()
    lost: list[Event] = []
    for index, event in enumerate(events):
        action, address = event[0], event[1]
        if action == ALLOC:
            made[address] = index
        elif action == FREE:
            if made.pop(address, None) is None:
                orphans.setdefault(address, (index, event))
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
    for _, (_, address, size, _) in ends.orphans.values():
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
    small = _small_pages(recording)
    for index in range(len(recording.events) - 1, -1, -1):
        action, address, size, stream = recording.events[index]
        if action == SEGMENT_MAP:
            for page in range(address, address + size, _PAGE):
                pages.pop(page, None)
        elif action == SEGMENT_UNMAP:
            owner = (stream, small[index], DEFAULT_POOL)
            pages.update((page, owner) for page in range(address, address + size, _PAGE))
    runs = _runs(pages)
    return [*_bases(recording, runs, small), *runs]


def _bases(
    recording: Recording, runs: list[StartSegment], small: dict[int, bool]
) -> list[StartSegment]:
    """Return a run without bytes where a range begins, if its first pages were not mapped.

    That they belong to the range is seen when the history maps them while the range exists.
    """
    mapped: dict[tuple[int, bool], int] = {}
    lowest: dict[tuple[int, bool], StartSegment] = {}
    for run in runs:
        key = (run.stream, run.is_small)
        mapped[key] = mapped.get(key, 0) + run.size
        lowest.setdefault(key, run)
    found: dict[tuple[int, bool], StartSegment] = {}
    for index in sorted(small):
        action, address, size, stream = recording.events[index]
        key = (stream, small[index])
        if mapped.get(key, 0) <= 0:  # not there at the start, or given up since
            continue
        mapped[key] += size if action == SEGMENT_MAP else -size
        if address < found.get(key, lowest[key]).address:
            found[key] = lowest[key]._replace(address=address, size=0)
    return list(found.values())


def _small_pages(recording: Recording) -> dict[int, bool]:  # noqa: C901  (one pass)
    """Return of each mapping and unmapping, by event, whether it was the small pool's.

    A mapping belongs to the next allocation. What is unmapped belongs to whom its pages were mapped
    for, or to whose blocks were in them last; if neither is in the history, to its neighbour below.
    """
    found: dict[int, bool] = {}
    pages: dict[int, bool] = {}
    first: dict[int, bool] = {}
    waiting: list[int] = []
    unknown: list[int] = []
    for index, (action, address, size, _) in enumerate(recording.events):
        if action == SEGMENT_MAP:
            waiting.append(index)
        elif action in {ALLOC, FREE, OOM}:
            small = size <= SMALL_LIMIT_BYTES
            if action != OOM:
                pages[address // _PAGE] = small
                first.setdefault(address // _PAGE, small)
            for mapping in waiting if action != FREE else ():
                found[mapping] = small
                _, start, length, _ = recording.events[mapping]
                pages.update(dict.fromkeys(range(start // _PAGE, (start + length) // _PAGE), small))
            waiting = waiting if action == FREE else []
        elif action == SEGMENT_UNMAP:
            within = range(address // _PAGE, (address + size) // _PAGE)
            label = next((pages[page] for page in within if page in pages), None)
            if size % LARGE_SEGMENT_BYTES and label is None:
                label = True  # the large pool's pages are larger
            if label is None:
                unknown.append(index)
            else:
                found[index] = label
    _guess(recording, found, first, unknown)
    return found


def _guess(
    recording: Recording, found: dict[int, bool], pages: dict[int, bool], unknown: list[int]
) -> None:
    """Take the label of the nearest known page below, for pages that the history never used."""
    for segment in recording.segments:
        if segment.is_expandable:
            pages.setdefault(segment.address // _PAGE, segment.is_small)
    known = sorted(pages)
    for index in unknown:
        at = bisect_right(known, recording.events[index][1] // _PAGE) - 1
        found[index] = pages[known[at]] if at >= 0 else False


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


class _Tails:
    """How much of the free memory behind a block belongs to it, as it was too small to split off.

    Only of blocks that the history frees is this not known: it says what was asked for. A gap that
    is no larger than such a rest is one. In a larger gap the rest ends where the first block is
    allocated while the one before lives; without such an allocation it is taken to be nothing.
    """

    def __init__(self, recording: Recording, ends: _Ends, config: Config) -> None:
        self._orphans = ends.orphans
        self._config = config
        self._allocations = sorted(
            (event[1], index) for index, event in enumerate(recording.events) if event[0] == ALLOC
        )

    def added(self, span: StartSegment, blocks: list[StartBlock]) -> Iterable[StartBlock]:
        """Yield the blocks of a segment with what belongs to them."""
        for index, block in enumerate(blocks):
            last = index + 1 == len(blocks)
            following = span.address + span.size if last else blocks[index + 1].address
            gap = following - block.address - block.size
            if block.address in self._orphans and gap > 0:
                yield block._replace(size=block.size + self._tail(span, block, gap))
            else:
                yield block

    def _tail(self, span: StartSegment, block: StartBlock, gap: int) -> int:
        most = _unsplit(span, block, self._config)
        if gap <= most:
            return gap
        freed_at = self._orphans[block.address][0]
        end = block.address + block.size
        first = bisect_left(self._allocations, (end, 0))
        last = bisect_left(self._allocations, (end + most + 1, 0))
        for address, index in self._allocations[first:last]:
            if index < freed_at:
                return address - end
        return 0


def _unsplit(span: StartSegment, block: StartBlock, config: Config) -> int:
    """Return how much behind a block of this size is not split off."""
    if span.is_small or span.is_expandable:
        return MIN_BLOCK_BYTES - 1
    return SMALL_LIMIT_BYTES if block.size < config.max_split_size_bytes else span.size

"""Request streams: what was asked of an allocator, in order and size, with the addresses gone.

The canonical form numbers allocations 1, 2, 3 ... and sorts the numbers within every run of
consecutive frees: under autocast torch drops its cached casts in an order that follows host
addresses, so the raw order of a ViT's frees differed in every process (FINGERPRINT.md, measured
on two H200), while the canonical stream was identical in all of them.
"""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, NamedTuple, Sequence

ALLOC, FREE, SEGMENT = "alloc", "free", "segment"


class Event(NamedTuple):
    """One thing that an allocator was asked for, or (SEGMENT) asked the driver for."""

    kind: str
    address: int
    nbytes: int
    stream: int = 0
    """Stream handle; 0 is the main stream."""


class Stream(NamedTuple):
    """A canonical request stream."""

    requests: List[int]
    """n > 0: an allocation of n bytes; -k: the free of allocation number k."""
    streams: Dict[str, int]
    """Allocation number to stream index, for allocations that are not on the main stream."""
    foreign_frees: int
    """Frees of what was allocated before the recording; they are left out of the requests."""
    addresses: List[int]
    """Address of every allocation, by number: not part of the canonical form."""
    segments: List[List[int]]
    """[number of the allocation that needed it, address, bytes] of every segment: likewise.

    Expandable segments are not among them: where those grow, the allocator decides.
    """

    def values(self) -> Dict[str, Any]:
        """Return the canonical form as JSON values."""
        return {"requests": self.requests, "streams": self.streams}

    def sizes(self) -> List[int]:
        """Return the bytes of every allocation, by number."""
        return [request for request in self.requests if request > 0]

    def peak_bytes(self) -> int:
        """Return the most bytes that were held at once, as asked for."""
        sizes, held, peak = self.sizes(), 0, 0
        for request in self.requests:
            held += request if request > 0 else -sizes[-request - 1]
            peak = max(peak, held)
        return peak


def canonical(events: Iterable[Event]) -> Stream:
    """Return the canonical stream of recorded events."""
    builder = _Builder()
    for event in events:
        builder.add(event)
    return builder.finish()


def left_bytes(events: Iterable[Event], is_tensor: Sequence[bool]) -> int:
    """Return the bytes of tensors that were taken and not given back.

    What was taken before and is given back is subtracted: it held tensors, since workspaces do
    not outlive a cleaned place. `is_tensor` has one entry for every allocation.
    """
    live: Dict[int, int] = {}
    left = number = 0
    for event in events:
        if event.kind == ALLOC:
            live[event.address] = event.nbytes * is_tensor[number]
            left += live[event.address]
            number += 1
        elif event.kind == FREE:
            left -= live.pop(event.address, event.nbytes)
    return left


def held_bytes(
    events: Sequence[Event], is_tensor: Sequence[bool], moments: Sequence[int]
) -> List[int]:
    """Return the bytes of tensors that are held after each of some numbers of requests.

    A request is an allocation or a free; `is_tensor` has one entry for every allocation.
    """
    live: Dict[int, int] = {}
    after = [0]
    number = 0
    for event in events:
        change = 0
        if event.kind == ALLOC:
            live[event.address] = change = event.nbytes * is_tensor[number]
            number += 1
        elif event.kind == FREE:
            change = -live.pop(event.address, 0)
        else:
            continue
        after.append(after[-1] + change)
    return [after[moment] for moment in moments]


class _Builder:
    def __init__(self) -> None:
        self._requests: List[int] = []
        self._frees: List[int] = []
        self._streams: Dict[str, int] = {}
        self._handles: Dict[int, int] = {0: 0}
        self._live: Dict[int, int] = {}
        self._foreign = 0
        self._addresses: List[int] = []
        self._segments: List[List[int]] = []

    def add(self, event: Event) -> None:
        if event.kind == SEGMENT:
            self._segments.append([len(self._addresses) + 1, event.address, event.nbytes])
        elif event.kind == FREE:
            self._free(event.address)
        else:
            self._alloc(event)

    def _alloc(self, event: Event) -> None:
        self._flush()
        self._requests.append(event.nbytes)
        self._addresses.append(event.address)
        number = len(self._addresses)
        self._live[event.address] = number
        index = self._handles.setdefault(event.stream, len(self._handles))
        if index:
            self._streams[str(number)] = index

    def _free(self, address: int) -> None:
        number = self._live.pop(address, None)
        if number is None:
            self._foreign += 1
        else:
            self._frees.append(number)

    def _flush(self) -> None:
        self._requests.extend(-number for number in sorted(self._frees))
        self._frees.clear()

    def finish(self) -> Stream:
        self._flush()
        return Stream(self._requests, self._streams, self._foreign, self._addresses, self._segments)


class Split(NamedTuple):
    """A stream in two: what holds tensors, and what libraries and kernels take for themselves."""

    tensors: Dict[str, Any]
    workspaces: Dict[str, Any]
    """Like `tensors`, with `after_tensors`: for every request, how many tensor allocations came
    before it."""


def split(stream: Stream, is_tensor: Sequence[bool]) -> Split:
    """Return the parts of a stream; `is_tensor` has one entry for every allocation.

    Each part is numbered and put in canonical form by itself, so that a workspace more or less
    does not move the tensors' part.
    """
    parts = {True: _Part(stream.streams), False: _Part(stream.streams)}
    number = 0
    for request in stream.requests:
        if request > 0:
            part = parts[is_tensor[number]]
            number += 1
            part.alloc(number, request, len(parts[True].numbers))
        else:
            part = parts[is_tensor[-request - 1]]
            part.free(-request, len(parts[True].numbers))
    tensors, workspaces = parts[True].finish(), parts[False].finish()
    positions = workspaces.pop("positions")
    tensors.pop("positions")
    return Split(tensors, dict(workspaces, after_tensors=positions))


class _Part:
    """One side of a split, numbered afresh."""

    def __init__(self, streams: Dict[str, int]) -> None:
        self.numbers: Dict[int, int] = {}
        self._all_streams = streams
        self._requests: List[int] = []
        self._positions: List[int] = []
        self._frees: List[Any] = []
        self._streams: Dict[str, int] = {}

    def alloc(self, number: int, nbytes: int, position: int) -> None:
        self._flush()
        self.numbers[number] = len(self.numbers) + 1
        self._requests.append(nbytes)
        self._positions.append(position)
        index = self._all_streams.get(str(number))
        if index:
            self._streams[str(self.numbers[number])] = index

    def free(self, number: int, position: int) -> None:
        self._frees.append((position, self.numbers[number]))

    def _flush(self) -> None:
        # By number only: where a workspace is freed among its own kind's frees is not a request.
        positions = sorted(position for position, _ in self._frees)
        self._requests.extend(-number for number in sorted(number for _, number in self._frees))
        self._positions.extend(positions)
        self._frees.clear()

    def finish(self) -> Dict[str, Any]:
        self._flush()
        return {
            "requests": self._requests,
            "streams": self._streams,
            "positions": self._positions,
        }


class Labels(NamedTuple):
    """Which allocations of a stream hold tensors, and how many could be read either way."""

    is_tensor: List[bool]
    ambiguous: int


class Unlike(ValueError):  # noqa: N818  (named for what happened)
    """Two streams cannot be laid over each other; the text says where they part."""


def transfer(sizes: Sequence[int], seen: Sequence[int], is_tensor: Sequence[bool]) -> Labels:
    """Carry labels from a watched stream over to a plain one; both are given by their sizes.

    Under a dispatch mode autograd adds gradients out of place, so the watched stream has
    allocations more (seen on the CPU with torch 2.13, a small ViT: gradients of 8 activations, and
    8-byte scalars). The plain one must be what remains when some are left out. Each allocation
    takes the earliest place it can; it is ambiguous if a place it could also take, of the same
    size, has another label.

    Raises:
        Unlike: the plain stream is not a part of the watched one.

    """
    first = _places(sizes, seen)
    count = len(seen)
    backwards = _places(sizes[::-1], seen[::-1])
    last = [count - 1 - place for place in reversed(backwards)]
    labels = [is_tensor[place] for place in first]
    ambiguous = sum(
        any(seen[place] == size and is_tensor[place] != chosen for place in range(low, high + 1))
        for size, chosen, low, high in zip(sizes, labels, first, last)
    )
    return Labels(labels, ambiguous)


def _places(sizes: Sequence[int], seen: Sequence[int]) -> List[int]:
    """Return the earliest place in `seen` for each size, in order."""
    places: List[int] = []
    place = -1
    for number, size in enumerate(sizes, 1):
        place += 1
        while place < len(seen) and seen[place] != size:
            place += 1
        if place == len(seen):
            text = "allocation {} of {} ({} bytes) has no place among the {} watched ones"
            raise Unlike(text.format(number, len(sizes), size, len(seen)))
        places.append(place)
    return places


def label(addresses: Sequence[int], steps: Sequence[Sequence[Any]]) -> List[bool]:
    """Say for every recorded allocation whether it holds a tensor.

    `steps` are [allocations so far, storage addresses of its results] of every operation that
    torch's dispatcher saw, in order. An allocation holds a tensor if it was made since the
    operation before and one of the results lies at its address; of two at one address the later
    one does (a temporary was freed and its place taken).
    """
    is_tensor = [False] * len(addresses)
    done = 0
    for count, results in steps:
        latest = {addresses[index]: index for index in range(done, min(count, len(addresses)))}
        for address in results:
            if address in latest:
                is_tensor[latest[address]] = True
        done = max(done, count)
    return is_tensor

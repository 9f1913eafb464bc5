"""Recording what torch asks of its allocators: the memory history on CUDA, the profiler on the CPU.

The split into tensors and workspaces comes from a second kind of run in which torch's dispatcher
tells the storages of every result; that run is watched for nothing else, since Python holds
results a little longer there.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple, Sequence, Tuple

from . import streams
from .place import Place, Unmet

#: Entries of torch's ring buffer; a workload of the suites makes some thousands.
MAX_ENTRIES = 1000000

#: An allocation of this size marks the end of an operation in a watched CPU run, and one of the
#: other size a moment that the work itself names: no tensor of the workloads has them.
MARKER_BYTES = 99991
MOMENT_BYTES = 99989

_ACTIONS = {
    "alloc": streams.ALLOC,
    "free_requested": streams.FREE,
    "segment_alloc": streams.SEGMENT,
}


class Unrecorded(RuntimeError):  # noqa: N818  (named for what happened)
    """This torch cannot record requests; the text says what is missing."""


class Watched(NamedTuple):
    """A stream and, for every allocation, whether it holds a tensor."""

    stream: streams.Stream
    is_tensor: List[bool]


class Recorded(NamedTuple):
    """What was asked for while some work was done."""

    events: List[streams.Event]
    """In the order in which they came."""
    stream: streams.Stream
    moments: Dict[str, int]
    """Allocations and frees before each moment that the work named."""
    result: Any
    """What the work returned."""


#: Something to do, told how to name a moment.
Work = Callable[[Callable[[str], None]], Any]


def record(place: Place, work: Work) -> Recorded:
    """Run `work` and return what it asked of the allocator.

    Raises:
        Unrecorded: this torch has no way to record.
        Unmet: the recording is not whole.

    """
    moments = _Moments(place)
    events, result = _events(place, lambda: moments.run(work))
    if not place.is_cuda:
        events, _, moments.counts = _without_markers(events, MOMENT_BYTES)
    counts = dict(zip(moments.names, moments.counts))
    return Recorded(events, streams.canonical(events), counts, result)


def watch(place: Place, work: Work) -> Watched:
    """Run `work` under the dispatcher's eyes and return its stream with tensors marked.

    The moments that it names are not counted.

    Raises:
        Unrecorded: this torch has no way to record, or none to watch the dispatcher.
        Unmet: the recording is not whole.

    """
    eye = _Eye(place)
    events, _ = _events(place, lambda: eye.run(lambda: work(_unheard)))
    if not place.is_cuda:
        events, counts, _ = _without_markers(events, MARKER_BYTES)
        eye.counts = counts
    stream = streams.canonical(events)
    steps = list(zip(eye.counts, eye.results))
    return Watched(stream, streams.label(stream.addresses, steps))


def _unheard(_moment: str) -> None:
    """Take no notice of a moment."""


class _Moments:
    """Notes how many requests were made before each moment that some work names."""

    def __init__(self, place: Place) -> None:
        self.names: List[str] = []
        self.counts: List[int] = []
        self._place = place
        self._before = 0

    def run(self, work: Work) -> Any:
        """Run the work, recording already."""
        if self._place.is_cuda:
            self._before = sum(_made(self._place))
        return work(self._note)

    def _note(self, name: str) -> None:
        self.names.append(name)
        if self._place.is_cuda:
            self.counts.append(sum(_made(self._place)) - self._before)
        else:
            self._place.torch.empty(MOMENT_BYTES, dtype=self._place.torch.uint8)


def _made(place: Place) -> Tuple[int, int]:
    """Return how many allocations and frees the CUDA allocator has made in this process."""
    stats = place.torch.cuda.memory_stats_as_nested_dict(place.index)["allocation"]["all"]
    return int(stats["allocated"]), int(stats["freed"])


def _events(place: Place, work: Callable[[], Any]) -> Tuple[List[streams.Event], Any]:
    return (_cuda_events if place.is_cuda else _cpu_events)(place, work)


# --- CUDA -----------------------------------------------------------------------------------------


def _cuda_events(place: Place, work: Callable[[], Any]) -> Tuple[List[streams.Event], Any]:
    place.synchronize()
    _need(place, place.api.start_memory_history(place.torch, MAX_ENTRIES))
    try:
        first = len(_trace(place))
        result = work()
        place.synchronize()
        trace = _trace(place)
    finally:
        place.api.stop_memory_history(place.torch)
    if len(trace) >= MAX_ENTRIES:
        message = "torch's memory history was full after {} entries".format(MAX_ENTRIES)
        raise Unmet(message)
    return [_event(entry) for entry in trace[first:] if entry["action"] in _ACTIONS], result


def _need(place: Place, answer: Any) -> Any:
    if isinstance(answer, place.api.Missing):
        raise Unrecorded(answer.reason)
    return answer


def _trace(place: Place) -> Sequence[Any]:
    snapshot = _need(place, place.api.memory_snapshot(place.torch))
    traces = snapshot.get("device_traces") or []
    if len(traces) <= place.index:
        message = "the memory snapshot of this torch has no trace of " + place.name
        raise Unrecorded(message)
    trace: Sequence[Any] = traces[place.index]
    return trace


def _event(entry: Any) -> streams.Event:
    return streams.Event(
        _ACTIONS[entry["action"]], entry["addr"], entry["size"], entry.get("stream", 0)
    )


# --- CPU ------------------------------------------------------------------------------------------


def _cpu_events(place: Place, work: Callable[[], Any]) -> Tuple[List[streams.Event], Any]:
    profile = _need(place, place.api.lookup(place.torch, "autograd.profiler.profile"))
    profiler = place.api.attempt(lambda: profile(profile_memory=True))
    with _need(place, profiler) as running:
        result = work()
    roots = _need(place, place.api.event_tree(running))
    found: List[Any] = []
    _collect(roots, found)
    found.sort(key=lambda pair: pair[0])
    return [event for _, event in found], result


def _collect(roots: Sequence[Any], found: List[Any]) -> None:
    waiting = list(reversed(roots))
    while waiting:
        node = waiting.pop()
        waiting.extend(reversed(node.children))
        if node.tag.name == "Allocation":
            fields = node.extra_fields
            nbytes = fields.alloc_size
            if nbytes:
                kind = streams.ALLOC if nbytes > 0 else streams.FREE
                event = streams.Event(kind, fields.ptr, abs(nbytes))
                found.append((node.start_time_ns, event))


def _without_markers(
    events: Sequence[streams.Event], marker_bytes: int
) -> Tuple[List[streams.Event], List[int], List[int]]:
    """Return the events less the markers; allocations, and requests, before each marker."""
    kept: List[streams.Event] = []
    counts: List[int] = []
    requests: List[int] = []
    allocations = 0
    for event in events:
        if event.nbytes != marker_bytes:
            kept.append(event)
            allocations += event.kind == streams.ALLOC
        elif event.kind == streams.ALLOC:
            counts.append(allocations)
            requests.append(len(kept))
    return kept, counts, requests


# --- the dispatcher -------------------------------------------------------------------------------


class _Eye:
    """Notes, after every operation that the dispatcher sees, the storages of its results."""

    def __init__(self, place: Place) -> None:
        self.results: List[List[int]] = []
        self.counts: List[int] = []
        self._place = place
        self._offset = 0

    def run(self, work: Callable[[], Any]) -> Any:
        """Run `work` with every operation noted."""
        place = self._place
        mode = _need(place, place.api.dispatch_mode(place.torch))
        eye = self

        class Eye(mode):  # type: ignore[misc, valid-type]  # the class is torch's, known at run time
            @classmethod
            def _should_skip_dynamo(cls) -> bool:
                # Else newer versions import torch._dynamo for this class: 1.5 s on two slow cores.
                return False

            def __torch_dispatch__(
                self, func: Any, _types: Any, args: Any = (), kwargs: Any = None
            ) -> Any:
                result = func(*args, **(kwargs or {}))
                eye.note(result)
                return result

        if place.is_cuda:
            self._offset = _made(place)[0]
        with Eye():
            return work()

    def note(self, result: Any) -> None:
        """Note where the storages of a result lie and how many allocations there were."""
        found: List[int] = []
        self._storages(result, found)
        self.results.append(found)
        if self._place.is_cuda:
            self.counts.append(_made(self._place)[0] - self._offset)
        else:
            torch = self._place.torch
            torch.empty(MARKER_BYTES, dtype=torch.uint8)

    def _storages(self, result: Any, found: List[int]) -> None:
        if isinstance(result, (list, tuple)):
            for part in result:
                self._storages(part, found)
        elif self._is_here(result):
            api = self._place.api
            address = api.attempt(lambda: result.untyped_storage().data_ptr())
            if not isinstance(address, api.Missing):
                found.append(address)
            else:  # a sparse one has none of its own
                pieces = api.attempt(lambda: api.sparse_pieces(result))
                self._storages([] if isinstance(pieces, api.Missing) else pieces, found)

    def _is_here(self, result: Any) -> bool:
        place = self._place
        return isinstance(result, place.torch.Tensor) and result.device.type == place.device.type

"""Recording what torch asks of its allocators: the memory history on CUDA, the profiler on the CPU.

The split into tensors and workspaces comes from a second kind of run in which torch's dispatcher
tells the storages of every result; that run is watched for nothing else, since Python holds
results a little longer there.
"""

from __future__ import annotations

from typing import Any, Callable, List, NamedTuple, Sequence, Tuple

from . import streams
from .place import Place, Unmet

#: Entries of torch's ring buffer; a workload of the suites makes some thousands.
MAX_ENTRIES = 1000000

#: An allocation of this size marks the end of an operation in a watched CPU run: no tensor of the
#: workloads has it.
MARKER_BYTES = 99991

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


def record(place: Place, work: Callable[[], Any]) -> Tuple[streams.Stream, Any]:
    """Run `work` and return the stream of its requests and what it returned.

    Raises:
        Unrecorded: this torch has no way to record.
        Unmet: the recording is not whole.

    """
    events, result = _events(place, work)
    return streams.canonical(events), result


def watch(place: Place, work: Callable[[], Any]) -> Watched:
    """Run `work` under the dispatcher's eyes and return its stream with tensors marked.

    Raises:
        Unrecorded: this torch has no way to record, or none to watch the dispatcher.
        Unmet: the recording is not whole.

    """
    eye = _Eye(place)
    events, _ = _events(place, lambda: eye.run(work))
    if not place.is_cuda:
        events, counts = _without_markers(events)
        eye.counts = counts
    stream = streams.canonical(events)
    steps = list(zip(eye.counts, eye.results))
    return Watched(stream, streams.label(stream.addresses, steps, eye.before))


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
    events: Sequence[streams.Event],
) -> Tuple[List[streams.Event], List[int]]:
    """Return the events less the markers, and the number of allocations before each marker."""
    kept: List[streams.Event] = []
    counts: List[int] = []
    allocations = 0
    for event in events:
        if event.nbytes != MARKER_BYTES:
            kept.append(event)
            allocations += event.kind == streams.ALLOC
        elif event.kind == streams.ALLOC:
            counts.append(allocations)
    return kept, counts


# --- the dispatcher -------------------------------------------------------------------------------


class _Eye:
    """Notes, after every operation that the dispatcher sees, the storages of its results."""

    def __init__(self, place: Place) -> None:
        self.results: List[List[int]] = []
        self.counts: List[int] = []
        self.before = 0
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
            self._offset = self._made()
        with Eye():
            return work()

    def note(self, result: Any) -> None:
        """Note where the storages of a result lie and how many allocations there were."""
        found: List[int] = []
        self._storages(result, found)
        self.results.append(found)
        if self._place.is_cuda:
            self.counts.append(self._made() - self._offset)
        else:
            torch = self._place.torch
            torch.empty(MARKER_BYTES, dtype=torch.uint8)

    def _made(self) -> int:
        stats = self._place.torch.cuda.memory_stats_as_nested_dict(self._place.index)
        return int(stats["allocation"]["all"]["allocated"])

    def _storages(self, result: Any, found: List[int]) -> None:
        if isinstance(result, (list, tuple)):
            for part in result:
                self._storages(part, found)
        elif self._is_here(result):
            found.append(result.untyped_storage().data_ptr())

    def _is_here(self, result: Any) -> bool:
        place = self._place
        return isinstance(result, place.torch.Tensor) and result.device.type == place.device.type

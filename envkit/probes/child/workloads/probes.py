"""What a workload's probes are made of: streams, peaks, losses and weights of repeated runs.

Every workload runs five times in one process: once unrecorded, twice recorded, twice watched by
the dispatcher. The first run loads kernels and lets cuDNN and cuBLAS choose; under
`cudnn.benchmark` it would also ask for other workspaces than the later ones (expected, from
torch's sources). Between two runs the place is cleaned (`Place.clean`). Runs in one process are
used because a second process would cost its context and kernels again (0.15 s + 0.5 s on an H200,
FINGERPRINT.md); that streams are identical across processes was measured there.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple

from .. import recording, streams
from ..place import Place
from ..recording import Unrecorded
from .catalogue import WORKLOADS, Workload, train
from .options import must_support

RUNS = 2

#: The two parts of a stream.
PARTS = ("tensors", "workspaces")

#: Called with a probe's part of the name ("tensors", "losses" ...) and what it gave.
Report = Callable[..., None]


class _Run(NamedTuple):
    stream: Any
    """A Stream, or the text that says why there is none."""
    peaks: Dict[str, Any]
    losses: List[str]
    weights: Dict[str, Any]


def measure(place: Place, name: str, seed: int, report: Report) -> None:
    """Run a workload and report its probes.

    Raises:
        Unmet: the device cannot do what the workload asks, or was not clean.

    """
    workload = WORKLOADS[place.kind][name]
    must_support(place, workload.options)
    place.must_be_clean()
    train(place, workload, seed)
    runs = [_run(place, workload, seed) for _ in range(RUNS)]
    report("losses", runs=[{"losses": run.losses} for run in runs])
    report("weights", runs=[run.weights for run in runs])
    report("peaks", runs=[run.peaks for run in runs], observed=_observed(runs[0].stream))
    _report_streams(place, lambda: train(place, workload, seed), runs, report)


def _run(place: Place, workload: Workload, seed: int) -> _Run:
    place.must_be_clean()
    if place.is_cuda:
        place.reset_peaks()
    stream, outcome = _recorded(place, lambda: train(place, workload, seed))
    peaks = place.peaks() if place.is_cuda else _requested_peak(stream)
    return _Run(stream, peaks, outcome.losses, outcome.weights())


def _recorded(place: Place, work: Callable[[], Any]) -> Any:
    try:
        return recording.record(place, work)
    except Unrecorded as missing:
        return str(missing), work()


def _requested_peak(stream: Any) -> Dict[str, Any]:
    # The CPU has no caching allocator: neither reserved memory nor segments.
    return {"allocated_bytes": stream.peak_bytes()} if isinstance(stream, streams.Stream) else {}


def _observed(stream: Any) -> Any:
    """Return what a replay of the peaks needs and what differs in every process: addresses."""
    if not isinstance(stream, streams.Stream):
        return None
    return dict(stream.values(), segments=stream.segments, foreign_frees=stream.foreign_frees)


def _report_streams(
    place: Place, work: Callable[[], Any], runs: List[_Run], report: Report
) -> None:
    if not all(isinstance(run.stream, streams.Stream) for run in runs):
        reason = next(run.stream for run in runs if not isinstance(run.stream, streams.Stream))
        for part in PARTS:
            report(part, not_run=reason)
        return
    try:
        watched = [_watched(place, work) for _ in range(RUNS)]
    except Unrecorded as missing:
        for part in PARTS:
            report(part, not_run=str(missing))
        return
    _report_split([run.stream for run in runs], watched, report)


def _watched(place: Place, work: Callable[[], Any]) -> recording.Watched:
    place.must_be_clean()
    return recording.watch(place, work)


def _report_split(
    plain: List[streams.Stream], watched: List[recording.Watched], report: Report
) -> None:
    try:
        labels = [
            streams.transfer(run.sizes(), look.stream.sizes(), look.is_tensor)
            for run, look in zip(plain, watched)
        ]
    except streams.Unlike as unlike:
        for part in PARTS:
            report(part, failed="the split was not possible: {}".format(unlike))
        return
    parts = [streams.split(run, found.is_tensor) for run, found in zip(plain, labels)]
    observed = {
        "ambiguous": labels[0].ambiguous,
        "watched_allocations": len(watched[0].is_tensor),
        "foreign_frees": plain[0].foreign_frees,
    }
    for part in PARTS:
        report(part, runs=[getattr(one, part) for one in parts], observed=observed)

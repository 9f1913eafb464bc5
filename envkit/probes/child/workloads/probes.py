"""What a workload's probes are made of: streams, peaks and bits of repeated runs.

Every workload runs five times in one process: once unrecorded, twice recorded, twice watched by
the dispatcher. The first run loads kernels and lets cuDNN and cuBLAS choose; under
`cudnn.benchmark` it would also ask for other workspaces than the later ones (expected, from
torch's sources). Between two runs the place is cleaned (`Place.clean`). Runs in one process are
used because a second process would cost its context and kernels again (0.15 s + 0.5 s on an H200,
FINGERPRINT.md); that streams are identical across processes was measured there.
"""

from __future__ import annotations

import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional

from .. import digests, recording, streams
from ..place import Place
from ..recording import Unrecorded, Work
from .catalogue import WORKLOADS, carry_out
from .options import must_support

RUNS = 2

#: The two parts of a stream.
PARTS = ("tensors", "workspaces")

#: Called with a probe's part of the name ("tensors", "losses" ...) and what it gave.
Report = Callable[..., None]


class Run(NamedTuple):
    """What one recorded run gave."""

    recorded: Optional[recording.Recorded]
    """None where this torch cannot record; `missing` says why."""
    missing: str
    peaks: Dict[str, Any]
    bits: Dict[str, Any]
    """Part to values; a digest may still be in the making."""
    seconds: float


def measure(place: Place, name: str, seed: int, report: Report) -> None:
    """Run a workload and report its probes.

    Raises:
        Unmet: the device cannot do what the workload asks, or was not clean.

    """
    workload = WORKLOADS[place.kind][name]
    must_support(place, workload.options)

    def work(mark: Callable[[str], None]) -> Any:
        return carry_out(place, workload, seed, mark)

    first_s = _warm_up(place, work)
    runs = [run_once(place, work) for _ in range(RUNS)]
    seconds = {"first_run_s": first_s, "recorded_run_s": runs[0].seconds}
    # Nothing to replay where the dispatcher is blind: a graph's pool is none of the usual ones.
    observed = _observed(runs[0], seconds) if workload.splits else None
    report("peaks", runs=[run.peaks for run in runs], observed=observed)
    try:
        if workload.splits:
            report_split(place, work, runs, report)
        else:
            _report_whole(runs, report)
    except streams.Unlike as unlike:
        _each(report, (*PARTS, "held"), failed="the split was not possible: {}".format(unlike))
    finally:  # whatever becomes of the streams; last, since weights are hashed meanwhile
        for part in runs[0].bits:
            report(part, runs=[digests.finished(run.bits[part]) for run in runs])


def _warm_up(place: Place, work: Work) -> float:
    place.must_be_clean()
    started = time.monotonic()
    work(lambda _moment: None)
    place.synchronize()
    return round(time.monotonic() - started, 4)


def run_once(place: Place, work: Work, *, clean: bool = True) -> Run:
    """Run some work recorded, on a clean place unless what is there belongs to it.

    Raises:
        Unmet: the place was not clean, or the recording is not whole.

    """
    (place.must_be_clean if clean else place.clean)()
    if place.is_cuda:
        place.reset_peaks()
    started = time.monotonic()
    recorded, missing, bits = _recorded(place, work)
    place.synchronize()
    seconds = round(time.monotonic() - started, 4)
    peaks = place.peaks() if place.is_cuda else _requested_peak(recorded)
    values = {part: value() for part, value in bits.items()}
    return Run(recorded and recorded._replace(result=None), missing, peaks, values, seconds)


def _recorded(place: Place, work: Work) -> Any:
    try:
        recorded = recording.record(place, work)
    except Unrecorded as missing:
        return None, str(missing), work(lambda _moment: None)
    return recorded, "", recorded.result


def _requested_peak(recorded: Optional[recording.Recorded]) -> Dict[str, Any]:
    # The CPU has no caching allocator: neither reserved memory nor segments.
    return {} if recorded is None else {"allocated_bytes": recorded.stream.peak_bytes()}


def _observed(run: Run, seconds: Dict[str, float]) -> Any:
    """Return what a replay of the peaks needs, and what differs in every process."""
    if run.recorded is None:
        return None
    stream = run.recorded.stream
    seen = dict(stream.values(), segments=stream.segments, foreign_frees=stream.foreign_frees)
    return dict(seen, **seconds)


def _report_whole(runs: List[Run], report: Report) -> None:
    streams_of = [run.recorded and run.recorded.stream.values() for run in runs]
    if None in streams_of:
        report("requests", not_run=runs[0].missing)
    else:
        report("requests", runs=streams_of)


def report_split(
    place: Place,
    work: Work,
    runs: List[Run],
    report: Report,
    *,
    clean: bool = True,
) -> Optional[List[List[bool]]]:
    """Report the two parts of a stream, and what was held at the moments that the work named.

    Returns for each run which of its allocations hold tensors, None if this torch cannot tell.

    Raises:
        Unlike: the watched runs ask for other memory; nothing was reported.

    """
    parts = (*PARTS, "held")
    if any(run.recorded is None for run in runs):
        _each(report, parts, not_run=next(run.missing for run in runs if run.recorded is None))
        return None
    try:
        watched = [_watched(place, work, clean=clean) for _ in range(RUNS)]
    except Unrecorded as missing:
        _each(report, parts, not_run=str(missing))
        return None
    return _report_parts([run.recorded for run in runs], watched, report)


def _each(report: Report, parts: Any, **found: Any) -> None:
    for part in parts:
        report(part, **found)


def _watched(place: Place, work: Work, *, clean: bool) -> recording.Watched:
    (place.must_be_clean if clean else place.clean)()
    return recording.watch(place, work)


def _report_parts(
    recorded: List[Any],
    watched: List[recording.Watched],
    report: Report,
) -> List[List[bool]]:
    plain = [one.stream for one in recorded]
    labels = [
        streams.transfer(run.sizes(), look.stream.sizes(), look.is_tensor)
        for run, look in zip(plain, watched)
    ]
    split = [streams.split(run, found.is_tensor) for run, found in zip(plain, labels)]
    seen = {
        "ambiguous": labels[0].ambiguous,
        "watched_allocations": len(watched[0].is_tensor),
        "foreign_frees": plain[0].foreign_frees,
    }
    for part in PARTS:
        report(part, runs=[getattr(one, part) for one in split], observed=seen)
    held = [_held(one, found.is_tensor) for one, found in zip(recorded, labels)]
    if held[0]:
        report("held", runs=held)
    return [found.is_tensor for found in labels]


def _held(recorded: recording.Recorded, is_tensor: List[bool]) -> Dict[str, int]:
    """Return the bytes of tensors held at each moment, by its name."""
    moments = list(recorded.moments.values())
    held = streams.held_bytes(recorded.events, is_tensor, moments)
    return {name + "_bytes": nbytes for name, nbytes in zip(recorded.moments, held)}

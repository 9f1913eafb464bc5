"""`envkit memory replay`: prove the model on a snapshot, then ask it about other settings."""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any, Final

import msgspec

from envkit.allocator.config import ConfigError
from envkit.allocator.course import Course, most_reserved_at
from envkit.allocator.model import CachingAllocator
from envkit.allocator.peak import groups_at_peak
from envkit.allocator.prove import Proof, prove, retrace
from envkit.allocator.recording import Recording, recordings_of
from envkit.allocator.rewind import StartSegment
from envkit.allocator.snapshot_pickle import MAX_BYTES, read_pickle
from envkit.allocator.what_if import USEFUL_CONFS, Outcome, version_for, what_if
from envkit.errors import CannotCheckError, InputError, UsageError
from envkit.model.codec import read_json
from envkit.model.documents import Replay, ReplayDevice, ReplayProof, ReplaySetting
from envkit.workflows.input_bytes import origin_of

#: (done, total, name)
Tell = Callable[[int, int, str], None]
#: Below this many events starting processes takes longer than replaying.
PARALLEL_EVENTS: Final = 200_000
_MOST_GROUPS: Final = 20
_UNITS: Final = {
    "": 1, "B": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40,
    "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30, "TIB": 1 << 40,
    "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
}  # fmt: skip


class ReplayRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked for on the command line."""

    snapshot: str
    confs: tuple[str, ...] = ()
    """Settings to try; empty: the useful ones."""
    total_memory_bytes: int | None = None
    """What torch can have."""
    with_courses: bool = False
    """Whether memory over the events is wanted too, for a picture."""


class Replayed(msgspec.Struct, frozen=True, kw_only=True):
    """The answer, and what a picture of it needs besides."""

    document: Replay
    courses: tuple[tuple[Course, ...], ...] = ()
    """For each device, for each of its settings; empty unless asked for."""


def parse_size(text: str) -> int:
    """Read a size such as `24GiB`, `24G` (the same) or `24GB` (10^9).

    Raises:
        UsageError: it is none.

    """
    found = re.fullmatch(r"(\d{1,15}(?:\.\d{1,6})?)\s*([A-Za-z]{0,3})", text.strip())
    unit = _UNITS.get(found[2].upper()) if found else None
    if found is None or unit is None or not (size := int(float(found[1]) * unit)):
        message = f"{text!r} is no size of memory."
        raise UsageError(message, next_step="Write it as 24GiB, 24576MiB or in bytes.")
    return size


def replay(request: ReplayRequest, tell: Tell) -> Replay:
    """Prove and replay every device of a snapshot.

    Raises:
        InputError: the file cannot be read or is no snapshot.
        CannotCheckError: it has no history.
        UsageError: torch would refuse one of the settings.

    """
    return replay_with_courses(request, tell).document


def replay_with_courses(request: ReplayRequest, tell: Tell) -> Replayed:
    """Do the same as `replay`; `request` says whether memory over the events is kept.

    Raises:
        InputError, CannotCheckError, UsageError: as `replay`.

    """
    with _without_collection():
        return _replay(request, tell)


def _replay(request: ReplayRequest, tell: Tell) -> Replayed:
    origin = origin_of(request.snapshot)
    content = _read(request.snapshot, origin)
    recordings = recordings_of(
        _with_history(_values(content, origin)), origin=origin, size_bytes=len(content)
    )
    if not recordings:
        message = f"{origin} has no history, only the state at one moment."
        step = "Record one: torch.cuda.memory._record_memory_history() before the work."
        raise CannotCheckError(message, next_step=step)
    for conf in request.confs:
        _check_conf(conf, recordings[0])
    answers = [_device(recording, request, tell) for recording in recordings]
    return Replayed(
        document=Replay(source=origin, devices=tuple(device for device, _ in answers)),
        courses=tuple(courses for _, courses in answers) if request.with_courses else (),
    )


@contextlib.contextmanager
def _without_collection() -> Iterator[None]:
    """Stop Python's search for cycles: among millions of values it takes most of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def exit_code(document: Replay, request: ReplayRequest, *, must_fit: bool) -> int:
    """Return 1 if a setting that must fit would run out, 3 if the proof failed, else 0.

    The settings that must fit are those asked for, or the recorded one if none was.
    """
    if must_fit:
        for device in document.devices:
            for setting in device.settings:
                asked = setting.conf in request.confs if request.confs else setting.is_recorded
                if asked and setting.ran_out_at_event is not None:
                    return 1
    proofs = [device.proof for device in document.devices]
    good = all(proof.left_track_at is None and proof.ooms_reproduced for proof in proofs)
    return 0 if good else 3


def _read(name: str, origin: str) -> bytes:
    try:
        path = Path(name)
        if path.is_file() and path.stat().st_size > MAX_BYTES:
            message = f"{origin} is larger than {MAX_BYTES} bytes."
            raise InputError(message, next_step="Record fewer events (max_entries).")
        return path.read_bytes()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        message = f"{origin} cannot be read: {reason}."
        raise InputError(message, next_step="Give the file of a memory snapshot.") from error


def _values(content: bytes, origin: str) -> Any:
    if content.lstrip()[:1] in {b"{", b"["}:
        return read_json(content, origin=origin, most_values=len(content))
    return read_pickle(content, origin=origin)


def _with_history(snapshot: Any) -> Any:
    """Give a snapshot without a history, or a bare list of segments, an empty one."""
    if isinstance(snapshot, list):
        return {"segments": snapshot, "device_traces": []}
    if isinstance(snapshot, dict) and "segments" in snapshot:
        return {"device_traces": [], **snapshot}
    return snapshot


def _check_conf(conf: str, recording: Recording) -> None:
    try:
        CachingAllocator(conf, version=version_for(conf, recording.version))
    except (ConfigError, ValueError) as error:
        message = f"The setting {conf!r} cannot be replayed: {error}."
        step = "Write it as in PYTORCH_CUDA_ALLOC_CONF: `--conf expandable_segments:True`."
        raise UsageError(message, next_step=step) from error


def _device(
    recording: Recording, request: ReplayRequest, tell: Tell
) -> tuple[ReplayDevice, tuple[Course, ...]]:
    try:
        tell(0, 0, f"GPU {recording.device}: proof")
        proof, start = prove(recording)
    except (ConfigError, ValueError) as error:
        message = f"The settings of the recording cannot be replayed: {error}."
        step = "envkit models torch's native allocator, 2.1 to 2.14."
        raise CannotCheckError(message, next_step=step) from error
    confs = request.confs or USEFUL_CONFS
    others = [conf for conf in dict.fromkeys(confs) if conf != recording.conf]
    job = _Job(
        recording=msgspec.structs.replace(recording, stacks=(), block_stacks={}),
        start=start,
        room=request.total_memory_bytes or proof.room_bytes,
        moments=_moments(recording, proof) if request.with_courses else None,
    )
    recorded, course = _recorded(job, proof)
    outcomes = _outcomes(job, others, tell)
    device = ReplayDevice(
        index=recording.device,
        proof=_proof(proof),
        settings=(recorded, *(_setting(outcome) for outcome in outcomes)),
        events=len(recording.events),
        peak_at_event=proof.peak_allocated_at if proof.peak_allocated_at >= 0 else None,
        peak=groups_at_peak(recording, start, proof.peak_allocated_at)[:_MOST_GROUPS],
    )
    courses = (course, *(outcome.course for outcome in outcomes))
    return device, tuple(one for one in courses if one is not None)


def _moments(recording: Recording, proof: Proof) -> frozenset[int]:
    """Return after which events a picture shows the segments."""
    places = (proof.peak_allocated_at, most_reserved_at(recording), proof.first_oom_at)
    return frozenset(at for at in places if at is not None and at >= 0)


def _recorded(job: _Job, proof: Proof) -> tuple[ReplaySetting, Course | None]:
    """Return the recorded settings: as they were, or on a card that is too small for them."""
    recording, room = job.recording, job.room
    if proof.ooms == 0 and room is not None and proof.peak_reserved_bytes > room:
        outcome = _answer(job, recording.conf)
        return msgspec.structs.replace(_setting(outcome), is_recorded=True), outcome.course
    setting = ReplaySetting(
        conf=recording.conf,
        total_memory_bytes=room,
        peak_reserved_bytes=proof.peak_reserved_bytes,
        peak_allocated_bytes=proof.peak_allocated_bytes,
        ran_out_at_event=proof.first_oom_at,
        fragmentation_bytes=proof.peak_reserved_bytes - proof.peak_allocated_bytes,
        is_recorded=True,
    )
    return setting, None if job.moments is None else retrace(recording, job.start, job.moments)


def _setting(outcome: Outcome) -> ReplaySetting:
    return ReplaySetting(
        conf=outcome.conf,
        total_memory_bytes=outcome.total_memory_bytes,
        peak_reserved_bytes=outcome.peak_reserved_bytes,
        peak_allocated_bytes=outcome.peak_allocated_bytes,
        ran_out_at_event=outcome.ran_out_at_event,
        fragmentation_bytes=outcome.peak_reserved_bytes - outcome.peak_allocated_bytes,
        retries=outcome.retries,
    )


def _proof(proof: Proof) -> ReplayProof:
    return ReplayProof(
        allocations=proof.allocations,
        at_recorded_address=proof.at_recorded_address,
        end_state_equal=proof.end_state_equal,
        ooms_reproduced=proof.ooms_reproduced,
        ooms=proof.ooms,
        live_at_start=proof.live_at_start,
        left_track_at=proof.left_track_at,
        reason=proof.reason,
    )


class _Job(msgspec.Struct, frozen=True, kw_only=True):
    """What is the same for every setting."""

    recording: Recording
    start: list[StartSegment]
    room: int | None
    moments: frozenset[int] | None


def _outcomes(job: _Job, confs: Sequence[str], tell: Tell) -> list[Outcome]:
    """Replay each setting, in processes of their own where that pays."""
    workers = min(len(confs), os.cpu_count() or 1)
    parallel = workers > 1 and len(job.recording.events) >= PARALLEL_EVENTS
    run = _in_processes(job, confs) if parallel else (_answer(job, conf) for conf in confs)
    name = f"GPU {job.recording.device}: settings"
    found: dict[str, Outcome] = {}
    tell(0, len(confs), name)
    for outcome in run:
        found[outcome.conf] = outcome
        tell(len(found), len(confs), name)
    return [found[conf] for conf in confs]


def _answer(job: _Job, conf: str) -> Outcome:
    return what_if(job.recording, job.start, conf, job.room, moments=job.moments)


#: In a worker: the job, sent once and not with every setting.
_received: list[_Job] = []


def _receive(job: _Job) -> None:
    _received[:] = [job]


def _answer_received(conf: str) -> Outcome:
    gc.disable()  # the worker ends with its work
    return _answer(_received[0], conf)


def _in_processes(job: _Job, confs: Sequence[str]) -> Iterator[Outcome]:
    # Not fork: threads of libraries may hold locks here.
    context = multiprocessing.get_context("spawn")
    workers = min(len(confs), os.cpu_count() or 1)
    with ProcessPoolExecutor(workers, context, _receive, (job,)) as pool:
        for future in as_completed([pool.submit(_answer_received, conf) for conf in confs]):
            yield future.result()

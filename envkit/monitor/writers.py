"""Where samples go: CSV, JSON Lines, TensorBoard."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Protocol, TextIO

from envkit.errors import UsageError
from envkit.monitor.alarms import Alarm
from envkit.monitor.counters import Sample

_CUDA_COLUMNS: Final = (
    "allocated_bytes",
    "reserved_bytes",
    "free_in_pool_bytes",
    "peak_allocated_bytes",
    "peak_reserved_bytes",
    "retries",
    "ooms",
)
COLUMNS: Final = ("step", "seconds", *_CUDA_COLUMNS, "host_bytes")


class Writer(Protocol):
    """Takes what a monitor sees."""

    def begin(self, about: Mapping[str, Any]) -> None:
        """Say what is monitored."""

    def sample(self, sample: Sample) -> None:
        """Write a sample."""

    def alarm(self, alarm: Alarm) -> None:
        """Write an alarm, where the format has a place for it."""

    def close(self) -> None:
        """End the file."""


class HasScalars(Protocol):
    """What is used of a `torch.utils.tensorboard.SummaryWriter`."""

    def add_scalar(self, tag: str, scalar_value: float, global_step: int) -> None:
        """Write a value."""


def values_of(sample: Sample) -> dict[str, float]:
    """Return what is known of a sample by column; what is not known is not there."""
    values: dict[str, float] = {"step": sample.step, "seconds": round(sample.seconds, 6)}
    if sample.cuda is not None:
        values.update((name, getattr(sample.cuda, name)) for name in _CUDA_COLUMNS)
    if sample.host_bytes is not None:
        values["host_bytes"] = sample.host_bytes
    return values


def file_writer(name: str | os.PathLike[str]) -> Writer:
    """Return the writer that a file name asks for; `{rank}` in it is this process's RANK.

    Raises:
        UsageError: the name ends in neither .csv nor .jsonl, or cannot be written.

    """
    path = ranked(name)
    known: dict[str, Callable[[TextIO], Writer]] = {".csv": _Csv, ".jsonl": _JsonLines}
    if path.suffix not in known:
        message = f"The log {path.name} is neither .csv nor .jsonl."
        raise UsageError(message, next_step="Give it one of these endings.")
    try:
        stream = path.open("w", encoding="utf-8", newline="")
    except (OSError, ValueError) as error:  # ValueError: a name with a NUL
        said = error.strerror if isinstance(error, OSError) else None
        message = f"The log {path.name} cannot be written: {said or error}."
        raise UsageError(message, next_step="Make its folder first, or choose another.") from error
    return known[path.suffix](stream)


def tensorboard_writer(target: str | os.PathLike[str] | HasScalars) -> Writer:
    """Return the writer of scalars into a folder, or into a SummaryWriter that stays the user's.

    Raises:
        UsageError: a folder is named and TensorBoard is not installed.

    """
    if not isinstance(target, str | os.PathLike):
        return _TensorBoard(target, lambda: None)
    own = _summary_writer(ranked(target))
    return _TensorBoard(own, own.close)


def ranked(name: str | os.PathLike[str]) -> Path:
    """Return a path with `{rank}` replaced: torchrun and others number the processes in RANK."""
    return Path(os.fspath(name).replace("{rank}", os.environ.get("RANK", "0")))


class _Csv:
    """A header and one row a sample; a cell is empty where a value is not known."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._rows = csv.DictWriter(stream, COLUMNS, restval="", lineterminator="\n")

    def begin(self, about: Mapping[str, Any]) -> None:
        del about
        self._rows.writeheader()

    def sample(self, sample: Sample) -> None:
        self._rows.writerow(values_of(sample))
        self._stream.flush()  # a run that is killed must not lose what explains it

    def alarm(self, alarm: Alarm) -> None:
        del alarm

    def close(self) -> None:
        self._stream.close()


class _JsonLines:
    """One object a line with `event`: begin, sample, alarm."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def begin(self, about: Mapping[str, Any]) -> None:
        self._write({"event": "begin", **about})

    def sample(self, sample: Sample) -> None:
        self._write({"event": "sample", **values_of(sample)})

    def alarm(self, alarm: Alarm) -> None:
        event = {"event": "alarm", "kind": alarm.kind, "step": alarm.step, "text": alarm.text}
        self._write(event)

    def close(self) -> None:
        self._stream.close()

    def _write(self, event: Mapping[str, Any]) -> None:
        self._stream.write(json.dumps(event) + "\n")
        self._stream.flush()


class _TensorBoard:
    """Scalars under `memory/`."""

    def __init__(self, scalars: HasScalars, close: Callable[[], None]) -> None:
        self._scalars = scalars
        self._close = close

    def begin(self, about: Mapping[str, Any]) -> None:
        del about

    def sample(self, sample: Sample) -> None:
        for name, value in values_of(sample).items():
            if name not in {"step", "seconds"}:
                self._scalars.add_scalar(f"memory/{name}", value, sample.step)

    def alarm(self, alarm: Alarm) -> None:
        del alarm

    def close(self) -> None:
        self._close()


def _summary_writer(folder: Path) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415 (slow, often absent)
    except ImportError as error:
        message = f"TensorBoard's writer cannot be imported: {error}."
        step = "Install it: `pip install tensorboard`, or envkit with its extra `tensorboard`."
        raise UsageError(message, next_step=step) from error
    return SummaryWriter(str(folder))

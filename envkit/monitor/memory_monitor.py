"""The monitor that a training script starts: a sample every few steps, alarms, and the last words.

In a plain loop::

    with MemoryMonitor(every=10, log="memory.csv") as monitor:
        for batch in batches:
            train(batch)
            monitor.step()
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from envkit import __version__
from envkit.allocator.sizes import format_size
from envkit.errors import UsageError
from envkit.monitor import hooks
from envkit.monitor.alarms import Alarm, Watch
from envkit.monitor.counters import CudaMemory, Sample, cuda_in_use, sample, why_no_gpu
from envkit.monitor.history import History
from envkit.monitor.writers import HasScalars, Writer, file_writer, tensorboard_writer

if TYPE_CHECKING:
    from typing_extensions import Self

_LOG: Final = logging.getLogger("envkit.monitor")
#: The sample after which optimizer states and workspaces are there.
_SETTLED: Final = 3
_NEVER_USED: Final = "CUDA was not used in this process"


class MemoryMonitor:
    """Watches the memory of this process during one run; a context manager.

    Args:
        every: steps from one sample to the next.
        log: a file in .csv or .jsonl; `{rank}` in its name is this process's RANK.
        tensorboard: a folder (needs the extra `tensorboard`), or a SummaryWriter.
        history: record torch's memory history meanwhile, so that a leak comes with the line that
            keeps the tensors, and an OOM with what other allocator settings would have needed.
            It takes time at each allocation, and replaces a recording of your own.
        on_oom: folder for the snapshot and the explanation of an out-of-memory error; None: none.
        on_alarm: called with each `Alarm`; without it they are logged as warnings.
        device: index of the GPU as torch counts it; None: the current one.

    An error that passes through is explained if it is one of memory, and raised unchanged.

    Raises:
        UsageError: `every` is less than 1, or the log cannot be written.

    """

    def __init__(  # noqa: PLR0913 (keywords of a public class)
        self,
        *,
        every: int = 10,
        log: str | os.PathLike[str] | None = None,
        tensorboard: str | os.PathLike[str] | HasScalars | None = None,
        history: bool = False,
        on_oom: str | os.PathLike[str] | None = "envkit-oom",
        on_alarm: Callable[[Alarm], None] | None = None,
        device: int | None = None,
    ) -> None:
        if every < 1:
            message = f"MemoryMonitor(every={every}): there is a sample every 1 or more steps."
            raise UsageError(message, next_step="every=10 costs next to nothing.")
        self.steps = 0
        self.alarms: list[Alarm] = []
        self.first: Sample | None = None
        self.last: Sample | None = None
        self._every = every
        self._log = log
        self._tensorboard = tensorboard
        self._on_oom = on_oom
        self._on_alarm = on_alarm or _log_alarm
        self._device = device
        self._history = History(wanted=history)
        self._watch = Watch(self._history.lines_that_grew)
        self._writers: list[Writer] = []
        self._started_s: float | None = None
        self._why_no_gpu = ""
        self._samples = 0
        self._explained: BaseException | None = None

    def start(self) -> None:
        """Open the logs; a second call does nothing."""
        if self._started_s is not None:
            return
        self._started_s = time.monotonic()
        if self._log is not None:
            self._writers.append(file_writer(self._log))
        if self._tensorboard is not None:
            self._writers.append(tensorboard_writer(self._tensorboard))
        self._why_no_gpu = why_no_gpu()
        if self._why_no_gpu:
            text = "No GPU to monitor (%s): only this process's host memory is."
            _LOG.warning(text, self._why_no_gpu)
        about = {"envkit": __version__, "every": self._every, "why_no_gpu": self._why_no_gpu}
        self._write(lambda writer: writer.begin(about))
        if cuda_in_use():
            self._history.start()

    def step(self) -> None:
        """Count a step of the training; takes a sample when it is time for one."""
        self.steps += 1
        if self.steps % self._every == 0:
            self._take()

    def failed(self, error: BaseException) -> None:
        """Explain an error if it is one of memory, and keep the evidence."""
        if error is self._explained or self._on_oom is None:
            return
        self._explained = error
        # Only now: the explanation loads what a run without an error never needs.
        from envkit.monitor.out_of_memory import explained, keep  # noqa: PLC0415

        try:
            found = explained(error)
            if found is None:
                return
            for text in keep(found, self._on_oom, self.steps, with_history=self._history.on):
                _LOG.error("%s", text)
        except Exception:  # noqa: BLE001 (whatever goes wrong must not replace the user's error)
            _LOG.exception("The out-of-memory error could not be explained.")

    def stop(self) -> None:
        """Close the logs; a second call does nothing."""
        self._history.stop()
        while self._writers:
            _close(self._writers.pop())

    def summary(self) -> str:
        """Say in a few lines what was seen."""
        if self.last is None or self.first is None:
            return f"No sample yet: there is one every {self._every} steps."
        lines = [f"{self._samples} samples, steps {self.first.step} to {self.last.step}."]
        if self.last.cuda is None:
            lines.append(f"GPU: not monitored, {self._why_no_gpu or _NEVER_USED}.")
        else:
            lines += _gpu_lines(self.last.cuda)
        if self.last.host_bytes is not None:
            lines.append(f"Host: {format_size(self.last.host_bytes)} resident.")
        slope = self._watch.slope()
        if slope is not None:
            shown = format_size(abs(round(slope)))
            lines.append(f"Slope: {'-' if slope < 0 else ''}{shown} a step over the last samples.")
        return "\n".join([*lines, *(f"{alarm.kind}: {alarm.text}" for alarm in self.alarms)])

    def lightning(self) -> Any:
        """Return a Lightning callback that drives this monitor."""
        return hooks.lightning_callback(self)

    def huggingface(self) -> Any:
        """Return a Hugging Face TrainerCallback that drives this monitor."""
        return hooks.trainer_callback(self)

    def __enter__(self) -> Self:
        """Start."""
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Explain an error of memory, and stop; the error goes on unchanged."""
        del kind, traceback
        if error is not None:
            self.failed(error)
        self.stop()

    def _take(self) -> None:
        self.start()
        seconds = time.monotonic() - (self._started_s or 0.0)
        taken = sample(self.steps, seconds, self._device)
        if taken.cuda is not None:
            self._history.start()
        self._samples += 1
        if self._samples == _SETTLED:
            self._history.remember()
        self.first = self.first or taken
        self.last = taken
        self._write(lambda writer: writer.sample(taken))
        for alarm in self._watch.add(taken):
            self._raise(alarm)

    def _raise(self, alarm: Alarm) -> None:
        self.alarms.append(alarm)
        self._write(lambda writer: writer.alarm(alarm))
        self._on_alarm(alarm)

    def _write(self, write: Callable[[Writer], None]) -> None:
        """Write to every log; one that fails is given up, a full disk must not end a training."""
        self._writers = [writer for writer in self._writers if _written(writer, write)]


def _written(writer: Writer, write: Callable[[Writer], None]) -> bool:
    try:
        write(writer)
    except OSError as error:
        _LOG.warning("A log of the monitor is given up: %s", error.strerror or error)
        _close(writer)
        return False
    return True


def _close(writer: Writer) -> None:
    with contextlib.suppress(OSError):  # what is left to be written has no room
        writer.close()


def _log_alarm(alarm: Alarm) -> None:
    _LOG.warning("step %d: %s", alarm.step, alarm.text)


def _gpu_lines(memory: CudaMemory) -> list[str]:
    now = (
        f"GPU: {format_size(memory.allocated_bytes)} allocated, "
        f"{format_size(memory.reserved_bytes)} reserved, "
        f"{format_size(memory.free_in_pool_bytes)} free in the pool."
    )
    peaks = (
        f"Peaks: {format_size(memory.peak_allocated_bytes)} allocated, "
        f"{format_size(memory.peak_reserved_bytes)} reserved; cache flushes: {memory.retries}; "
        f"out-of-memory errors: {memory.ooms}."
    )
    return [now, peaks]

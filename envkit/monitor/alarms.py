"""When samples of a run give reason to warn: a leak, a fragmented pool, flushes, caught OOMs."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Final, Literal, TypeAlias

import msgspec

from envkit.allocator.sizes import MIB, format_size
from envkit.monitor.counters import CudaMemory, Sample
from envkit.monitor.trend import FEWEST, Trend, trend

Kind: TypeAlias = Literal["leak", "host_leak", "fragmentation", "retries", "caught_oom"]

#: Samples that are looked at together, the newest ones.
WINDOW: Final = 40
#: Looked at once in so many samples: a trend takes time in the square of the window.
CHECK_EVERY: Final = 6
#: Growth over the window that is too little to speak of. The system's count of resident memory
#: moves with caches and libraries that are loaded late.
LEAST_GROWTH_BYTES: Final = MIB
LEAST_HOST_GROWTH_BYTES: Final = 64 * MIB
#: Reserved memory grows by whole segments, of 20 MiB and more for large tensors.
LEAST_RESERVED_GROWTH_BYTES: Final = 64 * MIB
_REPLAY: Final = "`envkit memory replay` of a snapshot says what other settings would need."


class Alarm(msgspec.Struct, frozen=True, kw_only=True):
    """Something about memory that should be looked at."""

    kind: Kind
    step: int
    text: str


class Watch:
    """Keeps the newest samples and raises each kind of alarm once."""

    def __init__(self, lines_that_grew: Callable[[], str]) -> None:
        self._samples: deque[Sample] = deque(maxlen=WINDOW)
        self._raised: set[Kind] = set()
        self._lines_that_grew = lines_that_grew
        self._seen = 0

    def add(self, sample: Sample) -> list[Alarm]:
        """Take a sample; return what it gives reason to warn of."""
        self._samples.append(sample)
        self._seen += 1
        found = [*self._counted()]
        if self._seen >= FEWEST and self._seen % CHECK_EVERY == 0:
            found += self._trends()
        new = [alarm for alarm in found if alarm.kind not in self._raised]
        self._raised.update(alarm.kind for alarm in new)
        return new

    def slope(self) -> float | None:
        """Return how fast the allocated (without a GPU: resident) memory grows, bytes a step."""
        found = trend(self._on_gpu("allocated_bytes") or self._on_host())
        return None if found is None else found.slope

    def _counted(self) -> Iterator[Alarm]:
        if len(self._samples) < 2:  # noqa: PLR2004 (before and after)
            return
        before, after = self._samples[-2].cuda, self._samples[-1].cuda
        if before is None or after is None:
            return
        step = self._samples[-1].step
        if after.retries > before.retries and "retries" not in self._raised:
            yield Alarm(kind="retries", step=step, text=_retried(after))
        if after.ooms > before.ooms and "caught_oom" not in self._raised:
            text = "An out-of-memory error was raised and caught; the counter rose."
            yield Alarm(kind="caught_oom", step=step, text=text)

    def _trends(self) -> Iterator[Alarm]:
        allocated = self._on_gpu("allocated_bytes")
        if allocated:
            yield from self._leak(allocated)
            yield from self._fragmentation()
        else:
            yield from self._host_leak()

    def _leak(self, allocated: list[tuple[int, int]]) -> Iterator[Alarm]:
        found = trend(allocated)
        if "leak" in self._raised or not _grew(allocated, found, LEAST_GROWTH_BYTES):
            return
        text = f"Allocated memory grows by {_rate(found)}: something keeps tensors."
        yield Alarm(
            kind="leak", step=allocated[-1][0], text=f"{text} {self._lines_that_grew()}".rstrip()
        )

    def _host_leak(self) -> Iterator[Alarm]:
        resident = self._on_host()
        found = trend(resident)
        if _grew(resident, found, LEAST_HOST_GROWTH_BYTES):
            text = f"This process's resident memory grows by {_rate(found)}."
            yield Alarm(kind="host_leak", step=resident[-1][0], text=text)

    def _fragmentation(self) -> Iterator[Alarm]:
        reserved = self._on_gpu("reserved_bytes")
        peaks = self._on_gpu("peak_allocated_bytes")
        grown = reserved[-1][1] - reserved[0][1]
        needed = peaks[-1][1] - peaks[0][1]
        if grown < max(LEAST_RESERVED_GROWTH_BYTES, reserved[0][1] // 20) or needed > grown // 4:
            return
        steps = reserved[-1][0] - reserved[0][0]
        yield Alarm(
            kind="fragmentation",
            step=reserved[-1][0],
            text=f"Reserved memory grew by {format_size(grown)} in {steps} steps and the most "
            f"that was allocated by {format_size(max(0, needed))}: the pool fragments. Try "
            f"PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True; {_REPLAY}",
        )

    def _on_gpu(self, name: str) -> list[tuple[int, int]]:
        return [(one.step, getattr(one.cuda, name)) for one in self._samples if one.cuda]

    def _on_host(self) -> list[tuple[int, int]]:
        return [(one.step, one.host_bytes) for one in self._samples if one.host_bytes is not None]


def _grew(points: list[tuple[int, int]], found: Trend | None, least_bytes: int) -> bool:
    """Whether it grows, by enough, and still did in the last quarter."""
    if found is None or not found.grows or points[-1][1] - points[0][1] < least_bytes:
        return False
    return points[-1][1] > points[-1 - len(points) // 4][1]


def _rate(found: Trend | None) -> str:
    return "nothing" if found is None else f"{format_size(round(found.slope))} a step"


def _retried(memory: CudaMemory) -> str:
    times = "once" if memory.retries == 1 else f"{memory.retries} times"
    return (
        f"The driver had no memory left and torch flushed its cache ({times} so far): each flush "
        f"waits for the GPU, and the run is near its limit. {format_size(memory.reserved_bytes)} "
        f"are reserved, {format_size(memory.allocated_bytes)} of them allocated."
    )

"""torch's CUDA caching allocator behind the method names of envkit's model of it.

Memory is taken as uint8 tensors: no kernel and no library is needed, so that nothing but the
exercise allocates. The same calls recorded the 204 H200 traces that the model reproduces.
"""

from __future__ import annotations

from typing import Any, Dict, Set

from ..place import Place, TooFull, Unmet, out_of_memory
from .operations import COUNTERS

#: About 50 ms on an H200: long enough that a stream is still busy when the next operation looks.
SLEEP_CYCLES = 100000000

#: Device memory that must be free beyond what an exercise holds.
SPARE_BYTES = 256 * 1024 * 1024


class DeviceOutOfMemory(RuntimeError):  # noqa: N818  (named for what happened)
    """The allocator said that memory ran out, as the exercise's limit made it."""


class TorchAllocator:
    """The caching allocator of one device.

    Raises TooFull where the device itself has too little memory: what follows would not be the
    exercise.
    """

    def __init__(self, place: Place) -> None:
        self._place = place
        self._cuda = place.torch.cuda
        self._streams: Dict[int, Any] = {0: self._cuda.default_stream(place.index)}
        self._held: Dict[int, Any] = {}
        self._users: Dict[int, Set[int]] = {}
        self._asleep: Set[int] = set()

    def malloc(self, nbytes: int, stream: int = 0) -> int:
        """Allocate on a stream and return the address.

        Raises:
            DeviceOutOfMemory: the memory limit was reached.
            TooFull: the device has too little memory.

        """
        torch, place = self._place.torch, self._place
        try:
            with self._cuda.stream(self._stream(stream)):
                tensor = torch.empty(nbytes, dtype=torch.uint8, device=place.device)
        except RuntimeError as error:
            if not out_of_memory(torch, error):
                raise
            self._must_be_the_limit(nbytes)
            raise DeviceOutOfMemory(str(error)[:200]) from None
        address = int(tensor.data_ptr())
        self._held[address] = tensor
        return address

    def _must_be_the_limit(self, nbytes: int) -> None:
        free = self._place.free_bytes()
        if free < nbytes + SPARE_BYTES:
            text = "the device has {} bytes free: too few to tell its end from the limit's"
            raise TooFull(text.format(free))

    def free(self, address: int) -> None:
        """Drop the tensor; streams that use it are kept busy first."""
        for index in sorted(self._users.pop(address, ())):
            self._keep_busy(index)
        del self._held[address]

    def record_stream(self, address: int, stream: int) -> None:
        """Note that a stream uses the tensor."""
        self._held[address].record_stream(self._stream(stream))
        self._users.setdefault(address, set()).add(stream)

    def _keep_busy(self, index: int) -> None:
        # The event that the free records lies behind this kernel: it is not done until
        # synchronize, as the model has it.
        if index in self._asleep:
            return
        with self._cuda.stream(self._stream(index)):
            done = self._place.api.keep_busy(self._place.torch, SLEEP_CYCLES)
        if isinstance(done, self._place.api.Missing):
            message = "a stream cannot be kept busy: {}".format(done.reason)
            raise Unmet(message)
        self._asleep.add(index)

    def _stream(self, index: int) -> Any:
        if index not in self._streams:
            self._streams[index] = self._cuda.Stream(self._place.index)
        return self._streams[index]

    def synchronize(self) -> None:
        """Wait for all streams."""
        self._cuda.synchronize()
        self._asleep.clear()

    def empty_cache(self) -> None:
        """Return free segments to the driver; torch waits for all streams."""
        self._cuda.empty_cache()
        self._asleep.clear()

    def set_memory_fraction(self, fraction: float) -> None:
        """Limit this process's share of the device.

        Raises:
            Unmet: this torch has no such limit.

        """
        done = self._place.api.set_memory_fraction(self._place.torch, fraction, self._place.index)
        if isinstance(done, self._place.api.Missing):
            message = "the memory fraction cannot be set: {}".format(done.reason)
            raise Unmet(message)

    def reset_peak(self) -> None:
        """Set every peak to its current value."""
        self._cuda.reset_peak_memory_stats(self._place.index)

    def memory_stats(self) -> Dict[str, int]:
        """Return torch's counters."""
        stats: Dict[str, int] = self._cuda.memory_stats(self._place.index)
        return stats

    def start_from_zero(self) -> None:
        """Bring every counter to zero.

        Raises:
            Unmet: one stays.

        """
        self._cuda.synchronize()
        self._cuda.empty_cache()
        self._cuda.reset_peak_memory_stats(self._place.index)
        self._cuda.reset_accumulated_memory_stats(self._place.index)
        stats = self.memory_stats()
        left = ["{} = {}".format(name, stats[name]) for name in COUNTERS if stats.get(name)]
        if left:
            message = "the allocator is not empty before the exercise: " + ", ".join(left[:4])
            raise Unmet(message)

    def release(self) -> None:
        """Drop everything that is still held and lift the limit: whatever happened before."""
        self._held.clear()
        self._users.clear()
        self.synchronize()
        self.empty_cache()

"""A torch whose one CUDA device computes on the CPU and allocates in envkit's model.

It answers the calls that the child's probes make, so that each of their CUDA paths runs without a
GPU. The memory history and the counters come from the operations that torch's dispatcher really
carries out: every new storage is an allocation at its real address and is freed when it dies;
matrix products and convolutions take workspaces besides, as cuBLAS and cuDNN do.
"""

from __future__ import annotations

import contextlib
import types
import weakref
from collections.abc import Iterator
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

GIB = 1 << 30
TOTAL_BYTES = 140 * GIB
CUBLAS_WORKSPACE_BYTES = 33554432
CUDNN_WORKSPACE_BYTES = 1048576
CONTEXT_BYTES = 816644096


class FakeOutOfMemoryError(RuntimeError):
    """torch.OutOfMemoryError."""


class FakeStream:
    """torch.cuda.Stream."""

    def __init__(self, handle: int) -> None:
        self.cuda_stream = handle


class FakeTensor:
    """A uint8 tensor that exists only in the allocator."""

    def __init__(self, device: FakeDevice, nbytes: int) -> None:
        self._device = device
        self._address: int | None = None
        try:
            self._address = device.core.malloc(nbytes, device.stream)
        except device.model.OutOfMemory as error:
            message = "CUDA out of memory. Tried to allocate more than allowed."
            raise FakeOutOfMemoryError(message) from error

    def data_ptr(self) -> int:
        assert self._address is not None
        return self._address

    def record_stream(self, stream: FakeStream) -> None:
        assert self._address is not None
        self._device.core.record_stream(self._address, stream.cuda_stream)

    def __del__(self) -> None:
        if self._address is not None:
            self._device.core.free(self._address)


class FakeDevice:
    """The device's allocator and the history of what it was asked."""

    def __init__(self, model: Any, conf: str = "") -> None:
        self.model = model
        self.core = model.CachingAllocator(conf, total_memory=TOTAL_BYTES)
        self.stream = 0
        self.trace: list[dict[str, Any]] = []
        self.recording: Any = None
        self.kept: list[tuple[int, int]] = []
        self.neighbour_bytes = 0
        self.fraction = 1.0

    def note(self, action: str, address: int, nbytes: int) -> None:
        if self.recording is not None:
            entry = {"action": action, "addr": address, "size": nbytes, "stream": 0}
            self.trace.append(entry)

    def adopt(self, storage: Any) -> None:
        """Allocate what the CPU has just allocated; free it when the storage dies."""
        address, nbytes = storage.data_ptr(), storage.nbytes()
        here = self.malloc(address, nbytes)
        weakref.finalize(storage, self.free, address, here, nbytes)

    def malloc(self, address: int, nbytes: int) -> int:
        before = self.core.memory_stats()["segment.all.current"]
        here: int = self.core.malloc(nbytes)
        if self.core.memory_stats()["segment.all.current"] > before:
            self.note("segment_alloc", address, nbytes)
        self.note("alloc", address, nbytes)
        return here

    def free(self, address: int, here: int, nbytes: int) -> None:
        self.core.free(here)
        self.note("free_requested", address, nbytes)
        self.note("free_completed", address, nbytes)

    def library(self, name: str) -> None:
        """Take the workspaces of an operation."""
        if "convolution" in name:
            address = 1 << 52
            self.free(address, self.malloc(address, CUDNN_WORKSPACE_BYTES), CUDNN_WORKSPACE_BYTES)
        elif "mm" in name and not self.kept:
            address = 1 << 53
            self.kept.append((address, self.malloc(address, CUBLAS_WORKSPACE_BYTES)))

    def clear_workspaces(self) -> None:
        for address, here in self.kept:
            self.free(address, here, CUBLAS_WORKSPACE_BYTES)
        self.kept.clear()


class _Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call, unused-ignore]
    """Sees every operation and lets the device allocate its new storages."""

    def __init__(self, device: FakeDevice) -> None:
        super().__init__()  # type: ignore[no-untyped-call, unused-ignore]
        self._device = device
        self._known: weakref.WeakSet[Any] = weakref.WeakSet()

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(self, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for tensor in _tensors((args, kwargs)):
            self._known.add(tensor.untyped_storage())
        result = func(*args, **(kwargs or {}))
        self._device.library(str(func))
        for tensor in _tensors(result):
            storage = tensor.untyped_storage()
            if storage.nbytes() and storage not in self._known:
                self._known.add(storage)
                self._device.adopt(storage)
        return result


def _tensors(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        for part in value:
            yield from _tensors(part)
    elif hasattr(value, "untyped_storage"):
        yield value


class _Memory:
    """torch.cuda.memory."""

    def __init__(self, device: FakeDevice) -> None:
        self._device = device

    def _record_memory_history(
        self,
        enabled: str | None = "all",
        context: str | None = "all",
        stacks: str = "all",
        max_entries: int = 1 << 60,
    ) -> None:
        del context, stacks, max_entries
        if enabled is None:
            if self._device.recording is not None:
                self._device.recording.__exit__(None, None, None)
            self._device.recording = None
            return
        self._device.trace.clear()
        self._device.recording = _Recorder(self._device)
        self._device.recording.__enter__()

    def _snapshot(self) -> dict[str, Any]:
        return {
            "segments": [],
            "device_traces": [list(self._device.trace)],
            "allocator_settings": {},
        }


class FakeCuda:
    """torch.cuda."""

    OutOfMemoryError = FakeOutOfMemoryError

    def __init__(self, device: FakeDevice) -> None:
        self._device = device
        self._handles = 0x5500
        self.memory = _Memory(device)
        self.backend = "native"
        self.has_bf16 = True

    def is_initialized(self) -> bool:
        return False

    def set_device(self, index: int) -> None:
        assert index == 0

    def synchronize(self) -> None:
        self._device.core.synchronize()

    def empty_cache(self) -> None:
        self._device.core.empty_cache()

    def default_stream(self, _index: int) -> FakeStream:
        return FakeStream(0)

    def Stream(self, _index: int) -> FakeStream:  # noqa: N802  (torch's name)
        self._handles += 0x10
        return FakeStream(self._handles)

    @contextlib.contextmanager
    def stream(self, stream: FakeStream) -> Iterator[None]:
        before, self._device.stream = self._device.stream, stream.cuda_stream
        try:
            yield
        finally:
            self._device.stream = before

    def _sleep(self, cycles: int) -> None:
        assert cycles > 0

    def get_allocator_backend(self) -> str:
        return self.backend

    def is_bf16_supported(self) -> bool:
        return self.has_bf16

    def memory_stats(self, _index: int) -> dict[str, int]:
        return dict(self._device.core.memory_stats())

    def memory_stats_as_nested_dict(self, _index: int) -> Any:
        return self._device.core.memory_stats_nested()

    def memory_allocated(self, _index: int) -> int:
        return int(self._device.core.memory_stats()["allocated_bytes.all.current"])

    def memory_reserved(self, _index: int) -> int:
        return int(self._device.core.memory_stats()["reserved_bytes.all.current"])

    def mem_get_info(self, index: int) -> tuple[int, int]:
        used = self.memory_reserved(index) + CONTEXT_BYTES + self._device.neighbour_bytes
        return TOTAL_BYTES - used, TOTAL_BYTES

    def get_device_properties(self, _index: int) -> Any:
        return types.SimpleNamespace(
            total_memory=TOTAL_BYTES, pci_domain_id=0, pci_bus_id=0xB, pci_device_id=0
        )

    def reset_peak_memory_stats(self, _index: int) -> None:
        self._device.core.reset_peak()

    def reset_accumulated_memory_stats(self, _index: int) -> None:
        self._device.core.reset_accumulated()

    def set_per_process_memory_fraction(self, fraction: float, _index: int) -> None:
        self._device.fraction = fraction
        self._device.core.set_memory_fraction(fraction)

    def get_per_process_memory_fraction(self, _index: int) -> float:
        return self._device.fraction


class FakeTorch:
    """torch: the real one but for what is CUDA's."""

    OutOfMemoryError = FakeOutOfMemoryError

    def __init__(self, real: Any, model: Any, conf: str = "") -> None:
        self._real = real
        self.fake_device = FakeDevice(model, conf)
        self.cuda = FakeCuda(self.fake_device)
        clear = self.fake_device.clear_workspaces
        self._C = types.SimpleNamespace(_cuda_clearCublasWorkspaces=clear)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def device(self, name: str) -> Any:
        return self._real.device("cpu" if name.startswith("cuda") else name)

    def empty(self, nbytes: int, dtype: Any, device: Any) -> FakeTensor:
        assert dtype is self._real.uint8
        assert device.type == "cpu"
        return FakeTensor(self.fake_device, nbytes)

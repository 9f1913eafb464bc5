"""What the measurements of `articles_numbers.py` share: a device, its counters, models, steps."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import torch
from torch.nn import functional

from envkit.probes.child.workloads import resnet, vit
from envkit.probes.child.workloads.optimizers import SGD, Adam

#: One measurement's answer: bytes, seconds, shares and counts by name; None: could not be told.
Figures = dict[str, Any]

_PAGE_BYTES: Final = 4096


class Lab:
    """One device; on the CPU, where torch counts nothing, the counters stay 0."""

    def __init__(self, *, tiny: bool) -> None:
        self.tiny = tiny
        self.is_cuda = torch.cuda.is_available() and not tiny
        self.device = torch.device("cuda" if self.is_cuda else "cpu")
        torch.manual_seed(0)
        if tiny:
            torch.set_num_threads(1)
        if self.is_cuda:
            torch.backends.cudnn.allow_tf32 = False
            torch.backends.cuda.matmul.allow_tf32 = False
            torch.cuda.synchronize()

    def size(self, full: int, tiny: int) -> int:
        """Return how large or how often: the first, or the second where only the code is tried."""
        return tiny if self.tiny else full

    def wait(self) -> None:
        """Wait for everything that was launched."""
        if self.is_cuda:
            torch.cuda.synchronize()

    def clean(self) -> None:
        """Give back what nothing holds, and forget the peaks."""
        gc.collect()
        if self.is_cuda:
            self.wait()
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()

    def counter(self, name: str) -> int:
        """Return a counter of torch's, such as `allocated_bytes.all.peak`."""
        return int(torch.cuda.memory_stats().get(name, 0)) if self.is_cuda else 0

    def allocated(self) -> int:
        """Return the bytes that tensors hold now."""
        return self.counter("allocated_bytes.all.current")

    def reserved(self) -> int:
        """Return the bytes that torch has from the driver now."""
        return self.counter("reserved_bytes.all.current")

    def peaks(self) -> Figures:
        """Return the peaks since `clean`."""
        return {
            "peak_allocated_bytes": self.counter("allocated_bytes.all.peak"),
            "peak_reserved_bytes": self.counter("reserved_bytes.all.peak"),
        }

    def driver_free(self) -> int:
        """Return what the driver has left for anybody."""
        return int(torch.cuda.mem_get_info()[0]) if self.is_cuda else 0

    def resnet(self) -> Any:
        """Return a ResNet-50 on the device."""
        return resnet.ResNet(resnet.SMALL if self.tiny else resnet.R50).to(self.device)

    def vit(self) -> Any:
        """Return a ViT-B/16 on the device."""
        return vit.ViT(vit.TINY if self.tiny else vit.B16).to(self.device)

    def images(self, batch: int, side: int = 224) -> tuple[Any, Any]:
        """Return a batch of images and their classes."""
        side = 32 if self.tiny else side
        images = torch.randn(batch, 3, side, side, device=self.device)
        return images, torch.randint(0, self.size(1000, 10), (batch,), device=self.device)

    def loss(self, model: Any, batch: tuple[Any, Any], *, autocast: bool = False) -> Any:
        """Return the loss of a batch, under bfloat16 autocast if asked for."""
        with torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=autocast):
            return functional.cross_entropy(model(batch[0]), batch[1])

    def step(
        self, model: Any, optimizer: Any, batch: tuple[Any, Any], *, autocast: bool = False
    ) -> None:
        """Train one step."""
        self.loss(model, batch, autocast=autocast).backward()
        optimizer.step()
        optimizer.drop_gradients()

    def seconds(self, work: Callable[[], Any], repeats: int) -> float:
        """Return the time of one call: the median of so many, after one that is not counted."""
        work()
        times = []
        for _ in range(repeats):
            self.wait()
            start = time.perf_counter()
            work()
            self.wait()
            times.append(time.perf_counter() - start)
        return sorted(times)[len(times) // 2]


def adam(model: Any) -> Any:
    """Return Adam over the model's parameters."""
    return Adam(model.parameters())


def sgd(model: Any) -> Any:
    """Return SGD with momentum over the model's parameters."""
    return SGD(model.parameters())


def share(part: float, whole: float) -> float | None:
    """Return a ratio; None where there is nothing to compare with."""
    return part / whole if whole else None


def saved(after: float, before: float) -> float | None:
    """Return which share of `before` is saved; None where there is nothing to compare with."""
    return 1 - after / before if before else None


def host_bytes() -> int:
    """Return the memory of this process that is in RAM (Linux)."""
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * _PAGE_BYTES

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from envkit.errors import CannotCheckError
from envkit.monitor import gpu_memory_used_bytes, print_gpu_utilization

MIB = 1 << 20


class FakeNvmlError(Exception):
    pass


class Nvml(ModuleType):
    """Two GPUs: GPU-a has 1000 MiB in use, GPU-b 2000 MiB."""

    NVMLError = FakeNvmlError

    def __init__(self) -> None:
        super().__init__("pynvml")
        self.open = 0

    def nvmlInit(self) -> None:  # noqa: N802
        self.open += 1

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.open -= 1

    def nvmlDeviceGetHandleByIndex(self, index: int) -> str:  # noqa: N802
        if index > 1:
            message = "Invalid Argument"
            raise FakeNvmlError(message)
        return "GPU-" + "ab"[index]

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:  # noqa: N802
        return uuid

    def nvmlDeviceGetMemoryInfo(self, handle: str) -> Any:  # noqa: N802
        return SimpleNamespace(used={"GPU-a": 1000, "GPU-b": 2000}[handle] * MIB + 5)


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> Nvml:
    fake = Nvml()
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return fake


def test_it_prints_the_line_of_the_tutorials(
    nvml: Nvml, capsys: pytest.CaptureFixture[str]
) -> None:
    print_gpu_utilization()
    assert capsys.readouterr().out == "GPU memory occupied: 1000 MB.\n"
    assert nvml.open == 0


@pytest.mark.parametrize("visible", ["1,0", "GPU-b"])
def test_the_index_is_that_of_the_visible_gpus(
    nvml: Nvml, monkeypatch: pytest.MonkeyPatch, visible: str
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert gpu_memory_used_bytes() == 2000 * MIB + 5
    with pytest.raises(CannotCheckError, match="shows no GPU 2"):
        gpu_memory_used_bytes(2)
    assert nvml.open == 0


def test_torch_says_which_gpu_it_uses(nvml: Nvml, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(
        torch.cuda, "get_device_properties", lambda _index: SimpleNamespace(uuid="b")
    )
    assert gpu_memory_used_bytes() == 2000 * MIB + 5
    assert nvml.open == 0


def test_without_a_gpu_it_says_so(nvml: Nvml, capsys: pytest.CaptureFixture[str]) -> None:
    print_gpu_utilization(7)
    said = "GPU memory occupied: not known. NVML says: Invalid Argument.\n"
    assert capsys.readouterr().out == said
    assert nvml.open == 0


def test_without_the_binding_it_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    print_gpu_utilization()
    assert capsys.readouterr().out.startswith("GPU memory occupied: not known. ")

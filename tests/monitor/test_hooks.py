"""The callbacks, on stubs of the packages' base classes and, where they are installed, on them."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from types import ModuleType
from typing import Any

import pytest
import torch
from counted_gpu import MESSAGE

from envkit.errors import UsageError
from envkit.monitor import MemoryMonitor
from envkit.monitor.hooks import lightning_callback, trainer_callback


class Recorder:
    """Stands for a monitor."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def start(self) -> None:
        self.calls.append("start")

    def step(self) -> None:
        self.calls.append("step")

    def failed(self, error: BaseException) -> None:
        self.calls.append(f"failed {type(error).__name__}")

    def stop(self) -> None:
        self.calls.append("stop")


def stub(patch: pytest.MonkeyPatch, name: str, base: str) -> type:
    module = ModuleType(name)
    made = type(base, (), {})
    setattr(module, base, made)
    patch.setitem(sys.modules, name, module)
    return made


def test_lightning_hooks_drive_the_monitor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lightning.pytorch", None)
    base = stub(monkeypatch, "pytorch_lightning", "Callback")
    recorder = Recorder()
    callback: Any = lightning_callback(recorder)
    assert base in type(callback).__mro__
    callback.on_train_start("trainer", "module")
    callback.on_train_batch_end("trainer", "module", {"loss": 1}, "batch", 0)
    callback.on_exception("trainer", "module", KeyError("x"))
    callback.on_train_end("trainer", "module")
    assert recorder.calls == ["start", "step", "failed KeyError", "stop", "stop"]


def test_trainer_hooks_drive_the_monitor(monkeypatch: pytest.MonkeyPatch) -> None:
    base = stub(monkeypatch, "transformers", "TrainerCallback")
    recorder = Recorder()
    callback: Any = trainer_callback(recorder)
    assert base in type(callback).__mro__
    callback.on_train_begin("args", "state", "control", model="model")
    callback.on_step_end("args", "state", "control", model="model")
    callback.on_train_end("args", "state", "control", model="model")
    assert recorder.calls == ["start", "step", "stop"]


def test_a_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(UsageError, match="transformers is not installed"):
        MemoryMonitor().huggingface()


def _installed(*names: str) -> ModuleType:
    for name in names:
        if importlib.util.find_spec(name.partition(".")[0]) is not None:
            return importlib.import_module(name)
    pytest.skip(f"{' or '.join(names)} is not installed")


@pytest.mark.filterwarnings("ignore")
def test_a_real_lightning_trainer_calls_them(tmp_path: Any) -> None:
    package = _installed("lightning.pytorch", "pytorch_lightning")

    class Module(package.LightningModule):  # type: ignore[misc, name-defined]
        def __init__(self, *, fails: bool) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(2, 1)
            self.fails = fails

        def training_step(self, batch: Any, index: int) -> Any:
            if self.fails and index == 2:
                raise torch.OutOfMemoryError(MESSAGE)
            return self.layer(batch).mean()

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    samples: Any = [torch.zeros(2)] * 4

    def fit(monitor: MemoryMonitor, *, fails: bool) -> None:
        trainer = package.Trainer(
            max_epochs=1,
            accelerator="cpu",
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            default_root_dir=tmp_path,
            callbacks=[monitor.lightning()],
        )
        trainer.fit(Module(fails=fails), torch.utils.data.DataLoader(samples))

    monitor = MemoryMonitor(every=2, log=tmp_path / "memory.csv", on_oom=tmp_path)
    fit(monitor, fails=False)
    assert monitor.steps == 4
    assert len((tmp_path / "memory.csv").read_text().splitlines()) == 3
    with pytest.raises(torch.OutOfMemoryError):
        fit(MemoryMonitor(on_oom=tmp_path), fails=True)
    assert (tmp_path / "explanation-step2-rank0.txt").exists()


@pytest.mark.filterwarnings("ignore")
def test_a_real_trainer_calls_them(tmp_path: Any) -> None:
    transformers = _installed("transformers")
    _installed("accelerate")

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(2, 1)

        def forward(self, x: Any) -> Any:
            return {"loss": self.layer(x).mean()}

    arguments = transformers.TrainingArguments(
        output_dir=str(tmp_path),
        max_steps=4,
        report_to=[],
        use_cpu=True,
        save_strategy="no",
        disable_tqdm=True,
        per_device_train_batch_size=1,
    )
    monitor = MemoryMonitor(every=2, log=tmp_path / "memory.csv")
    rows = [{"x": torch.zeros(2)} for _ in range(8)]
    trainer = transformers.Trainer(
        model=Model(), args=arguments, train_dataset=rows, callbacks=[monitor.huggingface()]
    )
    trainer.train()
    assert monitor.steps == 4
    assert len((tmp_path / "memory.csv").read_text().splitlines()) == 3

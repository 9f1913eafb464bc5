"""Callbacks of Lightning and of Hugging Face's Trainer that drive a monitor.

Both packages are imported only when their callback is asked for. The hooks and their arguments are
those of Lightning 2 and transformers 4 and 5.
"""

from __future__ import annotations

import contextlib
import importlib
from types import ModuleType
from typing import Any, Protocol

from envkit.errors import UsageError


class Monitored(Protocol):
    """What a callback needs of a monitor."""

    def start(self) -> None:
        """Open the logs."""

    def step(self) -> None:
        """Count a step."""

    def failed(self, error: BaseException) -> None:
        """Explain an error."""

    def stop(self) -> None:
        """Close the logs."""


def lightning_callback(monitor: Monitored) -> Any:
    """Return a `Callback`: a step is a batch.

    Raises:
        UsageError: Lightning is not installed.

    """
    base = _module("lightning.pytorch", "pytorch_lightning").Callback

    class LightningMemory(base):  # type: ignore[misc, valid-type]  # known only at run time
        def on_train_start(self, _trainer: Any, _module: Any) -> None:
            monitor.start()

        def on_train_batch_end(self, *_trainer_module_outputs_batch_index: Any) -> None:
            monitor.step()

        def on_exception(self, _trainer: Any, _module: Any, exception: BaseException) -> None:
            monitor.failed(exception)
            monitor.stop()

        def on_train_end(self, _trainer: Any, _module: Any) -> None:
            monitor.stop()

    return LightningMemory()


def trainer_callback(monitor: Monitored) -> Any:
    """Return a `TrainerCallback`: a step is an update of the weights.

    The Trainer tells its callbacks of no error: put `trainer.train()` into `with monitor:` too.

    Raises:
        UsageError: transformers is not installed.

    """
    base = _module("transformers").TrainerCallback

    class TrainerMemory(base):  # type: ignore[misc, valid-type]  # known only at run time
        def on_train_begin(self, _args: Any, _state: Any, _control: Any, **_: Any) -> None:
            monitor.start()

        def on_step_end(self, _args: Any, _state: Any, _control: Any, **_: Any) -> None:
            monitor.step()

        def on_train_end(self, _args: Any, _state: Any, _control: Any, **_: Any) -> None:
            monitor.stop()

    return TrainerMemory()


def _module(*names: str) -> ModuleType:
    for name in names:
        with contextlib.suppress(ModuleNotFoundError):
            return importlib.import_module(name)
    message = f"{' or '.join(names)} is not installed here."
    raise UsageError(message, next_step="Install it, or call `monitor.step()` in your own loop.")

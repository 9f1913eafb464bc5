"""Training steps whose every input is fixed by a seed: what a workload is made of.

    with without_collector():
        training = Training(place, RECIPES["gpt-small"], Options(batch=4), seed=1)
        for _ in range(2):
            training.step()
        print(training.loss.item())

The probes of the suites, and whatever else measures a step, run exactly this.
"""

from __future__ import annotations

import contextlib
import gc
from typing import Any, Callable, Iterator

import torch

from ..place import Place
from .options import FP16, Options, gradient_scaler
from .recipes import Recipe


@contextlib.contextmanager
def without_collector() -> Iterator[None]:
    """Keep Python's garbage collector from running meanwhile.

    When it runs depends on what the process did before, and it would free tensors at that moment.
    """
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class Training:
    """A model on a device with its optimizer, to be trained step by step on random samples.

    Check `options.must_support(place, options)` first.
    """

    def __init__(self, place: Place, recipe: Recipe, options: Options, seed: int) -> None:
        self.options = options
        self.place = place
        self._recipe = recipe
        place.torch.manual_seed(seed)
        self.model = _on_device(place, recipe.build)
        if options.channels_last:
            self.model.to(memory_format=torch.channels_last)
        if options.checkpointing:
            _checkpoint(getattr(self.model, recipe.blocks))
        self.call: Callable[[Any], Any] = self.model
        """What runs the forward pass; a compiled model may take the model's place."""
        self.optimizer = recipe.optimizer(self.model.parameters())
        self.loss: Any = None
        """The last loss, a scalar. It lives until the next one is there, as in a user's loop."""
        self._scaler = gradient_scaler(place) if options.autocast == FP16 else None

    def step(self, *, retain_graph: bool = False) -> None:
        """Train on `batch * accumulation` new samples."""
        self.accumulate(retain_graph=retain_graph)
        self.update()
        self.drop_gradients()

    def accumulate(self, samples: Any = None, *, retain_graph: bool = False) -> None:
        """Add the gradients of `batch * accumulation` samples to those that are there."""
        for _ in range(self.options.accumulation):
            self.loss = self.forward(samples)
            self._backward(retain_graph)

    def forward(self, samples: Any = None) -> Any:
        """Return the loss of samples; none given: of a new batch."""
        inputs, targets = self.draw() if samples is None else samples
        with self._autocast():
            return self._recipe.loss(self.call(inputs), targets)

    def infer(self, samples: Any = None) -> Any:
        """Return the model's outputs for samples (none given: a new batch), without gradients."""
        inputs, _ = self.draw() if samples is None else samples
        with torch.no_grad(), self._autocast():
            return self.call(inputs)

    def draw(self) -> Any:
        """Draw a batch: inputs and targets."""
        inputs, targets = self._recipe.draw(self.place.torch, self.place.device, self.options.batch)
        if self.options.channels_last:
            inputs = inputs.contiguous(memory_format=torch.channels_last)
        return inputs, targets

    def _autocast(self) -> Any:
        dtype = self.options.dtype(torch)
        # What is not enabled still wants a dtype that autocast can have.
        return torch.autocast(
            self.place.device.type, dtype=dtype or torch.bfloat16, enabled=dtype is not None
        )

    def update(self) -> None:
        """Update the parameters by their gradients."""
        if self._scaler is None:
            self.optimizer.step()
            return
        self._scaler.step(self.optimizer)
        self._scaler.update()

    def drop_gradients(self) -> None:
        """Forget the gradients, as the options say."""
        self.optimizer.drop_gradients(set_to_none=self.options.set_to_none)

    def _backward(self, retain_graph: bool) -> None:  # noqa: FBT001  (private)
        loss = self.loss
        if self.options.accumulation > 1:
            loss = loss / self.options.accumulation
        if self._scaler is not None:
            loss = self._scaler.scale(loss)
        loss.backward(retain_graph=retain_graph)


def _on_device(place: Place, build: Callable[[], Any]) -> Any:
    # A device as a context manager came with torch 2.0; before, the CPU's random numbers are used.
    if hasattr(place.device, "__enter__"):
        with place.device:
            return build()
    return build().to(place.device)


def _checkpoint(blocks: Any) -> None:
    """Let every block keep its input alone and run again in the backward pass."""
    from torch.utils.checkpoint import checkpoint

    for block in blocks:
        # Nothing here draws random numbers, so there is no state of them to keep.
        block.forward = _again(checkpoint, block.forward)


def _again(checkpoint: Callable[..., Any], forward: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: checkpoint(forward, x, use_reentrant=False, preserve_rng_state=False)

"""A workload's training as a strategy changes it; every strategy trains on the same samples."""

from __future__ import annotations

import importlib
from typing import Any, Callable, Dict, List

import torch

from ..place import Place, Unmet
from ..workloads.optimizers import TorchOptimizer, torch_adamw
from ..workloads.options import Options, must_support
from ..workloads.recipes import RECIPES, Recipe
from ..workloads.training import Training

#: Shares of the batch that a training whose batches change takes in turn.
SHARES = (1.0, 0.5, 0.75, 0.25, 0.875, 0.625)

#: Where the 8-bit AdamW is: package to the modules that have had it, newest first, and its name.
_EIGHT_BIT = {
    "bitsandbytes": (("bitsandbytes.optim",), "AdamW8bit"),
    "torchao": (("torchao.optim", "torchao.prototype.low_bit_optim"), "AdamW8bit"),
}


class Changed(Training):
    """A training under the changes of a strategy: `args` has `workload`, `changes` and `seed`.

    Raises:
        Unmet: the changes make no sense for this workload, device or environment.

    """

    def __init__(self, place: Place, args: Dict[str, Any], batch: int) -> None:
        changes = args["changes"]
        recipe = _recipe(RECIPES[args["workload"]], changes)
        options = _options(args["workload"], batch, changes)
        must_support(place, options)
        self._batch = batch
        self._changing = bool(changes.get("changing"))
        self._parts: List[Any] = []
        self._steps = 0
        self.losses: List[Any] = []
        """Of the parts of the last step."""
        super().__init__(place, recipe, options, args["seed"])
        if changes.get("compile"):
            self.call = torch.compile(self.model)

    def step(self, *, retain_graph: bool = False) -> None:
        """Train on one batch, in parts where gradients are accumulated."""
        self.losses = []
        if self._changing:
            share = SHARES[self._steps % len(SHARES)]
            self.options = self.options._replace(batch=max(1, int(self._batch * share)))
        self._steps += 1
        super().step(retain_graph=retain_graph)

    def forward(self, samples: Any = None) -> Any:
        """Return the loss of a part."""
        loss = super().forward(samples)
        self.losses.append(loss.detach())
        return loss

    def draw(self) -> Any:
        """Return the next part of the batch: accumulation sees the samples of the whole one."""
        if not self._parts:
            inputs, targets = super().draw()
            count = self.options.accumulation
            self._parts = list(zip(inputs.tensor_split(count), targets.tensor_split(count)))
        return self._parts.pop(0)

    def predict(self, *, gradients: bool) -> Any:
        """Return the model's outputs for a batch, with or without what a backward pass needs."""
        samples = self.draw()
        if not gradients:
            return self.infer(samples)
        with self._autocast():
            return self.call(samples[0])

    def loss_value(self) -> float:
        """Return the loss of the last step: the mean over its parts."""
        return float(sum(loss.item() for loss in self.losses) / len(self.losses))


def _options(workload: str, batch: int, changes: Dict[str, Any]) -> Options:
    if changes.get("channels_last") and "gpt" in workload:
        message = "there are no channels in a text model"
        raise Unmet(message)
    accumulation = _parts_of(batch, changes.get("accumulation", 1))
    return Options(
        batch=batch,
        accumulation=accumulation,
        autocast=changes.get("autocast", "fp32"),
        checkpointing=changes.get("checkpointing", False),
        channels_last=changes.get("channels_last", False),
        set_to_none=changes.get("set_to_none", True),
    )


def _parts_of(batch: int, wanted: int) -> int:
    """Return the largest number of equal parts up to the wanted one."""
    if wanted == 1:
        return 1
    found = max(count for count in range(1, wanted + 1) if batch % count == 0)
    if found == 1:
        message = "a batch of {} has no equal parts".format(batch)
        raise Unmet(message)
    return found


def _recipe(recipe: Recipe, changes: Dict[str, Any]) -> Recipe:
    name = changes.get("optimizer")
    if name is None:
        return recipe
    return recipe._replace(optimizer=torch_adamw if name == "adamw" else _eight_bit(name))


def _eight_bit(package: str) -> Callable[[Any], Any]:
    """Return what makes the 8-bit optimizer of a package of the target's."""
    modules, name = _EIGHT_BIT[package]
    for module in modules:
        try:
            found = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError):
            continue
        return lambda parameters: TorchOptimizer(found(list(parameters), lr=1e-4))
    message = "{} is not installed in this environment".format(package)
    raise Unmet(message)

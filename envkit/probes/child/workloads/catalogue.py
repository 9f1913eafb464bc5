"""The workloads of the suites: recipe, options and procedure, on each kind of device."""

from __future__ import annotations

from typing import Dict, NamedTuple, Optional

from ..place import Place
from .extensions import compiled, graphed, quantised
from .options import BF16, FP16, Options
from .procedures import Bits, Mark, Procedure, grow, infer, leak, move, train
from .recipes import RECIPES
from .training import Training, without_collector


class Workload(NamedTuple):
    """A name of `RECIPES`, how it is run, and what is done with it."""

    recipe: str
    options: Options
    procedure: Procedure = train
    splits: bool = True
    """Whether torch's dispatcher sees its tensors, so that they can be told from workspaces."""


class _Kinds(NamedTuple):
    """A workload on both kinds of device; what differs is the recipe and the batch."""

    cuda: str
    cpu: str
    batch: int
    options: Options
    procedure: Procedure = train
    cpu_batch: Optional[int] = None
    splits: bool = True

    def on(self, kind: str) -> Workload:
        batch = self.batch if self.cpu_batch is None or kind != "cpu" else self.cpu_batch
        options = self.options._replace(batch=batch)
        recipe = self.cpu if kind == "cpu" else self.cuda
        return Workload(recipe, options, self.procedure, self.splits)


_FP32, _BF16, _FP16 = Options(0), Options(0, BF16), Options(0, FP16)
_AGAIN = _BF16._replace(checkpointing=True)
_QUARTERS = _BF16._replace(accumulation=4)
_LAST = _BF16._replace(channels_last=True)

_VIT, _RESNET, _GPT = (
    ("vit-b16", "vit-tiny"),
    ("resnet50", "resnet-tiny"),
    ("gpt-small", "gpt-tiny"),
)
_MINI_VIT, _MINI_RESNET = ("vit-mini", "vit-tiny"), ("resnet-mini", "resnet-tiny")
_MINI_GPT = ("gpt-mini", "gpt-tiny")

#: By name. Batches of the first block are such that a child should stay under 3 GB of device
#: memory with its context (expected from the sizes of weights, gradients, optimizer state and
#: 0.113 GiB of activations for each image of ViT-B/16, FINGERPRINT.md).
_ALL: Dict[str, _Kinds] = {
    "vit.fp32": _Kinds(*_VIT, 4, _FP32),
    "vit.bf16": _Kinds(*_VIT, 4, _BF16),
    "resnet.fp32": _Kinds(*_RESNET, 8, _FP32, cpu_batch=2),
    "resnet.bf16": _Kinds(*_RESNET, 8, _BF16, cpu_batch=2),
    "gpt.fp32": _Kinds(*_GPT, 2, _FP32),
    "gpt.bf16": _Kinds(*_GPT, 4, _BF16),
    # What an option does is the same for a small model.
    "options.fp16": _Kinds(*_MINI_GPT, 4, _FP16),
    "options.accumulation": _Kinds(*_MINI_GPT, 1, _QUARTERS),
    "options.checkpointing": _Kinds(*_MINI_GPT, 4, _AGAIN),
    "options.zeroed_gradients": _Kinds(*_MINI_GPT, 4, _BF16._replace(set_to_none=False)),
    "options.channels_last": _Kinds(*_MINI_RESNET, 4, _LAST),
    "options.inference": _Kinds(*_MINI_VIT, 4, _BF16, infer),
    "lifetimes.leak": _Kinds(*_MINI_GPT, 4, _BF16, leak),
    "lifetimes.optimizer": _Kinds(*_MINI_GPT, 4, _BF16, grow),
    "lifetimes.moved": _Kinds(*_MINI_VIT, 4, _BF16, move),
    # The full suite's.
    "vit.fp16": _Kinds(*_VIT, 4, _FP16),
    "vit.accumulation": _Kinds(*_VIT, 1, _QUARTERS),
    "vit.checkpointing": _Kinds(*_VIT, 4, _AGAIN),
    "resnet.fp16": _Kinds(*_RESNET, 8, _FP16, cpu_batch=2),
    "resnet.channels_last": _Kinds(*_RESNET, 8, _LAST, cpu_batch=2),
    "gpt.fp16": _Kinds(*_GPT, 4, _FP16),
    "gpt.checkpointing": _Kinds(*_GPT, 4, _AGAIN),
    "large.vit": _Kinds(*_VIT, 16, _BF16),
    "large.resnet": _Kinds(*_RESNET, 32, _FP32, cpu_batch=8),
    "large.gpt": _Kinds(*_GPT, 16, _BF16),
    "compiled.gpt": _Kinds(*_MINI_GPT, 4, _BF16, compiled, splits=False),
    "graphs.gpt": _Kinds(*_MINI_GPT, 4, _BF16, graphed, splits=False),
    "quantised.vit": _Kinds(*_MINI_VIT, 4, _BF16, quantised, splits=False),
}

#: Device kind to workload name to workload.
WORKLOADS: Dict[str, Dict[str, Workload]] = {
    kind: {name: kinds.on(kind) for name, kinds in _ALL.items()} for kind in ("cpu", "cuda")
}


def carry_out(place: Place, workload: Workload, seed: int, mark: Mark) -> Bits:
    """Build the model and do with it what the workload says."""
    with without_collector():
        training = Training(place, RECIPES[workload.recipe], workload.options, seed)
        return workload.procedure(training, mark)

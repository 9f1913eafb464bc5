"""The workloads of the suites: which recipe, under which options, on which kind of device."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple

from .. import digests
from ..place import Place
from .options import BF16, Options
from .recipes import RECIPES
from .training import Training, without_collector

STEPS = 2


class Workload(NamedTuple):
    """A name of `RECIPES`, and the options."""

    recipe: str
    options: Options


class Outcome(NamedTuple):
    """What a run gave besides its memory behaviour."""

    losses: List[str]
    """Exact value of the loss of every step."""
    model: Any
    """Kept so that its weights can be hashed once recording is over."""

    def weights(self) -> Dict[str, Any]:
        """Return one SHA-256 over all weights and buffers in the model's order."""
        state = self.model.state_dict()
        return {"sha256": digests.of_tensors(state.values()), "tensors": len(state)}


def _by_kind(cuda: str, cpu: str, on_cuda: Options, on_cpu: Options) -> Dict[str, Workload]:
    return {"cuda": Workload(cuda, on_cuda), "cpu": Workload(cpu, on_cpu)}


#: Workload name to device kind to workload. Batches are such that a child should stay under 3 GB
#: of device memory with its context (expected from the sizes of weights, gradients, optimizer
#: state and 0.113 GiB of activations for each image of ViT-B/16, FINGERPRINT.md).
_ALL = {
    "vit.fp32": _by_kind("vit-b16", "vit-tiny", Options(4), Options(4)),
    "vit.bf16": _by_kind("vit-b16", "vit-tiny", Options(4, BF16), Options(4, BF16)),
    "resnet.fp32": _by_kind("resnet50", "resnet-tiny", Options(8), Options(2)),
    "resnet.bf16": _by_kind("resnet50", "resnet-tiny", Options(8, BF16), Options(2, BF16)),
    "gpt.bf16": _by_kind("gpt-small", "gpt-tiny", Options(4, BF16), Options(4, BF16)),
}

#: Device kind to workload name to workload.
WORKLOADS: Dict[str, Dict[str, Workload]] = {
    kind: {name: kinds[kind] for name, kinds in _ALL.items()} for kind in ("cpu", "cuda")
}


def train(place: Place, workload: Workload, seed: int) -> Outcome:
    """Build the model and train it for STEPS steps."""
    with without_collector():
        training = Training(place, RECIPES[workload.recipe], workload.options, seed)
        losses = []
        for _ in range(STEPS):
            training.step()
            losses.append(digests.of_float(training.loss.item()))
        return Outcome(losses, training.model)

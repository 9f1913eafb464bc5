"""Training steps whose every input is fixed by a seed, and what they leave behind."""

from __future__ import annotations

import gc
from typing import Any, Callable, Dict, List, NamedTuple

import torch
from torch.nn import functional

from .. import digests
from ..place import Place, Unmet
from . import resnet, vit
from .optimizers import SGD, Adam

STEPS = 2


class Workload(NamedTuple):
    """A model and how it is trained."""

    build: Callable[[], Any]
    """Makes the model, on the default device, from torch's random numbers."""
    optimizer: Callable[[Any], Any]
    image: int
    classes: int
    batch: int
    autocast: bool
    """Whether the forward pass and the loss run under bfloat16 autocast."""


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


def _vit(shape: vit.Shape, batch: int, *, autocast: bool) -> Workload:
    return Workload(lambda: vit.ViT(shape), Adam, shape.image, shape.classes, batch, autocast)


def _resnet(shape: resnet.Shape, batch: int, *, autocast: bool) -> Workload:
    return Workload(lambda: resnet.ResNet(shape), SGD, shape.image, shape.classes, batch, autocast)


#: Device kind to workload name to workload. Batches are such that a child should stay under 3 GB
#: of device memory with its context (expected from the sizes of weights, gradients, optimizer
#: state and 0.113 GiB of activations for each image of ViT-B/16, FINGERPRINT.md).
WORKLOADS: Dict[str, Dict[str, Workload]] = {
    "cuda": {
        "vit.fp32": _vit(vit.B16, 4, autocast=False),
        "vit.bf16": _vit(vit.B16, 4, autocast=True),
        "resnet.fp32": _resnet(resnet.R50, 8, autocast=False),
        "resnet.bf16": _resnet(resnet.R50, 8, autocast=True),
    },
    "cpu": {
        "vit.fp32": _vit(vit.TINY, 4, autocast=False),
        "vit.bf16": _vit(vit.TINY, 4, autocast=True),
        "resnet.fp32": _resnet(resnet.SMALL, 2, autocast=False),
        "resnet.bf16": _resnet(resnet.SMALL, 2, autocast=True),
    },
}


def must_support(place: Place, workload: Workload) -> None:
    """Check that the device can do what the workload asks.

    Raises:
        Unmet: bfloat16 is wanted and this GPU has none.

    """
    if workload.autocast and place.is_cuda:
        supported = place.api.call(place.torch, "cuda.is_bf16_supported")
        if supported is not True:
            message = "torch says that {} has no bfloat16".format(place.name)
            raise Unmet(message)


def train(place: Place, workload: Workload, seed: int) -> Outcome:
    """Build the model and train it for STEPS steps.

    Python's garbage collector is off meanwhile: when it runs depends on what the process did
    before, and it would free tensors at that moment.
    """
    gc.collect()
    gc.disable()
    try:
        place.torch.manual_seed(seed)
        model = _on_device(place, workload.build)
        return _steps(place, workload, model)
    finally:
        gc.enable()


def _steps(place: Place, workload: Workload, model: Any) -> Outcome:
    optimizer = workload.optimizer(model.parameters())
    losses = []
    for _ in range(STEPS):
        loss = _loss(place, workload, model)
        loss.backward()
        optimizer.step()
        optimizer.drop_gradients()
        losses.append(digests.of_float(loss.item()))
    return Outcome(losses, model)


def _loss(place: Place, workload: Workload, model: Any) -> Any:
    size = (workload.batch, 3, workload.image, workload.image)
    images = place.torch.randn(size, device=place.device)
    labels = place.torch.randint(0, workload.classes, (workload.batch,), device=place.device)
    with torch.autocast(place.device.type, dtype=torch.bfloat16, enabled=workload.autocast):
        return functional.cross_entropy(model(images), labels)


def _on_device(place: Place, build: Callable[[], Any]) -> Any:
    # A device as a context manager came with torch 2.0; before, the CPU's random numbers are used.
    if hasattr(place.device, "__enter__"):
        with place.device:
            return build()
    return build().to(place.device)

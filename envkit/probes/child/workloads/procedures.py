"""What is done with a Training while it is recorded, and the bits that it leaves behind."""

from __future__ import annotations

from typing import Any, Callable, Dict, List

import torch

from .. import digests
from .training import Training

STEPS = 2

#: One step more than is needed to see that every step leaves the same behind.
LEAKING_STEPS = 3

#: Called with a name at a moment at which what is held is asked for.
Mark = Callable[[str], None]

#: Part of a workload -> what gives its values, called once the recording is over.
Bits = Dict[str, Callable[[], Dict[str, Any]]]

Procedure = Callable[[Training, Mark], Bits]


def train(training: Training, _mark: Mark) -> Bits:
    """Train for STEPS steps."""
    losses: List[str] = []
    for _ in range(STEPS):
        training.step()
        losses.append(digests.of_float(training.loss.item()))
    return trained(training.model, losses)


def trained(model: Any, losses: List[str]) -> Bits:
    """Return the bits of a training; they keep the model alone, not what trained it."""
    return {"losses": lambda: {"losses": losses}, "weights": lambda: _weights(model)}


def _weights(model: Any) -> Dict[str, Any]:
    """Return one SHA-256 over all weights and buffers in the model's order, still in the making."""
    state = model.state_dict()
    return {"sha256": digests.Hashing(state.values()), "tensors": len(state)}


def infer(training: Training, _mark: Mark) -> Bits:
    """Infer STEPS batches without gradients."""
    training.model.eval()
    for _ in range(STEPS):
        outputs = training.infer()
    return {"outputs": lambda: digests.of_tensor(outputs)}


def leak(training: Training, mark: Mark) -> Bits:
    """Train with graphs that are retained, and keep every loss: each holds its graph."""
    kept = []
    mark("before")
    for number in range(1, LEAKING_STEPS + 1):
        training.step(retain_graph=True)
        kept.append(training.loss)
        mark("step_{}".format(number))
    return {}


def grow(training: Training, mark: Mark) -> Bits:
    """Take two steps apart: gradients come, the first update makes the optimizer's states."""
    mark("model")
    for number in range(1, STEPS + 1):
        training.accumulate()
        mark("gradients_{}".format(number))
        training.update()
        mark("update_{}".format(number))
        training.drop_gradients()
        mark("dropped_{}".format(number))
    return {}


def move(training: Training, mark: Mark) -> Bits:
    """Infer, move the model to the CPU and back, and infer the same samples again."""
    training.model.eval()
    samples = training.draw()
    before = training.infer(samples)
    mark("here")
    device = next(training.model.parameters()).device
    training.model.to("cpu")
    mark("moved_to_cpu")
    training.model.to(device)
    mark("moved_back")
    after = training.infer(samples)
    return {
        "outputs": lambda: dict(
            digests.of_tensor(after), same_as_before=bool(torch.equal(before, after))
        )
    }

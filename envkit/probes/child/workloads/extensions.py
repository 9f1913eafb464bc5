"""Procedures with what not every torch or machine has: torch.compile, CUDA graphs, torchao.

Each says why it cannot run; then the probe is not run, which is no fault.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any, Callable, List

import torch

from .. import digests
from ..place import Unmet
from .procedures import STEPS, Bits, Mark, infer, train, trained
from .training import Training

#: As torch's notes on CUDA graphs have it: libraries choose and allocate before the capture.
WARM_UP_STEPS = 3


def _must_run(training: Training, what: str, call: Callable[[], Any]) -> Any:
    found = training.place.api.attempt(call)
    if isinstance(found, training.place.api.Missing):
        message = "{} does not run here: {}".format(what, found.reason)
        raise Unmet(message)
    return found


def compiled(training: Training, mark: Mark) -> Bits:
    """Train a model that torch.compile has compiled, with its default backend.

    Raises:
        Unmet: there is no torch.compile, or no compiler for it.

    """
    run = _must_run(training, "torch.compile", lambda: torch.compile(training.model))
    training.call = run
    # The first call compiles, and shows whether it can.
    _must_run(training, "torch.compile", training.accumulate)
    training.drop_gradients()
    return train(training, mark)


def graphed(training: Training, _mark: Mark) -> Bits:
    """Capture forward and backward pass in a CUDA graph and train by replaying it.

    Raises:
        Unmet: there are no CUDA graphs, or these operations cannot be captured.

    """
    if not training.place.is_cuda:
        message = "the CPU has no CUDA graphs"
        raise Unmet(message)
    samples = training.draw()
    graph = _must_run(training, "a CUDA graph", lambda: _captured(training, samples))
    losses: List[str] = []
    for _ in range(STEPS):
        graph.replay()
        training.update()
        losses.append(digests.of_float(training.loss.item()))
    return trained(training.model, losses)


def _captured(training: Training, samples: Any) -> Any:
    cuda = training.place.torch.cuda
    side = cuda.Stream(training.place.index)
    side.wait_stream(cuda.current_stream())
    with cuda.stream(side):
        for _ in range(WARM_UP_STEPS):
            training.accumulate(samples)
            training.drop_gradients()
    cuda.current_stream().wait_stream(side)
    graph = cuda.CUDAGraph()
    with cuda.graph(graph):
        training.accumulate(samples)
    return graph


def quantised(training: Training, mark: Mark) -> Bits:
    """Infer with weights that torchao has made int8.

    Raises:
        Unmet: torchao is not installed or does not fit this torch.

    """
    if importlib.util.find_spec("torchao") is None:
        message = "torchao is not installed"
        raise Unmet(message)
    _must_run(training, "torchao", lambda: _quantise(training.model))
    return _must_run(training, "torchao", lambda: infer(training, mark))  # type: ignore[no-any-return]


def _quantise(model: Any) -> None:
    # By name: it belongs to the target, and is not there in most.
    quantization = importlib.import_module("torchao.quantization")
    # The class came with torchao 0.9; the function before it is gone since.
    make = getattr(quantization, "Int8WeightOnlyConfig", None)
    quantization.quantize_(model, make() if make else quantization.int8_weight_only())

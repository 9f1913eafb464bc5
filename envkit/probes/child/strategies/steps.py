"""The step of each kind of strategy: what is repeated, and what its results are."""

from __future__ import annotations

import inspect
from typing import Any, Callable, Dict, List, NamedTuple, Optional

import torch

from .. import digests
from ..place import Place, Unmet
from ..spread.sharded import shard
from ..workloads.call import find
from ..workloads.options import Options
from ..workloads.recipes import RECIPES
from ..workloads.training import Training
from .training import Changed

#: What an eager data set holds: enough to be seen in the memory of a process.
EAGER_BYTES = {"cuda": 256 << 20, "cpu": 48 << 20}
#: Samples of a text are small: making this many takes seconds.
MOST_SAMPLES = 20000


class Steps(NamedTuple):
    """Something to repeat, ready to begin."""

    step: Callable[[], None]
    loss: Callable[[], Optional[float]]
    """The loss of the last step; None for what has none."""
    digest: Callable[[], Optional[str]]
    """SHA-256 of what the steps have made so far; None for what nobody but the user can see."""


def prepare(place: Place, args: Dict[str, Any]) -> Steps:
    """Build what `args` describe: `kind`, `workload` or `call`, `batch`, `changes`, `seed`.

    Raises:
        Unmet: it cannot be done here, and why.

    """
    makers = {
        "train": _train,
        "shard": _shard,
        "infer": _infer,
        "encode": _encode,
        "load": _load,
        "call": _call,
    }
    changes = args["changes"]
    batch = max(1, int(args["batch"] * changes.get("batch_share", 1)))
    return makers[args["kind"]](place, args, batch)


def _weights(model: Any) -> str:
    return digests.of_tensors(model.state_dict().values())


def _train(place: Place, args: Dict[str, Any], batch: int) -> Steps:
    training = Changed(place, args, batch)
    return Steps(training.step, training.loss_value, lambda: _weights(training.model))


def _shard(place: Place, args: Dict[str, Any], batch: int) -> Steps:
    """Train a slice of the batch on a sharded model, beside the other ranks."""
    world = args["world"]
    if batch % world:
        message = "a batch of {} has no equal parts for {} ranks".format(batch, world)
        raise Unmet(message)
    recipe = shard(RECIPES[args["workload"]], place.kind, args["rank"], world)
    training = Training(place, recipe, Options(batch // world), args["seed"])
    return Steps(training.step, lambda: float(training.loss.item()), lambda: None)


def _infer(place: Place, args: Dict[str, Any], batch: int) -> Steps:
    training = Changed(place, args, batch)
    training.model.eval()
    made: List[Any] = []

    def step() -> None:
        made.clear()
        made[:] = [training.predict(gradients=args["changes"].get("gradients", False))]

    return Steps(step, lambda: None, lambda: digests.of_tensors(made))


def _encode(place: Place, args: Dict[str, Any], batch: int) -> Steps:
    """Train beside a frozen encoder of the same size, which each step asks for features."""
    offload = args["changes"].get("offload", False)
    if offload and not place.is_cuda:
        message = "there is no other memory to move it to"
        raise Unmet(message)
    training = Changed(place, args, batch)
    with torch.no_grad():
        encoder = RECIPES[args["workload"]].build().to(place.device).eval()
    encoder.requires_grad_(requires_grad=False)
    features: List[Any] = []

    def step() -> None:
        samples = training.draw()
        if offload:
            encoder.to(place.device)
        with torch.no_grad():
            features[:] = [encoder(samples[0])]
        if offload:
            encoder.to("cpu")
        training.step()

    def digest() -> str:
        return digests.of_tensors([*features, *training.model.state_dict().values()])

    return Steps(step, training.loss_value, digest)


def _load(place: Place, args: Dict[str, Any], batch: int) -> Steps:
    """Take batches from a data set that is made at once or sample by sample."""
    cpu = torch.device("cpu")
    recipe = RECIPES[args["workload"]]

    def sample(index: int) -> Any:
        torch.manual_seed(args["seed"] + index)
        inputs, targets = recipe.draw(torch, cpu, 1)
        return inputs[0], targets[0]

    sample_bytes = sum(part.numel() * part.element_size() for part in sample(0))
    count = max(batch, min(MOST_SAMPLES, EAGER_BYTES[place.kind] // sample_bytes))
    lazy = args["changes"].get("lazy", False)
    # Copies: a sample of a text shares one tensor between inputs and targets.
    kept = None if lazy else [[part.clone() for part in sample(index)] for index in range(count)]
    taken: List[Any] = []
    at = [0]

    def step() -> None:
        numbers = [(at[0] + offset) % count for offset in range(batch)]
        at[0] += batch
        rows = [sample(number) if kept is None else kept[number] for number in numbers]
        taken[:] = [torch.stack(parts).to(place.device) for parts in zip(*rows)]

    return Steps(step, lambda: None, lambda: digests.of_tensors(taken))


def _call(place: Place, args: Dict[str, Any], batch: int) -> Steps:
    """Call the user's function; it makes its own model, the first time."""
    torch.manual_seed(args["seed"])  # the module may make its model when it is imported
    function = find(args["call"], args["folder"])
    sized = "batch" in inspect.signature(function).parameters
    if not sized and "batch_share" in args["changes"]:
        message = "{} has no parameter `batch`".format(args["call"])
        raise Unmet(message)
    dtype = torch.bfloat16
    enabled = args["changes"].get("autocast") == "bf16"
    returned: List[Any] = [None]

    def step() -> None:
        with torch.autocast(place.device.type, dtype=dtype, enabled=enabled):
            returned[0] = function(batch=batch) if sized else function()

    return Steps(step, lambda: _number(returned[0]), lambda: None)


def _number(value: Any) -> Optional[float]:
    if hasattr(value, "item") and getattr(value, "numel", lambda: 1)() == 1:
        value = value.item()
    return float(value) if isinstance(value, (int, float)) else None

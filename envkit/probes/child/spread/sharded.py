"""Training with the model sharded over ranks (FSDP2): weights, gradients and states in pieces.

All ranks together train on the batch that one card would: each takes its slice of the same random
samples, and gradients are averaged, so that losses can be held against one card's.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List

from .. import digests
from ..place import Place, Unmet
from ..workloads.optimizers import torch_adamw
from ..workloads.options import BF16, Options
from ..workloads.probes import run_once
from ..workloads.recipes import RECIPES, Recipe
from ..workloads.training import Training, without_collector
from .ranks import joined, run_ranks

#: Fixed, so that machines with any number of GPUs can be compared.
PROBED_RANKS = 2
RUNS = 2
STEPS = 2
#: Kind of device to recipe and samples of each rank.
WORKLOADS = {"cuda": ("gpt-small", 2), "cpu": ("gpt-tiny", 2)}


def measure(place: Place, seed: int, report: Any, emit: Any) -> None:
    """Report requests and peaks of every rank, and the losses.

    Raises:
        Unmet: there are no two ranks here, or this torch has no `fully_shard`.

    """
    answers = run_ranks(place.name, train_rank, {"seed": seed}, emit, most=PROBED_RANKS)
    missing = next((one["missing"] for one in answers if one["missing"]), "")
    for part in ("requests", "peaks", "losses"):
        if missing and part == "requests":
            report(part, not_run=missing)
            continue
        runs = [{"ranks": [one[part][run] for one in answers]} for run in range(RUNS)]
        report(part, runs=runs)


def train_rank(args: Dict[str, Any], _emit: Any) -> Dict[str, Any]:
    """Job of a rank: train once to warm up and twice recorded."""
    with joined(args) as place:
        name, batch = WORKLOADS[place.kind]
        recipe = shard(RECIPES[name], place.kind, args["rank"], args["world"])

        def work(_mark: Callable[[str], None]) -> Dict[str, Callable[[], Dict[str, Any]]]:
            with without_collector():
                training = Training(place, recipe, Options(batch, BF16), args["seed"])
                losses: List[str] = []
                for _ in range(STEPS):
                    training.step()
                    losses.append(digests.of_float(training.loss.item()))
            return {"losses": lambda: {"losses": losses}}

        work(lambda _moment: None)
        runs = [run_once(place, work, clean=False) for _ in range(RUNS)]
        return {
            "missing": runs[0].missing,
            "requests": [one.recorded and one.recorded.stream.values() for one in runs],
            "peaks": [one.peaks for one in runs],
            "losses": [one.bits["losses"] for one in runs],
        }


def shard(recipe: Recipe, kind: str, rank: int, world: int) -> Recipe:
    """Return the recipe with the model sharded, torch's own AdamW, and a slice of each batch.

    Raises:
        Unmet: this torch has no `fully_shard`.

    """
    try:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard
    except ImportError as error:
        message = "this torch has no fully_shard (it came with 2.6)"
        raise Unmet(message) from error

    def build() -> Any:
        model = recipe.build()
        mesh = init_device_mesh(kind, (world,))  # else a build for CUDA takes its GPUs
        for block in getattr(model, recipe.blocks):
            fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)
        return model

    def draw(torch: Any, device: Any, batch: int) -> Any:
        whole = recipe.draw(torch, device, batch * world)
        return tuple(part[rank * batch : (rank + 1) * batch] for part in whole)

    return recipe._replace(build=build, draw=draw, optimizer=torch_adamw)

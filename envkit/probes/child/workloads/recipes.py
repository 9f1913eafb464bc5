"""The models that workloads train: how each is made, fed, judged and updated."""

from __future__ import annotations

from typing import Any, Callable, Dict, NamedTuple, Tuple

from torch.nn import functional

from . import gpt, resnet, vit
from .optimizers import SGD, Adam, AdamW


class Recipe(NamedTuple):
    """A model and everything that its training needs but the options."""

    build: Callable[[], Any]
    """Makes the model, on the default device, from torch's random numbers."""
    draw: Callable[[Any, Any, int], Tuple[Any, Any]]
    """(torch, device, batch) -> inputs and targets, from torch's random numbers."""
    loss: Callable[[Any, Any], Any]
    """(outputs, targets) -> a scalar."""
    optimizer: Callable[[Any], Any]
    """Takes the parameters."""
    blocks: str
    """The model's attribute that holds the blocks which activation checkpointing runs again."""


def _pictures(image: int, classes: int) -> Callable[[Any, Any, int], Tuple[Any, Any]]:
    def draw(torch: Any, device: Any, batch: int) -> Tuple[Any, Any]:
        images = torch.randn((batch, 3, image, image), device=device)
        return images, torch.randint(0, classes, (batch,), device=device)

    return draw


def _text(vocabulary: int, context: int) -> Callable[[Any, Any, int], Tuple[Any, Any]]:
    def draw(torch: Any, device: Any, batch: int) -> Tuple[Any, Any]:
        tokens = torch.randint(0, vocabulary, (batch, context + 1), device=device)
        return tokens[:, :-1], tokens[:, 1:]

    return draw


def _next_token_loss(outputs: Any, targets: Any) -> Any:
    return functional.cross_entropy(outputs.flatten(0, 1), targets.flatten())


def _vit(shape: vit.Shape) -> Recipe:
    draw = _pictures(shape.image, shape.classes)
    return Recipe(lambda: vit.ViT(shape), draw, functional.cross_entropy, Adam, "blocks")


def _resnet(shape: resnet.Shape) -> Recipe:
    draw = _pictures(shape.image, shape.classes)
    return Recipe(lambda: resnet.ResNet(shape), draw, functional.cross_entropy, SGD, "stages")


def _gpt(shape: gpt.Shape) -> Recipe:
    draw = _text(shape.vocabulary, shape.context)
    return Recipe(lambda: gpt.GPT(shape), draw, _next_token_loss, AdamW, "blocks")


#: By name. The mini ones have the same structure and take an option's measure in milliseconds; the
#: tiny ones are meant for two slow CPU cores.
RECIPES: Dict[str, Recipe] = {
    "vit-b16": _vit(vit.B16),
    "resnet50": _resnet(resnet.R50),
    "gpt-small": _gpt(gpt.SMALL),
    "vit-mini": _vit(vit.MINI),
    "resnet-mini": _resnet(resnet.MINI),
    "gpt-mini": _gpt(gpt.MINI),
    "vit-tiny": _vit(vit.TINY),
    "resnet-tiny": _resnet(resnet.SMALL),
    "gpt-tiny": _gpt(gpt.TINY),
}

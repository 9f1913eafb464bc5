"""A small language model trained on texts that get longer, its predictions kept on the device.

The workload of `oom_remedy.py`. Two habits that many scripts have, and that fragment memory
together: a batch is as long as its longest text, and what is predicted is kept (here in half
precision) until the epoch's metric is computed. What is kept comes to lie in segments that were
made for shorter batches, and pins them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn import functional

from envkit.probes.child.workloads.optimizers import Adam
from envkit.probes.child.workloads.vit import Block


class Shape(NamedTuple):
    """Sizes of the model and of its batches."""

    words: int
    width: int
    depth: int
    heads: int
    batch: int
    lengths: tuple[int, ...]
    """Tokens of each step's texts."""


#: What is run on a GPU; peaks are at the last steps.
GPU = Shape(words=32768, width=256, depth=2, heads=4, batch=2, lengths=tuple(range(512, 1025, 32)))
TINY = Shape(words=97, width=32, depth=2, heads=2, batch=2, lengths=(8, 16, 24))


class Model(nn.Module):
    """Token embedding, transformer blocks, a linear head."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.tokens = nn.Embedding(shape.words, shape.width)
        self.blocks = nn.ModuleList([Block(shape.width, shape.heads) for _ in range(shape.depth)])
        self.norm = nn.LayerNorm(shape.width)
        self.head = nn.Linear(shape.width, shape.words)

    def forward(self, tokens: Any) -> Any:
        """[batch, length] -> [batch, length, words]."""
        x = self.tokens(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def train(shape: Shape, device: torch.device, losses: list[float]) -> None:
    """Train one step for each length; the losses so far are there whatever happens."""
    torch.manual_seed(0)
    model = Model(shape).to(device)
    optimizer = Adam(model.parameters())
    predictions = []
    for length in shape.lengths:
        tokens = torch.randint(0, shape.words, (shape.batch, length), device=device)
        said = model(tokens)
        loss = functional.cross_entropy(said.flatten(0, 1), tokens.flatten())
        loss.backward()
        optimizer.step()
        optimizer.drop_gradients()
        predictions.append(said.detach().half())
        losses.append(loss.item())

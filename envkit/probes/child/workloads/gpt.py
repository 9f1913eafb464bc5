"""A small GPT: a decoder of pre-norm blocks with causal attention, and tied input and output."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn import functional

from .vit import attend


class Shape(NamedTuple):
    """Sizes of a GPT; `context` in tokens, the rest are counts."""

    vocabulary: int
    context: int
    width: int
    depth: int
    heads: int


#: 41,735,168 parameters. A context of 256 keeps a child with AdamW well under 3 GB.
SMALL = Shape(vocabulary=32000, context=256, width=512, depth=8, heads=8)
MINI = Shape(vocabulary=4096, context=128, width=256, depth=4, heads=4)
#: Small enough for two slow CPU cores.
TINY = Shape(vocabulary=128, context=16, width=32, depth=2, heads=2)


class Block(nn.Module):
    """Causal attention and MLP, each behind a LayerNorm and around a residual."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: Any) -> Any:
        """[batch, tokens, width] -> the same shape."""
        batch, tokens, width = x.shape
        qkv = self.qkv(self.norm1(x)).view(batch, tokens, 3, self.heads, width // self.heads)
        query, key, value = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        mixed = attend(query, key, value, causal=True)
        x = x + self.proj(mixed.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    """Token and position embedding, blocks, a head that shares the embedding's weight."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.tokens = nn.Embedding(shape.vocabulary, shape.width)
        self.positions = nn.Parameter(torch.empty(shape.context, shape.width).normal_(std=0.02))
        self.blocks = nn.ModuleList([Block(shape.width, shape.heads) for _ in range(shape.depth)])
        self.norm = nn.LayerNorm(shape.width)
        nn.init.normal_(self.tokens.weight, std=0.02)

    def forward(self, tokens: Any) -> Any:
        """[batch, length <= context] -> [batch, length, vocabulary]."""
        x = self.tokens(tokens) + self.positions[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return functional.linear(self.norm(x), self.tokens.weight)

"""Vision Transformer (the B/16 shape: 16 x 16 patches, width 768, 12 blocks, 12 heads)."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn import functional


class Shape(NamedTuple):
    """Sizes of a ViT; lengths in pixels, the rest are counts."""

    image: int
    patch: int
    width: int
    depth: int
    heads: int
    classes: int


#: 86,567,656 parameters.
B16 = Shape(image=224, patch=16, width=768, depth=12, heads=12, classes=1000)
MINI = Shape(image=64, patch=8, width=256, depth=4, heads=4, classes=100)
#: Small enough for two slow CPU cores.
TINY = Shape(image=32, patch=8, width=64, depth=2, heads=2, classes=10)


def attend(query: Any, key: Any, value: Any, *, causal: bool = False) -> Any:
    """Return scaled dot product attention, by torch's own kernel choice where it has one."""
    fused = getattr(functional, "scaled_dot_product_attention", None)
    if fused is not None:
        return fused(query, key, value, is_causal=causal)
    weights = query @ key.transpose(-2, -1) * query.shape[-1] ** -0.5
    if causal:
        later = torch.ones(weights.shape[-2:], dtype=torch.bool, device=weights.device).triu(1)
        weights = weights.masked_fill(later, float("-inf"))
    return weights.softmax(dim=-1) @ value


class Block(nn.Module):
    """Attention and MLP, each behind a LayerNorm and around a residual."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width, eps=1e-6)
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width, eps=1e-6)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: Any) -> Any:
        """[batch, tokens, width] -> the same shape."""
        batch, tokens, width = x.shape
        qkv = self.qkv(self.norm1(x)).view(batch, tokens, 3, self.heads, width // self.heads)
        query, key, value = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        mixed = attend(query, key, value).transpose(1, 2).reshape(batch, tokens, width)
        x = x + self.proj(mixed)
        return x + self.mlp(self.norm2(x))


class ViT(nn.Module):
    """Patches, a class token, position embedding, blocks, a linear head."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        tokens = (shape.image // shape.patch) ** 2 + 1
        self.patches = nn.Conv2d(3, shape.width, shape.patch, stride=shape.patch)
        self.token = nn.Parameter(torch.zeros(1, 1, shape.width))
        self.positions = nn.Parameter(torch.empty(1, tokens, shape.width).normal_(std=0.02))
        self.blocks = nn.ModuleList([Block(shape.width, shape.heads) for _ in range(shape.depth)])
        self.norm = nn.LayerNorm(shape.width, eps=1e-6)
        self.head = nn.Linear(shape.width, shape.classes)

    def forward(self, images: Any) -> Any:
        """[batch, 3, image, image] -> [batch, classes]."""
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], dim=1) + self.positions
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)[:, 0])

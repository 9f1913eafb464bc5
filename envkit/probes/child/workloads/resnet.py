"""ResNet with bottleneck blocks (the 50-layer shape: 3, 4, 6, 3 blocks from width 64)."""

from __future__ import annotations

from typing import Any, List, NamedTuple, Tuple

from torch import nn
from torch.nn import functional


class Shape(NamedTuple):
    """Sizes of a ResNet; `width` is the channels of the first stage's inner convolutions."""

    image: int
    width: int
    blocks: Tuple[int, ...]
    classes: int


#: 25,557,032 parameters.
R50 = Shape(image=224, width=64, blocks=(3, 4, 6, 3), classes=1000)
MINI = Shape(image=64, width=32, blocks=(1, 1, 1, 1), classes=100)
#: Small enough for two slow CPU cores.
SMALL = Shape(image=32, width=8, blocks=(1, 1), classes=10)

EXPANSION = 4


def _conv(inputs: int, outputs: int, size: int, stride: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, size, stride=stride, padding=size // 2, bias=False),
        nn.BatchNorm2d(outputs),
    )


class Bottleneck(nn.Module):
    """1x1, 3x3 and 1x1 convolutions around a residual; the 3x3 one has the stride."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = width * EXPANSION
        self.conv1 = _conv(inputs, width, 1, 1)
        self.conv2 = _conv(width, width, 3, stride)
        self.conv3 = _conv(width, outputs, 1, 1)
        same = stride == 1 and inputs == outputs
        self.shortcut = nn.Identity() if same else _conv(inputs, outputs, 1, stride)

    def forward(self, x: Any) -> Any:
        """[batch, inputs, h, w] -> [batch, 4 * width, h / stride, w / stride]."""
        y = functional.relu(self.conv1(x), inplace=True)
        y = functional.relu(self.conv2(y), inplace=True)
        return functional.relu(self.conv3(y) + self.shortcut(x), inplace=True)


class ResNet(nn.Module):
    """A 7x7 stem, four stages, average pooling, a linear head."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.stem = _conv(3, shape.width, 7, 2)
        self.pool = nn.MaxPool2d(3, stride=2, padding=1)
        blocks: List[nn.Module] = []
        inputs = shape.width
        for stage, count in enumerate(shape.blocks):
            width = shape.width << stage
            for index in range(count):
                blocks.append(Bottleneck(inputs, width, 2 if stage and not index else 1))
                inputs = width * EXPANSION
        self.stages = nn.Sequential(*blocks)
        self.head = nn.Linear(inputs, shape.classes)

    def forward(self, images: Any) -> Any:
        """[batch, 3, image, image] -> [batch, classes]."""
        x = self.pool(functional.relu(self.stem(images), inplace=True))
        return self.head(self.stages(x).mean(dim=(2, 3)))

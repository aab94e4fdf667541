"""MobileNetV2 (Sandler et al., arXiv 1801.04381)."""

from __future__ import annotations

import torch
from torch import nn

from .layers import convolution, kaiming


class InvertedResidual(nn.Module):
    """Expansion, depthwise convolution, linear bottleneck; a sum where the shape stays."""

    def __init__(self, before: int, channels: int, stride: int, expansion: int) -> None:
        super().__init__()
        inner = before * expansion
        self.sums = stride == 1 and before == channels
        self.layers = nn.Sequential(
            *(_relu6(before, inner, 1) if expansion > 1 else ()),
            *_relu6(inner, inner, 3, stride, inner),
            convolution(inner, channels, 1),
            nn.BatchNorm2d(channels),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, channels, height, width) to the block's channels, halved if it strides."""
        y = self.layers(x)
        return x + y if self.sums else y


def _relu6(
    before: int, channels: int, size: int, stride: int = 1, groups: int = 1
) -> tuple[nn.Module, ...]:
    conv = convolution(before, channels, size, stride, groups)
    return conv, nn.BatchNorm2d(channels), nn.ReLU6()


def mobilenet_v2(classes: int = 1000, cifar: bool = False) -> nn.Sequential:
    """MobileNetV2 (Sandler et al., arXiv 1801.04381, table 2), width 1, no dropout.

    ``cifar``: the stem and the second stage keep the map, for images of 32 x 32.
    """
    stride = 1 if cifar else 2
    blocks, before = [], 32
    for expansion, channels, count, first in (
        *((1, 16, 1, 1), (6, 24, 2, stride), (6, 32, 3, 2), (6, 64, 4, 2)),
        *((6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)),
    ):
        for unit in range(count):
            blocks.append(InvertedResidual(before, channels, 1 if unit else first, expansion))
            before = channels
    head = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1280, classes))
    return kaiming(
        nn.Sequential(*_relu6(3, 32, 3, stride), *blocks, *_relu6(before, 1280, 1), *head)
    )

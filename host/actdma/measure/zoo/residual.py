"""Residual networks (He et al., arXiv 1512.03385)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import nn
from torch.nn import functional as F

from .layers import convolution, kaiming


class Residual(nn.Module):
    """Residual unit: convolutions, each normalised, ReLU between them and behind the sum."""

    def __init__(self, convolutions: Sequence[nn.Conv2d], shortcut: nn.Module) -> None:
        super().__init__()
        self._pairs = [(f"conv{i}", f"bn{i}") for i in range(1, len(convolutions) + 1)]
        for (conv, bn), module in zip(self._pairs, convolutions, strict=True):
            self.add_module(conv, module)
            self.add_module(bn, nn.BatchNorm2d(module.out_channels))
        self.shortcut = shortcut

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, channels, height, width) to the unit's channels, halved if it strides."""
        y = x
        for pair in self._pairs[:-1]:
            y = F.relu(self._normalised(y, *pair))
        return F.relu(self._normalised(y, *self._pairs[-1]) + self.shortcut(x))

    def _normalised(self, x: torch.Tensor, conv: str, bn: str) -> torch.Tensor:
        return self.get_submodule(bn)(self.get_submodule(conv)(x))


class PaddedShortcut(nn.Module):
    """Shortcut without parameters: every other pixel, channels of zeros added on both sides."""

    def __init__(self, added: int) -> None:
        super().__init__()
        self.before, self.after = added // 2, added - added // 2

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, c, height, width) to (batch, c + added, height / 2, width / 2)."""
        return F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, self.before, self.after))


def projection(before: int, channels: int, stride: int) -> nn.Module:
    """Shortcut with a normalised 1 x 1 convolution wherever the shape changes."""
    if before == channels and stride == 1:
        return nn.Identity()
    return nn.Sequential(convolution(before, channels, 1, stride), nn.BatchNorm2d(channels))


def basic(before: int, channels: int, stride: int, shortcut: nn.Module) -> Residual:
    """Residual unit of two 3 x 3 convolutions."""
    return Residual(
        [convolution(before, channels, 3, stride), convolution(channels, channels, 3)], shortcut
    )


def bottleneck(before: int, channels: int, stride: int, shortcut: nn.Module) -> Residual:
    """Residual unit of 1 x 1, 3 x 3 (which strides, as is usual by now) and 1 x 1 convolutions."""
    inner = channels // 4
    return Residual(
        [
            convolution(before, inner, 1),
            convolution(inner, inner, 3, stride),
            convolution(inner, channels, 1),
        ],
        shortcut,
    )


class ResNet(nn.Module):
    """Residual network (He et al., arXiv 1512.03385): stem, stages of `Residual` units, logits."""

    def __init__(
        self, stem: nn.Conv2d, pool: nn.Module, stages: Sequence[nn.Module], head: nn.Linear
    ) -> None:
        super().__init__()
        self.conv1 = stem
        self.bn1 = nn.BatchNorm2d(stem.out_channels)
        self.pool = pool
        self._stages = [f"layer{i}" for i in range(1, len(stages) + 1)]
        for name, stage in zip(self._stages, stages, strict=True):
            self.add_module(name, stage)
        self.linear = head

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Images to logits."""
        x = self.pool(F.relu(self.bn1(self.conv1(x))))
        for stage in self._stages:
            x = self.get_submodule(stage)(x)
        return self.linear(x.mean((2, 3)))


def cifar_resnet(depth: int, classes: int = 10) -> ResNet:
    """The ResNet for images of 32 x 32 (section 4.2), shortcuts without parameters (option A).

    ``depth``: 6n + 2. ``state_dict`` has `conv1, bn1, layerL.i.{conv,bn}{1,2}, linear`, as
    github.com/akamaster/pytorch_resnet_cifar10 has them.
    """
    units, rest = divmod(depth - 2, 6)
    if units < 1 or rest:
        raise ValueError(f"depth is {depth}, allowed are 6n + 2: 8, 14, 20, ...")
    stages, before = [], 16
    for channels in (16, 32, 64):
        first = PaddedShortcut(channels - before) if channels > before else nn.Identity()
        stage = [basic(before, channels, 2 if channels > before else 1, first)]
        stage += [basic(channels, channels, 1, nn.Identity()) for _ in range(units - 1)]
        stages.append(nn.Sequential(*stage))
        before = channels
    return kaiming(ResNet(convolution(3, 16, 3), nn.Identity(), stages, nn.Linear(64, classes)))


def imagenet_resnet(
    units: Sequence[int],
    block: Callable[[int, int, int, nn.Module], Residual],
    widths: Sequence[int],
    classes: int = 1000,
    cifar: bool = False,
) -> ResNet:
    """The ResNet for images of 224 x 224 (table 1), shortcuts with projections (option B).

    ``units`` and ``widths``: of each stage. ``cifar``: a 3 x 3 stem that keeps the map, for images
    of 32 x 32.
    """
    stages, before = [], 64
    for stage, (count, channels) in enumerate(zip(units, widths, strict=True)):
        blocks = []
        for unit in range(count):
            stride = 2 if stage and not unit else 1
            blocks.append(block(before, channels, stride, projection(before, channels, stride)))
            before = channels
        stages.append(nn.Sequential(*blocks))
    stem = convolution(3, 64, 3) if cifar else convolution(3, 64, 7, 2)
    pool = nn.Identity() if cifar else nn.MaxPool2d(3, 2, 1)
    return kaiming(ResNet(stem, pool, stages, nn.Linear(before, classes)))

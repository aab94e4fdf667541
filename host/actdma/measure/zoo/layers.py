"""What networks of several kinds are made of."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence

from torch import nn


def convolution(
    before: int, channels: int, size: int, stride: int = 1, groups: int = 1
) -> nn.Conv2d:
    """A convolution in front of a normalisation: no bias, padded so that stride 1 keeps the map."""
    return nn.Conv2d(before, channels, size, stride, size // 2, groups=groups, bias=False)


def kaiming(model: nn.Module) -> nn.Module:
    """``model`` with its convolutions initialised for ReLU (He et al., arXiv 1502.01852)."""
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    return model


def small_logits(convolution: nn.Conv2d) -> None:
    """Initialise ``convolution``, whose maps' means are the logits, by what goes into it: by what
    comes out, as in `kaiming`, the logits of few classes would be large from the start."""
    nn.init.kaiming_normal_(convolution.weight, nonlinearity="relu")


def named(layers: Iterable[tuple[str, nn.Module]]) -> nn.Sequential:
    """``layers`` one after the other, by their names."""
    return nn.Sequential(OrderedDict(layers))


def is_small(side: int, of_paper: int) -> bool:
    """Whether the variant for images of 32 x 32 is asked for, and not the paper's own.

    ``side``: 32 or ``of_paper``; ValueError else.
    """
    if side not in (32, of_paper):
        raise ValueError(f"images of {side} x {side}: allowed are 32 and {of_paper}")
    return side == 32


def scaled(channels: Sequence[int], width: float) -> list[int]:
    """``channels`` times ``width``, to the nearest multiple of 8; ValueError if one is below 4."""
    if min(channels) * width < 4:
        raise ValueError(f"a width of {width} leaves none of {min(channels)} channels")
    return [max(8, round(count * width / 8) * 8) for count in channels]

"""ReLU networks whose modules compute several convolutions of one input: SqueezeNet, GoogLeNet."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from .layers import is_small, kaiming, named, scaled, small_logits


class Fire(nn.Module):
    """Fire module: a 1 x 1 convolution, and of its result 1 x 1 and 3 x 3 ones side by side."""

    def __init__(self, before: int, squeezed: int, expanded: int) -> None:
        super().__init__()
        self.squeeze1x1 = nn.Conv2d(before, squeezed, 1)
        self.expand1x1 = nn.Conv2d(squeezed, expanded, 1)
        self.expand3x3 = nn.Conv2d(squeezed, expanded, 3, padding=1)
        self.relu_squeeze1x1, self.relu_expand1x1, self.relu_expand3x3 = (
            nn.ReLU() for _ in range(3)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, before, height, width) to (batch, 2 expanded, height, width)."""
        x = self.relu_squeeze1x1(self.squeeze1x1(x))
        expanded = (
            self.relu_expand1x1(self.expand1x1(x)),
            self.relu_expand3x3(self.expand3x3(x)),
        )
        return torch.cat(expanded, 1)


def squeezenet(classes: int = 1000, side: int = 224, version: str = "1.1") -> nn.Sequential:
    """SqueezeNet (Iandola et al., arXiv 1602.07360), ``version`` 1.0, or the 1.1 that the authors
    published later, with a smaller first convolution and earlier poolings.

    Its ``features`` have `conv1` and `fireN.{squeeze1x1,expand1x1,expand3x3}`. ``side`` 32: the
    first convolution keeps the map.
    """
    small = is_small(side, 224)
    channels, size, pooled = _SQUEEZENETS[version]
    sizes = [(64, 16, 64), (128, 16, 64), (128, 32, 128), (256, 32, 128)]
    sizes += [(256, 48, 192), (384, 48, 192), (384, 64, 256), (512, 64, 256)]
    sizes[0] = channels, *sizes[0][1:]
    stem = (1, size // 2) if small else (2,)
    features = [("conv1", nn.Conv2d(3, channels, size, *stem)), ("relu1", nn.ReLU())]
    for number, fire in enumerate(sizes, 2):
        if number - 1 in pooled:
            features.append((f"pool{number - 1}", nn.MaxPool2d(3, 2, ceil_mode=True)))
        features.append((f"fire{number}", Fire(*fire)))
    head = (
        *(("dropout9", nn.Dropout(0.5)), ("conv10", nn.Conv2d(512, classes, 1))),
        *(("relu10", nn.ReLU()), ("mean", nn.AdaptiveAvgPool2d(1)), ("flat", nn.Flatten())),
    )
    model = kaiming(named((("features", named(features)), *head)))
    small_logits(model.conv10)
    return model


# Channels and side of the first convolution, and the layers that a pooling follows.
_SQUEEZENETS = {"1.0": (96, 7, (1, 4, 8)), "1.1": (64, 3, (1, 3, 5))}


class Inception(nn.Module):
    """Inception module: convolutions of 1 x 1, 3 x 3 and 5 x 5, and a max-pool, side by side.

    ``sizes``: channels as in table 1 of the paper, "#1x1" to "pool proj".
    """

    def __init__(self, before: int, sizes: Sequence[int]) -> None:
        super().__init__()
        one, reduced3, three, reduced5, five, pooled = sizes
        self.one = _branch(before, (one, 1))
        self.three = _branch(before, (reduced3, 1), (three, 3))
        self.five = _branch(before, (reduced5, 1), (five, 5))
        self.pooled = nn.Sequential(nn.MaxPool2d(3, 1, 1), *_branch(before, (pooled, 1)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, before, height, width) to the branches' channels together."""
        return torch.cat([self.one(x), self.three(x), self.five(x), self.pooled(x)], 1)


def _branch(before: int, *layers: tuple[int, int]) -> nn.Sequential:
    """Convolutions with ReLU, of (channels, size) each."""
    modules = []
    for channels, size in layers:
        modules += [nn.Conv2d(before, channels, size, padding=size // 2), nn.ReLU()]
        before = channels
    return nn.Sequential(*modules)


def googlenet(classes: int = 1000, side: int = 224, width: float = 1.0) -> nn.Sequential:
    """GoogLeNet (Szegedy et al., arXiv 1409.4842, table 1) without its auxiliary classifiers.

    ``side`` 32: the first convolution is one of 3 x 3, it and the first pooling do not stride, and
    responses are not normalised, as in `plain`. ``width`` multiplies all channels but the logits'.
    """
    small = is_small(side, 224)
    first, reduced, second = scaled((64, 64, 192), width)

    def pool() -> nn.Module:
        return nn.MaxPool2d(3, 2, ceil_mode=True)

    def norm() -> nn.Module:
        return nn.Identity() if small else nn.LocalResponseNorm(5, 1e-4, 0.75, 1)

    layers = [
        ("conv1", nn.Conv2d(3, first, 3, 1, 1) if small else nn.Conv2d(3, first, 7, 2, 3)),
        ("relu1", nn.ReLU()),
        ("pool1", nn.MaxPool2d(3, 1, 1) if small else pool()),
        *(("norm1", norm()), ("conv2a", nn.Conv2d(first, reduced, 1)), ("relu2a", nn.ReLU())),
        *(("conv2b", nn.Conv2d(reduced, second, 3, 1, 1)), ("relu2b", nn.ReLU())),
        *(("norm2", norm()), ("pool2", pool())),
    ]
    before = second
    for name, unscaled in _INCEPTIONS.items():
        sizes = scaled(unscaled, width)
        layers.append((f"inception{name}", Inception(before, sizes)))
        before = sizes[0] + sizes[2] + sizes[4] + sizes[5]
        if name in ("3b", "4e"):
            layers.append((f"pool{name[0]}", pool()))
    layers += [("mean", nn.AdaptiveAvgPool2d(1)), ("flat", nn.Flatten())]
    layers += [("dropout", nn.Dropout(0.4)), ("fc", nn.Linear(before, classes))]
    return kaiming(named(layers))


_INCEPTIONS = {
    "3a": (64, 96, 128, 16, 32, 32),
    "3b": (128, 128, 192, 32, 96, 64),
    "4a": (192, 96, 208, 16, 48, 64),
    "4b": (160, 112, 224, 24, 64, 64),
    "4c": (128, 128, 256, 24, 64, 64),
    "4d": (112, 144, 288, 32, 64, 64),
    "4e": (256, 160, 320, 32, 128, 128),
    "5a": (256, 160, 320, 32, 128, 128),
    "5b": (384, 192, 384, 48, 128, 128),
}

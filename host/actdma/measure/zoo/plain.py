"""Networks of convolutions, ReLU and pooling in one line, as cDMA (arXiv 1705.01626) measures them.

None is normalised by batch. ``side``: of the images, 32 or the paper's; for 32 x 32 the first
strides and poolings are left out, the layers in front of the logits are narrower, and AlexNet does
not normalise responses (arXiv 1409.1556, section 4.1, finds no gain in that). ``width`` multiplies
the channels of every layer but the last.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from torch import nn

from .layers import is_small, kaiming, named, scaled, small_logits

Layers = Iterator[tuple[str, nn.Module]]


def relu_cnn(classes: int = 10) -> nn.Sequential:
    """Convolution, ReLU and max-pool, four times, for images of 32 x 32.

    As He et al. (arXiv 1502.01852) initialise it, half of what a ReLU gives is zero.
    """
    stages, before = [], 3
    for channels in (32, 64, 128, 256):
        conv = nn.Conv2d(before, channels, 3, padding=1)
        nn.init.kaiming_normal_(conv.weight, nonlinearity="relu")
        nn.init.zeros_(conv.bias)
        stages.append(nn.Sequential(conv, nn.ReLU(), nn.MaxPool2d(2)))
        before = channels
    return nn.Sequential(*stages, nn.Flatten(), nn.Linear(before * 2 * 2, classes))


def alexnet(classes: int = 1000, side: int = 224, width: float = 1.0) -> nn.Sequential:
    """AlexNet (Krizhevsky et al., NIPS 2012, section 3.5): 96 to 384 channels, groups of two.

    The two GPUs of the paper are two groups; responses are normalised across channels (3.3).
    """
    small = is_small(side, 224)
    channels = scaled((96, 256, 384, 384, 256), width)
    first, hidden = ((5, 1, 2), 1024) if small else ((11, 4, 2), 4096)

    def layers() -> Layers:
        before = 3
        convolutions = (first, (5, 1, 2), (3, 1, 1), (3, 1, 1), (3, 1, 1))
        for number, (count, size) in enumerate(zip(channels, convolutions, strict=True), 1):
            groups = 2 if number in (2, 4, 5) else 1
            yield f"conv{number}", nn.Conv2d(before, count, *size, groups=groups)
            yield f"relu{number}", nn.ReLU()
            if number <= 2 and not small:
                yield f"norm{number}", nn.LocalResponseNorm(5, 1e-4, 0.75, 2)
            if number in (1, 2, 5):
                yield f"pool{number}", nn.MaxPool2d(3, 2, 1 if small else 0)
            before = count
        maps = 4 if small else 6
        yield from _dense((before * maps**2, *scaled((hidden, hidden), width)), classes, 6)

    return kaiming(named(layers()))


def overfeat(classes: int = 1000, side: int = 231, width: float = 1.0) -> nn.Sequential:
    """OverFeat, the fast model (Sermanet et al., arXiv 1312.6229, table 1)."""
    small = is_small(side, 231)
    channels = scaled((96, 256, 512, 1024, 1024), width)
    first, second = ((5, 1, 2), (5, 1, 2)) if small else ((11, 4, 0), (5, 1, 0))

    def layers() -> Layers:
        before = 3
        convolutions = (first, second, (3, 1, 1), (3, 1, 1), (3, 1, 1))
        for number, (count, size) in enumerate(zip(channels, convolutions, strict=True), 1):
            yield f"conv{number}", nn.Conv2d(before, count, *size)
            yield f"relu{number}", nn.ReLU()
            if number in (1, 2, 5):
                yield f"pool{number}", nn.MaxPool2d(2)
            before = count
        maps, hidden = (4, (768, 1024)) if small else (6, (3072, 4096))
        yield from _dense((before * maps**2, *scaled(hidden, width)), classes, 6)

    return kaiming(named(layers()))


def nin(classes: int = 1000, side: int = 224, width: float = 1.0) -> nn.Sequential:
    """Network in Network (Lin et al., arXiv 1312.4400): each convolution followed by two of 1 x 1.

    For ImageNet with the sizes of the authors' model for Caffe, for CIFAR-10 with those of theirs.
    """
    small = is_small(side, 224)
    if small:
        stages = (((192, 160, 96), (5, 1, 2)), ((192,) * 3, (5, 1, 2)), ((192, 192), (3, 1, 1)))
    else:
        stages = (
            *(((96,) * 3, (11, 4, 0)), ((256,) * 3, (5, 1, 2))),
            *(((384,) * 3, (3, 1, 1)), ((1024,) * 2, (3, 1, 1))),
        )

    def layers() -> Layers:
        before = 3
        for number, (channels, size) in enumerate(stages, 1):
            last = number == len(stages)
            counts = [*scaled(channels, width), *([classes] if last else [])]
            for part, count in enumerate(counts):
                name = f"{number}{'abc'[part]}"
                yield f"conv{name}", nn.Conv2d(before, count, *(size if not part else (1,)))
                yield f"relu{name}", nn.ReLU()
                before = count
            if not last:
                yield f"pool{number}", nn.MaxPool2d(3, 2, ceil_mode=True)
            if number == len(stages) - 1 or (small and not last):
                yield f"dropout{number}", nn.Dropout(0.5)
        yield "mean", nn.AdaptiveAvgPool2d(1)
        yield "flat", nn.Flatten()

    model = kaiming(named(layers()))
    small_logits(model.get_submodule(f"conv{len(stages)}c"))
    return model


def vgg16(classes: int = 1000, side: int = 224, width: float = 1.0) -> nn.Sequential:
    """VGG-16 (Simonyan and Zisserman, arXiv 1409.1556, table 1, column D)."""
    small = is_small(side, 224)

    def layers() -> Layers:
        before = 3
        stages = ((64,) * 2, (128,) * 2, (256,) * 3, (512,) * 3, (512,) * 3)
        for number, channels in enumerate(stages, 1):
            for part, count in enumerate(scaled(channels, width), 1):
                yield f"conv{number}_{part}", nn.Conv2d(before, count, 3, padding=1)
                yield f"relu{number}_{part}", nn.ReLU()
                before = count
            yield f"pool{number}", nn.MaxPool2d(2)
        maps, hidden = (1, 512) if small else (7, 4096)
        yield from _dense((before * maps**2, *scaled((hidden, hidden), width)), classes, 6)

    return kaiming(named(layers()))


def _dense(sizes: Sequence[int], classes: int, first: int) -> Layers:
    """Linear layers with ReLU and dropout, from ``sizes[0]`` inputs on, then the logits; their
    numbers begin with ``first``."""
    yield "flat", nn.Flatten()
    for number, (before, count) in enumerate(itertools.pairwise(sizes), first):
        yield f"fc{number}", nn.Linear(before, count)
        yield f"relu{number}", nn.ReLU()
        yield f"dropout{number}", nn.Dropout(0.5)
    yield f"fc{first + len(sizes) - 1}", nn.Linear(sizes[-1], classes)

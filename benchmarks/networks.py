"""Networks that the benchmarks run, with their weights, images and checkpointed parts.

What a network needs lies in a folder (``--data``) that is no part of the project:

- CIFAR ResNet-20 (He et al., arXiv 1512.03385; shortcuts without parameters), batch 128:
  `weights/resnet20_cifar10.pt`, a state_dict with `conv1, bn1, layerL.i.{conv,bn}{1,2}, linear`, as
  github.com/akamaster/pytorch_resnet_cifar10 has them, and `cifar10_subset.npz` with `x_train` (n,
  32, 32, 3) and `y_train`, uint8, of CIFAR-10.
- EfficientNet-Lite0, ImageNet weights, batch 8: the packages of `actdma[demo]`; photographs from
  `imagenet_samples.npz` (`images`, (n, 224, 224, 3), uint8), else those of scikit-image.
- SqueezeNet 1.1 (arXiv 1602.07360; its convolutions, a ReLU behind each, no normalisation), batch
  8: `weights/squeezenet1_1_features_imagenet.pt`, a state_dict with `conv1` and
  `fireN.{squeeze1x1,expand1x1,expand3x3}`, and `imagenet_samples.npz` as above.
- A transformer encoder with GELU (4 layers, width 256, random weights), batch 32: CIFAR-10, too.
- A ReLU CNN (four times 3 x 3 convolution, ReLU, 2 x 2 max-pool; no normalisation), batch 128:
  CIFAR-10, too. As He et al. (arXiv 1502.01852) initialise it, half of what a ReLU gives is zero;
  trained for 50 steps, more.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from actdma.measure.inputs import (
    DEFAULT_MODEL,
    IMAGENET,
    LITE,
    Normalisation,
    load_images,
    load_model,
)

CIFAR = "cifar10_subset.npz"
PHOTOGRAPHS = "imagenet_samples.npz"
RESNET20 = "weights/resnet20_cifar10.pt"
SQUEEZENET = "weights/squeezenet1_1_features_imagenet.pt"
CLASSES = 10
ORDERS = {"contiguous": torch.contiguous_format, "channels_last": torch.channels_last}
TRAINING_STEPS = 50


@dataclasses.dataclass(frozen=True)
class Work:
    """A network in train mode, a batch, and the names of the blocks that are checkpointed."""

    model: nn.Module
    images: torch.Tensor
    labels: torch.Tensor
    blocks: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Network:
    """A network by name, with what it needs.

    ``build`` and ``images`` take the folder of the data, in which ``files`` must be, or None:
    random weights where there are no published ones, and random images. ``images`` gives
    (batch, 3, height, width), float32. ``blocks``: what activation checkpointing computes again,
    one by one. ``maps``: it has feature maps, whose memory order matters.
    """

    name: str
    batch: int
    build: Callable[[Path | None], nn.Module]
    images: Callable[[Path | None, int], torch.Tensor]
    blocks: Callable[[nn.Module], Iterable[nn.Module]]
    files: tuple[str, ...] = ()
    maps: bool = True

    def lacks(self, folder: Path) -> list[str]:
        """Those of its files that are not in ``folder``."""
        return [file for file in self.files if not (folder / file).exists()]

    def work(self, folder: Path | None, batch: int | None = None) -> Work:
        """What it computes on; random data where ``folder`` lacks something."""
        torch.manual_seed(0)
        folder = None if folder and self.lacks(folder) else folder
        model = self.build(folder).train()
        names = {id(module): name for name, module in model.named_modules()}
        return Work(
            model,
            self.images(folder, batch or self.batch),
            torch.arange(batch or self.batch) % CLASSES,
            tuple(names[id(block)] for block in self.blocks(model)),
        )


class Block(nn.Module):
    def __init__(self, before: int, channels: int) -> None:
        super().__init__()
        self.stride = 1 if before == channels else 2
        self.conv1 = nn.Conv2d(before, channels, 3, self.stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.added = (channels - before) // 2

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        if self.stride == 2:
            x = F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, self.added, self.added))
        return F.relu(x + y)


class ResNet20(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        self.layer1 = nn.Sequential(*(Block(16, 16) for _ in range(3)))
        self.layer2 = nn.Sequential(Block(16, 32), Block(32, 32), Block(32, 32))
        self.layer3 = nn.Sequential(Block(32, 64), Block(64, 64), Block(64, 64))
        self.linear = nn.Linear(64, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu(self.bn1(self.conv1(x)))
        x = self.layer3(self.layer2(self.layer1(x)))
        return self.linear(F.avg_pool2d(x, 8).flatten(1))


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 256, 4, stride=4)
        layer = nn.TransformerEncoderLayer(
            256, 8, 1024, dropout=0.1, activation="gelu", batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
        self.head = nn.Linear(256, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tokens = self.patches(x).flatten(2).transpose(1, 2)
        return self.head(self.encoder(tokens).mean(1))


class Fire(nn.Module):
    def __init__(self, before: int, squeezed: int, expanded: int) -> None:
        super().__init__()
        self.squeeze1x1 = nn.Conv2d(before, squeezed, 1)
        self.expand1x1 = nn.Conv2d(squeezed, expanded, 1)
        self.expand3x3 = nn.Conv2d(squeezed, expanded, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu(self.squeeze1x1(x))
        return torch.cat([F.relu(self.expand1x1(x)), F.relu(self.expand3x3(x))], 1)


class SqueezeNet(nn.Module):
    """The convolutions of SqueezeNet 1.1; ten average maps stand for its classes."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 3, 2)
        sizes = [(64, 16, 64), (128, 16, 64), (128, 32, 128), (256, 32, 128)]
        sizes += [(256, 48, 192), (384, 48, 192), (384, 64, 256), (512, 64, 256)]
        for number, size in enumerate(sizes, 2):
            self.add_module(f"fire{number}", Fire(*size))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu(self.conv1(x))
        for number in range(2, 10):
            if number in (2, 4, 6):
                x = F.max_pool2d(x, 3, 2, ceil_mode=True)
            x = self.get_submodule(f"fire{number}")(x)
        return x.mean((2, 3))[:, :CLASSES]


def relu_cnn() -> nn.Sequential:
    """Convolution, ReLU and max-pool, four times, for images of 32 x 32."""
    stages, before = [], 3
    for channels in (32, 64, 128, 256):
        convolution = nn.Conv2d(before, channels, 3, padding=1)
        nn.init.kaiming_normal_(convolution.weight, nonlinearity="relu")
        nn.init.zeros_(convolution.bias)
        stages.append(nn.Sequential(convolution, nn.ReLU(), nn.MaxPool2d(2)))
        before = channels
    return nn.Sequential(*stages, nn.Flatten(), nn.Linear(before * 2 * 2, CLASSES))


def trained_relu_cnn(folder: Path | None) -> nn.Module:
    """`relu_cnn` after a few steps of SGD with momentum on CIFAR-10."""
    model = relu_cnn()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, weight_decay=5e-4)
    images, labels = cifar(folder, 128 * TRAINING_STEPS), cifar_labels(folder, 128 * TRAINING_STEPS)
    for x, y in zip(images.split(128), labels.split(128), strict=True):
        optimiser.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimiser.step()
    return model


def with_weights(model: nn.Module, folder: Path | None, file: str) -> nn.Module:
    """``model`` with the weights of a file in ``folder``, where there is one."""
    if folder:
        model.load_state_dict(torch.load(folder / file, weights_only=True))
    return model


def random_images(count: int, side: int) -> torch.Tensor:
    return torch.randn(count, 3, side, side, generator=torch.Generator().manual_seed(0))


def normalised(pixels: np.ndarray, normalisation: Normalisation) -> torch.Tensor:
    """Images (n, height, width, 3), uint8, as (n, 3, height, width), float32."""
    mean, deviation = (
        torch.tensor(v).view(3, 1, 1) for v in (normalisation.mean, normalisation.deviation)
    )
    return ((torch.from_numpy(pixels).permute(0, 3, 1, 2) - mean) / deviation).contiguous()


def cifar(folder: Path | None, count: int) -> torch.Tensor:
    if folder is None:
        return random_images(count, 32)
    return normalised(np.load(folder / CIFAR)["x_train"][:count], IMAGENET)


def cifar_labels(folder: Path | None, count: int) -> torch.Tensor:
    if folder is None:
        return torch.arange(count) % CLASSES
    return torch.from_numpy(np.load(folder / CIFAR)["y_train"][:count]).long()


def photographs(folder: Path | None, count: int) -> torch.Tensor:
    if folder is None or not (folder / PHOTOGRAPHS).exists():
        return load_images(None, count, LITE)
    return normalised(np.load(folder / PHOTOGRAPHS)["images"][:count], LITE)


def squeezenet_photographs(folder: Path | None, count: int) -> torch.Tensor:
    """Its weights want blue, green, red, from 0 to 255, less the means."""
    if folder is None:
        return random_images(count, 224) * 60
    pixels = np.load(folder / PHOTOGRAPHS)["images"][:count][..., ::-1].copy()
    return normalised(pixels, Normalisation((103.939, 116.779, 123.68), (1, 1, 1)))


def residual_blocks(model: nn.Module) -> Iterator[nn.Module]:
    return (module for module in model.modules() if isinstance(module, Block))


RELU_CNN = Network(
    "ReLU CNN, trained",
    128,
    trained_relu_cnn,
    cifar,
    lambda model: model[:4],
    (CIFAR,),
)
FRESH_RELU_CNN = dataclasses.replace(
    RELU_CNN, name="ReLU CNN, initialised", build=lambda folder: relu_cnn()
)
RESNET_20 = Network(
    "ResNet-20",
    128,
    lambda folder: with_weights(ResNet20(), folder, RESNET20),
    cifar,
    residual_blocks,
    (CIFAR, RESNET20),
)
SQUEEZENET_1_1 = Network(
    "SqueezeNet 1.1",
    8,
    lambda folder: with_weights(SqueezeNet(), folder, SQUEEZENET),
    squeezenet_photographs,
    lambda model: (m for m in model.modules() if isinstance(m, Fire)),
    (PHOTOGRAPHS, SQUEEZENET),
)
EFFICIENTNET_LITE0 = Network(
    "EfficientNet-Lite0",
    8,
    lambda folder: load_model(DEFAULT_MODEL, 0)[0],
    photographs,
    lambda model: model._blocks,
)
GELU_TRANSFORMER = Network(
    "GELU transformer",
    32,
    lambda folder: Transformer(),
    cifar,
    lambda model: model.encoder.layers,
    (CIFAR,),
    maps=False,
)

"""Networks that the benchmarks run, with their weights, images and checkpointed parts.

What a network needs lies in a folder (``--data``) that is no part of the project:

- CIFAR ResNet-20, batch 128: its weights (`zoo.WEIGHTS`), and CIFAR-10 as `images.py` has it.
- EfficientNet-Lite0, ImageNet weights, batch 8: the packages of `actdma[demo]`; photographs from
  `imagenet_samples.npz` (`images`, (n, 224, 224, 3), uint8), else those of scikit-image.
- SqueezeNet 1.1, batch 8: the weights of its features, the classifier's being random, and
  `imagenet_samples.npz` as above.
- AlexNet and Network in Network, batch 8, OverFeat, VGG-16 and GoogLeNet, batch 4, random weights:
  photographs as above.
- A transformer encoder with GELU (4 layers, width 256, random weights), batch 32: CIFAR-10, too.
- A ReLU CNN, batch 128: CIFAR-10, too. Half of what a ReLU gives is zero; trained for 50 steps,
  more.
- ResNet-50 and MobileNetV2, random weights, batch 8: photographs as above, in half their size.
- ViT-Ti with patches of 4 x 4, random weights, dropout 0.1, batch 32: CIFAR-10, too.
- GPT of four blocks (width 256, 4 heads, dropout 0.1), random weights, 16 x 128 random tokens.

What they are like, `actdma.measure.zoo` says.
"""

from __future__ import annotations

import argparse
import dataclasses
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from common import add_networks, at_least_one, existing_folder
from images import CIFAR, CLASSES, cifar, cifar_labels, normalised, random_images
from saved import Saved, saved_by
from torch import nn
from torch.nn import functional as F
from tqdm import tqdm

from actdma.measure import zoo
from actdma.measure.inputs import (
    DEFAULT_MODEL,
    LITE,
    Normalisation,
    load_images,
    load_model,
)

PHOTOGRAPHS = "imagenet_samples.npz"
ORDERS = {"contiguous": torch.contiguous_format, "channels_last": torch.channels_last}
TRAINING_STEPS = 50
VOCABULARY, CONTEXT = 256, 128  # of the GPT: bytes


@dataclasses.dataclass(frozen=True)
class Work:
    """A network in train mode, a batch, and the names of the blocks that are checkpointed.

    ``labels``: a class for each row of logits, (batch,), or (batch, tokens).
    """

    model: nn.Module
    images: torch.Tensor
    labels: torch.Tensor
    blocks: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Network:
    """A network by name, with what it needs.

    ``build`` and ``images`` take the folder of the data, in which ``files`` must be, or None:
    random weights where there are no published ones, and random images. ``images`` gives
    (batch, 3, height, width), float32, or tokens, (batch, tokens), int64, of which the network
    tells the next. ``weights`` and ``source``: where those and these come from. ``blocks``: what
    activation checkpointing computes again, one by one. ``maps``: it has feature maps, whose memory
    order matters.
    """

    name: str
    batch: int
    build: Callable[[Path | None], nn.Module]
    images: Callable[[Path | None, int], torch.Tensor]
    blocks: Callable[[nn.Module], Iterable[nn.Module]]
    files: tuple[str, ...] = ()
    maps: bool = True
    weights: str = "random"
    source: str = "CIFAR-10"

    def lacks(self, folder: Path) -> list[str]:
        """Those of its files that are not in ``folder``."""
        return [file for file in self.files if not (folder / file).exists()]

    def origin(self, folder: Path | None) -> tuple[str, str]:
        """Where its weights and images come from, in words."""
        if self.files and (folder is None or self.lacks(folder)):
            return "random", "stand-ins"
        return self.weights, self.source

    def work(self, folder: Path | None, batch: int | None = None) -> Work:
        """What it computes on; random data, with a warning, where ``folder`` lacks something."""
        torch.manual_seed(0)
        if folder and (lacking := self.lacks(folder)):
            warnings.warn(
                f"{self.name}: {folder} has no {', no '.join(lacking)}; random weights and images "
                "stand in",
                stacklevel=2,
            )
            folder = None
        model = self.build(folder).train()
        names = {id(module): name for name, module in model.named_modules()}
        images = self.images(folder, batch or self.batch)
        tokens = not images.is_floating_point()
        return Work(
            model,
            images,
            images.roll(-1, 1) if tokens else torch.arange(len(images)) % CLASSES,
            tuple(names[id(block)] for block in self.blocks(model)),
        )


def trained_relu_cnn(folder: Path | None) -> nn.Module:
    """The ReLU CNN after a few steps of SGD with momentum on CIFAR-10."""
    model = zoo.build("relu-cnn")
    optimiser = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, weight_decay=5e-4)
    images, labels = cifar(folder, 128 * TRAINING_STEPS), cifar_labels(folder, 128 * TRAINING_STEPS)
    for x, y in zip(images.split(128), labels.split(128), strict=True):
        optimiser.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimiser.step()
    return model


def parser_of(doc: str, networks: Sequence[Network]) -> argparse.ArgumentParser:
    """Arguments of a benchmark of steps of ``networks``; ``doc``: its docstring."""
    parser = argparse.ArgumentParser(description=doc.partition("\n")[0])
    names = [network.name for network in networks]
    parser.add_argument(
        "--data", type=existing_folder, metavar="FOLDER", help="see the head of networks.py"
    )
    add_networks(parser, names)
    parser.add_argument(
        "--batch", type=at_least_one, help="images per step (default: the network's own)"
    )
    parser.add_argument("--threads", type=at_least_one, default=2)
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--docs", type=Path, help="write the table to this Markdown file")
    return parser


def studied(
    networks: Sequence[Network], args: argparse.Namespace
) -> Iterator[tuple[Network, dict[str, str]]]:
    """Those of ``networks`` that ``args`` (of `parser_of`) name, one by one, and what its rows
    begin with."""
    for network in tqdm([n for n in networks if n.name in args.network], unit="network"):
        weights, source = network.origin(args.data)
        name = f"{network.name}, batch {args.batch or network.batch}"
        yield network, {"network": name, "weights": weights, "input": source}


def saved_by_network(network: Network, args: argparse.Namespace) -> list[Saved]:
    """What a step of the network saves; ``args``: those of `parser_of`."""
    work = network.work(args.data, args.batch)
    return saved_by(work.model, work.images)


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


def half_photographs(folder: Path | None, count: int) -> torch.Tensor:
    """Those of 224 x 224 in 112 x 112, which a step on two cores gets done with in a second."""
    return F.avg_pool2d(photographs(folder, count), 2)


def photographs_of_231(folder: Path | None, count: int) -> torch.Tensor:
    """Those of 224 x 224 interpolated to OverFeat's 231 x 231."""
    return F.interpolate(
        photographs(folder, count), zoo.SIDES["overfeat"], mode="bilinear", antialias=True
    )


def random_tokens(folder: Path | None, count: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randint(VOCABULARY, (count, CONTEXT), generator=generator)


def residual_blocks(model: nn.Module) -> Iterator[nn.Module]:
    return (module for module in model.modules() if isinstance(module, zoo.Residual))


RELU_CNN = Network(
    "ReLU CNN, trained",
    128,
    trained_relu_cnn,
    cifar,
    lambda model: model[:4],
    (CIFAR,),
    weights="trained for 50 steps",
)
FRESH_RELU_CNN = dataclasses.replace(
    RELU_CNN,
    name="ReLU CNN, initialised",
    build=lambda folder: zoo.build("relu-cnn"),
    weights="random",
)
RESNET_20 = Network(
    "ResNet-20",
    128,
    lambda folder: zoo.build("resnet20", weights=folder),
    cifar,
    residual_blocks,
    (CIFAR, zoo.WEIGHTS["resnet20"]),
    weights="published",
)
SQUEEZENET_1_1 = Network(
    "SqueezeNet 1.1",
    8,
    lambda folder: zoo.build("squeezenet", weights=folder),
    squeezenet_photographs,
    lambda model: (m for m in model.modules() if isinstance(m, zoo.Fire)),
    (PHOTOGRAPHS, zoo.WEIGHTS["squeezenet"]),
    weights="published, of the classifier random",
    source="photographs",
)
EFFICIENTNET_LITE0 = Network(
    "EfficientNet-Lite0",
    8,
    lambda folder: load_model(DEFAULT_MODEL, 0).model,
    photographs,
    lambda model: model._blocks,
    weights="published",
    source="photographs",
)
GELU_TRANSFORMER = Network(
    "GELU transformer",
    32,
    lambda folder: zoo.build("gelu-transformer"),
    cifar,
    lambda model: model.encoder.layers,
    (CIFAR,),
    maps=False,
)
RESNET_50 = Network(
    "ResNet-50",
    8,
    lambda folder: zoo.build("resnet50"),
    half_photographs,
    residual_blocks,
    (PHOTOGRAPHS,),
    source="photographs",
)
MOBILENET_V2 = Network(
    "MobileNetV2",
    8,
    lambda folder: zoo.build("mobilenetv2"),
    half_photographs,
    lambda model: (m for m in model.modules() if isinstance(m, zoo.InvertedResidual)),
    (PHOTOGRAPHS,),
    source="photographs",
)
VIT = Network(
    "ViT-Ti/4",
    32,
    lambda folder: zoo.build("vit-tiny", classes=CLASSES, side=32, patch=4),
    cifar,
    lambda model: model.blocks,
    (CIFAR,),
    maps=False,
)
GPT = Network(
    "GPT, 4 blocks",
    16,
    lambda folder: zoo.build(
        "gpt", width=256, depth=4, heads=4, vocabulary=VOCABULARY, context=CONTEXT
    ),
    random_tokens,
    lambda model: model.blocks,
    maps=False,
    source="random tokens",
)


def _of_cdma(
    title: str,
    name: str,
    batch: int,
    images: Callable[[Path | None, int], torch.Tensor] = photographs,
) -> Network:
    """A network of cDMA (arXiv 1705.01626) that has no published weights here."""
    return Network(
        title,
        batch,
        lambda folder: zoo.build(name),
        images,
        lambda model: (m for m in model.modules() if isinstance(m, zoo.Inception)),
        (PHOTOGRAPHS,),
        source="photographs",
    )


ALEXNET = _of_cdma("AlexNet", "alexnet", 8)
OVERFEAT = _of_cdma("OverFeat", "overfeat", 4, photographs_of_231)
NIN = _of_cdma("NiN", "nin", 8)
VGG_16 = _of_cdma("VGG-16", "vgg16", 4)
GOOGLENET = _of_cdma("GoogLeNet", "googlenet", 4)

"""Networks by name, as their papers describe them, without torchvision.

Those for images take float32 of shape (batch, 3, height, width) and give logits (batch, classes).
`UNet` has no name: it gives images.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

from .branched import Fire, Inception, googlenet, squeezenet
from .diffusion import UNet
from .mobile import InvertedResidual, mobilenet_v2
from .plain import alexnet, nin, overfeat, relu_cnn, vgg16
from .residual import Residual, basic, bottleneck, cifar_resnet, imagenet_resnet
from .tokens import GPT, GeluTransformer, ResMLP, ViT

__all__ = [
    "NETWORKS",
    "OF_TOKENS",
    "PARTS",
    "SIDES",
    "WEIGHTS",
    "Fire",
    "Inception",
    "InvertedResidual",
    "Residual",
    "UNet",
    "build",
    "cifar_resnet",
]

# Where published weights lie in a folder of data, as state_dicts.
WEIGHTS = {
    "resnet20": "weights/resnet20_cifar10.pt",
    "resnet56": "weights/resnet56_cifar10.pt",
    "squeezenet": "weights/squeezenet1_1_features_imagenet.pt",
}

# Sides of the images of networks that are not for 224 x 224.
SIDES = {
    "overfeat": 231,
    **dict.fromkeys(("resnet20", "resnet32", "resnet56", "relu-cnn", "gelu-transformer"), 32),
}

# Networks that take tokens, (batch, tokens), int64, in place of images.
OF_TOKENS = {"gpt"}

# The part of a network that has published weights, where the rest has none.
PARTS = {"squeezenet": "features"}


def build(name: str, *, weights: Path | None = None, **options: object) -> nn.Module:
    """The network called ``name`` (one of `NETWORKS`), in train mode.

    ``weights``: the folder of data, in which the published weights (`WEIGHTS`) are; None: random
    ones, from PyTorch's generator. ``options`` are those of the network, such as ``classes``.
    ValueError for an unknown name and where there are no published weights.
    """
    if name not in NETWORKS:
        raise ValueError(f"unknown network {name!r}; known are {', '.join(map(repr, NETWORKS))}")
    if weights is not None and name not in WEIGHTS:
        known = ", ".join(map(repr, WEIGHTS))
        raise ValueError(f"there are no weights of {name!r}; there are those of {known}")
    model = NETWORKS[name](**options)
    if weights is not None:
        state = torch.load(weights / WEIGHTS[name], weights_only=True)
        model.get_submodule(PARTS.get(name, "")).load_state_dict(state)
    return model


_BASIC = {"block": basic, "widths": (64, 128, 256, 512)}
_BOTTLENECK = {"block": bottleneck, "widths": (256, 512, 1024, 2048)}

NETWORKS: dict[str, Callable[..., nn.Module]] = {
    "resnet20": functools.partial(cifar_resnet, 20),
    "resnet32": functools.partial(cifar_resnet, 32),
    "resnet56": functools.partial(cifar_resnet, 56),
    "resnet18": functools.partial(imagenet_resnet, (2, 2, 2, 2), **_BASIC),
    "resnet50": functools.partial(imagenet_resnet, (3, 4, 6, 3), **_BOTTLENECK),
    "mobilenetv2": mobilenet_v2,
    "alexnet": alexnet,
    "overfeat": overfeat,
    "nin": nin,
    "vgg16": vgg16,
    "squeezenet": squeezenet,
    "squeezenet1.0": functools.partial(squeezenet, version="1.0"),
    "googlenet": googlenet,
    "relu-cnn": relu_cnn,
    "vit-tiny": functools.partial(ViT, width=192, depth=12, heads=3),
    "vit-small": functools.partial(ViT, width=384, depth=12, heads=6),
    "vit-base": functools.partial(ViT, width=768, depth=12, heads=12),
    "gpt": GPT,
    "gelu-transformer": GeluTransformer,
    "resmlp-s12": ResMLP,
}

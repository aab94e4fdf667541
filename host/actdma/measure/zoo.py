"""Networks by name, as their papers describe them, without torchvision.

Those for images take float32 of shape (batch, 3, height, width) and give logits (batch, classes).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

# Where published weights lie in a folder of data, as state_dicts.
WEIGHTS = {
    "resnet20": "weights/resnet20_cifar10.pt",
    "resnet56": "weights/resnet56_cifar10.pt",
    "squeezenet": "weights/squeezenet1_1_features_imagenet.pt",
}


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
        model.load_state_dict(torch.load(weights / WEIGHTS[name], weights_only=True))
    return model


def convolution(
    before: int, channels: int, size: int, stride: int = 1, groups: int = 1
) -> nn.Conv2d:
    """A convolution in front of a normalisation: no bias, padded so that stride 1 keeps the map."""
    return nn.Conv2d(before, channels, size, stride, size // 2, groups=groups, bias=False)


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
    return _kaiming(ResNet(convolution(3, 16, 3), nn.Identity(), stages, nn.Linear(64, classes)))


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
    return _kaiming(ResNet(stem, pool, stages, nn.Linear(before, classes)))


def _kaiming(model: nn.Module) -> nn.Module:
    """``model`` with its convolutions initialised for ReLU (He et al., arXiv 1502.01852)."""
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    return model


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
    return _kaiming(
        nn.Sequential(*_relu6(3, 32, 3, stride), *blocks, *_relu6(before, 1280, 1), *head)
    )


class Fire(nn.Module):
    """Fire module: a 1 x 1 convolution, and of its result 1 x 1 and 3 x 3 ones side by side."""

    def __init__(self, before: int, squeezed: int, expanded: int) -> None:
        super().__init__()
        self.squeeze1x1 = nn.Conv2d(before, squeezed, 1)
        self.expand1x1 = nn.Conv2d(squeezed, expanded, 1)
        self.expand3x3 = nn.Conv2d(squeezed, expanded, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, before, height, width) to (batch, 2 expanded, height, width)."""
        x = F.relu(self.squeeze1x1(x))
        return torch.cat([F.relu(self.expand1x1(x)), F.relu(self.expand3x3(x))], 1)


class SqueezeNet(nn.Module):
    """Features of SqueezeNet 1.1 (Iandola et al., arXiv 1602.07360); no normalisation.

    Their first maps' means stand for the ``classes``, up to 512. ``state_dict`` has `conv1` and
    `fireN.{squeeze1x1,expand1x1,expand3x3}`.
    """

    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        self.classes = classes
        self.conv1 = nn.Conv2d(3, 64, 3, 2)
        sizes = [(64, 16, 64), (128, 16, 64), (128, 32, 128), (256, 32, 128)]
        sizes += [(256, 48, 192), (384, 48, 192), (384, 64, 256), (512, 64, 256)]
        for number, size in enumerate(sizes, 2):
            self.add_module(f"fire{number}", Fire(*size))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Images to logits."""
        x = F.relu(self.conv1(x))
        for number in range(2, 10):
            if number in (2, 4, 6):
                x = F.max_pool2d(x, 3, 2, ceil_mode=True)
            x = self.get_submodule(f"fire{number}")(x)
        return x.mean((2, 3))[:, : self.classes]


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


class Patches(nn.Module):
    """Square patches of images, each projected to ``width`` numbers."""

    def __init__(self, side: int, patch: int, width: int) -> None:
        super().__init__()
        if side % patch:
            raise ValueError(f"patches of {patch} do not divide images of {side}")
        self.count = (side // patch) ** 2
        self.project = nn.Conv2d(3, width, patch, patch)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, 3, side, side) to (batch, count, width)."""
        return self.project(x).flatten(2).transpose(1, 2)


def gelu_mlp(width: int, dropout: float = 0.0) -> nn.Sequential:
    """Two layers, four times as wide between them."""
    return nn.Sequential(
        nn.Linear(width, 4 * width), nn.GELU(), nn.Dropout(dropout), nn.Linear(4 * width, width)
    )


class Attention(nn.Module):
    """Self-attention with several heads (Vaswani et al., arXiv 1706.03762)."""

    def __init__(self, width: int, heads: int, causal: bool) -> None:
        super().__init__()
        if width % heads:
            raise ValueError(f"{heads} heads do not divide a width of {width}")
        self.heads, self.causal = heads, causal
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, tokens, width) to the same."""
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.out(y.transpose(1, 2).flatten(2))


class TransformerBlock(nn.Module):
    """Attention and `gelu_mlp`, normalised in front (pre-LN), dropout behind, each added."""

    def __init__(self, width: int, heads: int, dropout: float = 0.0, causal: bool = False) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = Attention(width, heads, causal)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = gelu_mlp(width, dropout)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, tokens, width) to the same."""
        x = x + self.dropout(self.attention(self.norm1(x)))
        return x + self.dropout(self.mlp(self.norm2(x)))


class ViT(nn.Module):
    """Vision transformer (Dosovitskiy et al., arXiv 2010.11929) with a class token."""

    def __init__(
        self,
        width: int,
        depth: int,
        heads: int,
        *,
        classes: int = 1000,
        side: int = 224,
        patch: int = 16,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        self.patches = Patches(side, patch, width)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(torch.randn(1, self.patches.count + 1, width) * 0.02)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.Sequential(
            *(TransformerBlock(width, heads, dropout) for _ in range(depth))
        )
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Images to logits."""
        x = torch.cat([self.token.expand(len(x), -1, -1), self.patches(x)], 1)
        x = self.blocks(self.dropout(x + self.positions))
        return self.head(self.norm(x)[:, 0])


class GPT(nn.Module):
    """Causal transformer (GPT-2, Radford et al. 2019) with the embedding as its last layer."""

    def __init__(
        self,
        width: int = 768,
        depth: int = 12,
        heads: int = 12,
        *,
        vocabulary: int = 50257,
        context: int = 1024,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(context, width)
        nn.init.normal_(self.tokens.weight, std=0.02)
        nn.init.normal_(self.positions.weight, std=0.02)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.Sequential(
            *(TransformerBlock(width, heads, dropout, causal=True) for _ in range(depth))
        )
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Tokens (batch, n), int64, to logits (batch, n, vocabulary)."""
        place = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.blocks(self.dropout(self.tokens(tokens) + self.positions(place)))
        return F.linear(self.norm(x), self.tokens.weight)


class GeluTransformer(nn.Module):
    """PyTorch's own transformer encoder (pre-LN, GELU) over patches of 4 x 4, for 32 x 32."""

    def __init__(self, classes: int = 10, width: int = 256, depth: int = 4) -> None:
        super().__init__()
        self.patches = Patches(32, 4, width)
        layer = nn.TransformerEncoderLayer(
            width, 8, 4 * width, dropout=0.1, activation="gelu", batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = nn.Linear(width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Images to logits."""
        return self.head(self.encoder(self.patches(x)).mean(1))


class Affine(nn.Module):
    """Scale and shift of each channel: ResMLP has it in place of a normalisation."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))
        self.shift = nn.Parameter(torch.zeros(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(..., width) to the same."""
        return torch.addcmul(self.shift, x, self.scale)


class LayerScale(nn.Module):
    """Scale of each channel (Touvron et al., arXiv 2103.17239)."""

    def __init__(self, width: int, value: float) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.full((width,), value))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(..., width) to the same."""
        return x * self.scale


class ResMLPBlock(nn.Module):
    """A linear layer across patches, then `gelu_mlp` across channels, each scaled and added."""

    def __init__(self, patches: int, width: int, scale: float) -> None:
        super().__init__()
        self.affine1, self.affine2 = Affine(width), Affine(width)
        self.across = nn.Linear(patches, patches)
        self.mlp = gelu_mlp(width)
        self.scale1, self.scale2 = LayerScale(width, scale), LayerScale(width, scale)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, patches, width) to the same."""
        y = self.across(self.affine1(x).transpose(1, 2)).transpose(1, 2)
        x = x + self.scale1(y)
        return x + self.scale2(self.mlp(self.affine2(x)))


class ResMLP(nn.Module):
    """ResMLP (Touvron et al., arXiv 2105.03404)."""

    def __init__(
        self,
        width: int = 384,
        depth: int = 12,
        *,
        classes: int = 1000,
        side: int = 224,
        patch: int = 16,
    ) -> None:
        super().__init__()
        scale = 0.1 if depth <= 18 else 1e-5
        self.patches = Patches(side, patch, width)
        self.blocks = nn.Sequential(
            *(ResMLPBlock(self.patches.count, width, scale) for _ in range(depth))
        )
        self.affine = Affine(width)
        self.head = nn.Linear(width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Images to logits."""
        return self.head(self.affine(self.blocks(self.patches(x))).mean(1))


_BASIC = {"block": basic, "widths": (64, 128, 256, 512)}
_BOTTLENECK = {"block": bottleneck, "widths": (256, 512, 1024, 2048)}

NETWORKS: dict[str, Callable[..., nn.Module]] = {
    "resnet20": functools.partial(cifar_resnet, 20),
    "resnet32": functools.partial(cifar_resnet, 32),
    "resnet56": functools.partial(cifar_resnet, 56),
    "resnet18": functools.partial(imagenet_resnet, (2, 2, 2, 2), **_BASIC),
    "resnet50": functools.partial(imagenet_resnet, (3, 4, 6, 3), **_BOTTLENECK),
    "mobilenetv2": mobilenet_v2,
    "squeezenet": SqueezeNet,
    "relu-cnn": relu_cnn,
    "vit-tiny": functools.partial(ViT, width=192, depth=12, heads=3),
    "vit-small": functools.partial(ViT, width=384, depth=12, heads=6),
    "vit-base": functools.partial(ViT, width=768, depth=12, heads=12),
    "gpt": GPT,
    "gelu-transformer": GeluTransformer,
    "resmlp-s12": ResMLP,
}

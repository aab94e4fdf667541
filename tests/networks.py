"""Small networks of the kinds that must come out bit-identical, and a step through them."""

import contextlib
import warnings

import torch
from torch import nn


def relu_cnn():
    """Convolutions, ReLU, max-pool (int64 indices), dropout."""
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.3),
        nn.Linear(32 * 8 * 8, 10),
    )


class Residual(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(channels)

    def forward(self, x):
        y = torch.relu(self.norm1(self.conv1(x)))
        return torch.relu(x + self.norm2(self.conv2(y)))


def resnet():
    """Residual blocks with batch normalisation."""
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        Residual(16),
        nn.Conv2d(16, 24, 3, stride=2, padding=1),
        Residual(24),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(24, 10),
    )


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, 64, 4, stride=4)
        layer = nn.TransformerEncoderLayer(64, 4, 128, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(64, 10)

    def forward(self, x):
        tokens = self.patches(x).flatten(2).transpose(1, 2)
        return self.head(self.encoder(tokens).mean(1))


def efficientnet_lite0():
    """The main job's network, with its ImageNet weights."""
    from actdma.measure.inputs import load_model

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return load_model("efficientnet-lite0", 0).model


def images(batch=4, size=32):
    return torch.randn(batch, 3, size, size, generator=torch.Generator().manual_seed(1))


def step(model, x, session=None, *, inside=False):
    """Gradients of a step by name, the same every time; ``inside``: backward in the block."""
    torch.manual_seed(0)
    model.zero_grad(set_to_none=True)
    labels = torch.arange(len(x)) % 10
    with session or contextlib.nullcontext():
        loss = nn.functional.cross_entropy(model(x), labels)
        if inside:
            loss.backward()
    if not inside:
        loss.backward()
    return {name: p.grad for name, p in model.named_parameters()}

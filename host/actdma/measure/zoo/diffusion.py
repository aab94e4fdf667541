"""The U-Net of diffusion models (Ho et al., arXiv 2006.11239)."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import torch
from torch import nn

from .tokens import Attention

_GROUPS = 8


def _normalised(channels: int) -> nn.Sequential:
    """Group normalisation and SiLU, in front of a layer."""
    return nn.Sequential(nn.GroupNorm(_GROUPS, channels), nn.SiLU())


class Times(nn.Module):
    """Time steps as sines and cosines of falling frequencies, through two layers."""

    def __init__(self, width: int, channels: int) -> None:
        super().__init__()
        frequencies = torch.exp(-math.log(10_000) * torch.arange(width // 2) / (width // 2))
        self.register_buffer("frequencies", frequencies, persistent=False)
        self.layers = nn.Sequential(
            nn.Linear(width, channels), nn.SiLU(), nn.Linear(channels, channels)
        )

    def forward(self, t: torch.Tensor) -> torch.Tensor:
        """Time steps (batch,) to (batch, channels)."""
        angles = t[:, None] * self.frequencies
        return self.layers(torch.cat([angles.sin(), angles.cos()], 1))


class TimedUnit(nn.Module):
    """Residual unit of two convolutions; the time shifts its channels between them."""

    def __init__(self, before: int, channels: int, times: int, dropout: float) -> None:
        super().__init__()
        self.norm1 = _normalised(before)
        self.conv1 = nn.Conv2d(before, channels, 3, padding=1)
        self.shift = nn.Sequential(nn.SiLU(), nn.Linear(times, channels))
        self.norm2 = _normalised(channels)
        self.dropout = nn.Dropout(dropout)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1)
        self.shortcut = nn.Identity() if before == channels else nn.Conv2d(before, channels, 1)

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        """(batch, before, height, width) and (batch, times) to the unit's channels."""
        y = self.conv1(self.norm1(x)) + self.shift(time)[:, :, None, None]
        return self.conv2(self.dropout(self.norm2(y))) + self.shortcut(x)


class PixelAttention(nn.Module):
    """Self-attention between the pixels of a map, added to it."""

    def __init__(self, channels: int, heads: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(_GROUPS, channels)
        self.attention = Attention(channels, heads, causal=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, channels, height, width) to the same."""
        y = self.attention(self.norm(x).flatten(2).transpose(1, 2))
        return x + y.transpose(1, 2).unflatten(2, x.shape[2:])


class UNet(nn.Module):
    """The noise in images at a time of the diffusion, as the network sees it.

    ``widths``: channels at each resolution, which halves from one to the next; multiples of 8, the
    last also of ``heads``, whose attention is at the lowest resolution. ValueError else.
    """

    def __init__(
        self,
        widths: Sequence[int] = (64, 128, 256),
        *,
        channels: int = 3,
        units: int = 2,
        heads: int = 4,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        if not widths or any(width % _GROUPS for width in widths):
            raise ValueError(f"widths are {tuple(widths)}, allowed are multiples of {_GROUPS}")
        times, lowest = 4 * widths[0], widths[-1]
        unit = functools.partial(TimedUnit, times=times, dropout=dropout)
        self.times = Times(widths[0], times)
        self.stem = nn.Conv2d(channels, widths[0], 3, padding=1)
        down, kept = [], [widths[0]]  # channels of the maps that the way up is given
        for stage, width in enumerate(widths):
            if stage:
                down.append(nn.Conv2d(kept[-1], kept[-1], 3, 2, padding=1))
                kept.append(kept[-1])
            for _ in range(units):
                down.append(unit(kept[-1], width))
                kept.append(width)
        up, before = [], lowest
        for stage, width in enumerate(reversed(widths)):
            if stage:
                larger = nn.Upsample(scale_factor=2), nn.Conv2d(before, before, 3, padding=1)
                up.append(nn.Sequential(*larger))
            for _ in range(units + 1):
                up.append(unit(before + kept.pop(), width))
                before = width
        self.down, self.up = nn.ModuleList(down), nn.ModuleList(up)
        self.middle1, self.middle2 = unit(lowest, lowest), unit(lowest, lowest)
        self.attention = PixelAttention(lowest, heads)
        self.norm = _normalised(before)
        self.out = nn.Conv2d(before, channels, 3, padding=1)

    def forward(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        """Noisy images (batch, channels, height, width) and their time steps (batch,) to the noise,
        of the images' shape. Sides have to halve without a rest for each resolution but the
        first."""
        time, x = self.times(t), self.stem(x)
        maps = [x]
        for layer in self.down:
            x = layer(x, time) if isinstance(layer, TimedUnit) else layer(x)
            maps.append(x)
        x = self.middle2(self.attention(self.middle1(x, time)), time)
        for layer in self.up:
            if isinstance(layer, TimedUnit):
                x = layer(torch.cat([x, maps.pop()], 1), time)
            else:
                x = layer(x)
        return self.out(self.norm(x))

"""CIFAR-10 for training: training, validation and test images, and augmented batches."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from images import cifar_pixels, normalised
from torch.nn import functional as F

from actdma.measure.inputs import IMAGENET, InputError

MARGIN = 4  # pixels by which a crop may move


@dataclasses.dataclass(frozen=True)
class Part:
    """Images (n, 3, 32, 32), float32, normalised, and labels (n,), int64."""

    images: torch.Tensor
    labels: torch.Tensor

    def to(self, device: str) -> Part:
        """The same on ``device``."""
        return Part(self.images.to(device), self.labels.to(device))

    def __len__(self) -> int:
        return len(self.images)


@dataclasses.dataclass(frozen=True)
class Data:
    """What a run learns from, what its schedule is chosen on, and what it is judged by."""

    train: Part
    validation: Part
    test: Part

    def to(self, device: str) -> Data:
        """The same on ``device``."""
        return Data(self.train.to(device), self.validation.to(device), self.test.to(device))


def load(folder: Path, images: int) -> Data:
    """``images`` of the training part of CIFAR-10, a tenth of them for validation; the test part.

    The choice is the same in every run. `InputError` if there are not so many images.
    """
    pixels, labels = cifar_pixels(folder, "train")
    if not 10 <= images <= len(pixels):
        raise InputError(f"--images is {images}, allowed are 10 to {len(pixels)}")
    chosen = np.random.default_rng(0).permutation(len(pixels))[:images]
    validation, train = np.split(chosen, [images // 10])
    return Data(
        _part(pixels[train], labels[train]),
        _part(pixels[validation], labels[validation]),
        _part(*cifar_pixels(folder, "test")),
    )


def _part(pixels: np.ndarray, labels: np.ndarray) -> Part:
    return Part(normalised(pixels, IMAGENET), torch.from_numpy(labels))


def batches(part: Part, size: int, generator: torch.Generator) -> Iterator[Part]:
    """An epoch: whole batches in random order, each image cropped and flipped at random."""
    order = torch.randperm(len(part), generator=generator)
    for chosen in order[: len(order) // size * size].split(size):
        index = chosen.to(part.images.device)
        yield Part(augmented(part.images[index], generator), part.labels[index])


def augmented(images: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """``images`` (n, 3, side, side) moved by up to `MARGIN`, half of them flipped at random."""
    count, channels, side, _ = images.shape
    top, left = torch.randint(2 * MARGIN + 1, (2, count, 1), generator=generator)
    flipped = torch.randint(2, (count, 1), generator=generator).bool()
    pixels = torch.arange(side)
    rows, columns = top + pixels, left + torch.where(flipped, pixels.flip(0), pixels)
    padded = F.pad(images, (MARGIN,) * 4)
    return padded[
        torch.arange(count)[:, None, None, None],
        torch.arange(channels)[:, None, None],
        rows[:, None, :, None],
        columns[:, None, None, :],
    ]

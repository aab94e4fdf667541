"""Images for the benchmarks: CIFAR-10 and photographs of a folder, or random ones.

CIFAR-10 is `cifar10_subset.npz` in that folder, with `x_train` (n, 32, 32, 3) and `y_train`, uint8,
and `x_test` and `y_test` likewise; where it is not, all of it as torchvision, if installed,
downloads it to the folder.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from actdma.measure.inputs import IMAGENET, InputError, Normalisation

CIFAR = "cifar10_subset.npz"
CLASSES = 10


def normalised(pixels: np.ndarray, normalisation: Normalisation) -> torch.Tensor:
    """Images (n, height, width, 3), uint8, as (n, 3, height, width), float32."""
    mean, deviation = (
        torch.tensor(v).view(3, 1, 1) for v in (normalisation.mean, normalisation.deviation)
    )
    return ((torch.from_numpy(pixels).permute(0, 3, 1, 2) - mean) / deviation).contiguous()


def random_images(count: int, side: int) -> torch.Tensor:
    return torch.randn(count, 3, side, side, generator=torch.Generator().manual_seed(0))


def cifar_pixels(folder: Path, part: str) -> tuple[np.ndarray, np.ndarray]:
    """Images (n, 32, 32, 3), uint8, and labels (n,), int64, of the "train" or the "test" part.

    `InputError` if they are not there and cannot be had.
    """
    if (folder / CIFAR).exists():
        arrays = np.load(folder / CIFAR)
        return arrays[f"x_{part}"], arrays[f"y_{part}"].astype(np.int64)
    try:
        from torchvision import datasets
    except ImportError as error:
        raise InputError(
            f"{folder} has no {CIFAR}, and torchvision, which downloads CIFAR-10, is missing: "
            "pip install torchvision"
        ) from error
    found = datasets.CIFAR10(folder, train=part == "train", download=True)
    return found.data, np.array(found.targets, np.int64)


def cifar(folder: Path | None, count: int, part: str = "train") -> torch.Tensor:
    """The first images, normalised: (count, 3, 32, 32), float32; random without a folder."""
    if folder is None:
        return random_images(count, 32)
    return normalised(cifar_pixels(folder, part)[0][:count], IMAGENET)


def cifar_labels(folder: Path | None, count: int, part: str = "train") -> torch.Tensor:
    """Their labels (count,), int64."""
    if folder is None:
        return torch.arange(count) % CLASSES
    return torch.from_numpy(cifar_pixels(folder, part)[1][:count])

"""What the examples share: their options, data made up on the spot, and the table at the end."""

from __future__ import annotations

import argparse

import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset

from actdma.measure.table import console_of, totals_table
from actdma.offloading import Report, text

CLASSES = 10


def options(description: str, *, steps: int, batch: int) -> argparse.Namespace:
    """The command line; ``steps`` and ``batch`` are the example's defaults."""
    parser = argparse.ArgumentParser(description=description)
    option = parser.add_argument
    option("--steps", type=int, default=steps, help="optimiser steps (default %(default)s)")
    option("--batch", type=int, default=batch, help="samples of a batch (default %(default)s)")
    option("--device", default="cpu", choices=("cpu", "cuda"), help="default %(default)s")
    option("--codec", default="auto", help="auto (default), zvc, zve, ints, rle or raw")
    option("--backend", default="native", choices=("native", "board", "reference"))
    option(
        "--exact",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="hold bits where an operator needs no more, and make tensors again (default)",
    )
    parsed = parser.parse_args()
    if parsed.steps < 1 or parsed.batch < 1:
        parser.error(f"--steps {parsed.steps} --batch {parsed.batch}: both must be at least 1")
    return parsed


def images(count: int, side: int = 32) -> Dataset:
    """Ten patterns under noise: images (3, side, side), float32, and their labels, int64."""
    generator = torch.Generator().manual_seed(0)
    patterns = torch.randn(CLASSES, 3, side, side, generator=generator)
    labels = torch.randint(CLASSES, (count,), generator=generator)
    noise = torch.randn(count, 3, side, side, generator=generator)
    return TensorDataset(patterns[labels] + 2 * noise, labels)


def sentences(count: int, length: int, vocabulary: int) -> torch.Tensor:
    """Tokens (count, length), int64: four in five follow from the one before, by a fixed rule."""
    generator = torch.Generator().manual_seed(0)
    successor = torch.randperm(vocabulary, generator=generator)
    tokens = torch.randint(vocabulary, (count, length), generator=generator)
    follows = torch.rand(count, length, generator=generator) < 0.8
    for place in range(1, length):
        rule = successor[tokens[:, place - 1]]
        tokens[:, place] = torch.where(follows[:, place], rule, tokens[:, place])
    return tokens


def batches(data: Dataset, batch: int) -> DataLoader:
    """``data`` in shuffled batches, the same in every run."""
    generator = torch.Generator().manual_seed(0)
    return DataLoader(data, batch, shuffle=True, drop_last=True, generator=generator)


def show(report: Report) -> None:
    """Print what of a step was held for its backward pass."""
    console = console_of()
    console.print(f"\nThe last step: {text.title(report)}", style="bold")
    console.print(totals_table(report))

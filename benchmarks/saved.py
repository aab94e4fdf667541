"""What a training step saves, tensor by tensor, and what compressors make of it."""

from __future__ import annotations

import dataclasses
import math
import zlib
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from images import CLASSES
from torch import nn
from torch.nn import functional as F

import actdma
from actdma.arrays import to_bytes
from actdma.backend import Backend
from actdma.codecs import best_codec
from actdma.frame import Codec, DType, Frame
from actdma.native import NativeBackend
from actdma.offloading import Report

LEAST_ELEMENTS = 1024
LONGEST_RUN = 128  # elements that a byte can tell of
MAP_ORDERS = {"NCHW": (0, 1, 2, 3), "NHWC": (0, 2, 3, 1), "CHWN": (1, 2, 3, 0)}
NATIVE = NativeBackend()


@dataclasses.dataclass(frozen=True)
class Saved:
    """A storage that the forward pass saves.

    ``module`` saves it first, as a tensor of ``shape``; ``operator`` made it. ``data``: its bytes
    as they lie in memory, uint8.
    """

    module: str
    operator: str
    shape: tuple[int, ...]
    dtype: DType
    data: np.ndarray

    @property
    def elements(self) -> np.ndarray:
        """What a codec looks at, as unsigned integers."""
        return self.data.view(f"u{self.dtype.element_bytes}")

    def cast(self, dtype: DType) -> Saved:
        """The same values in another dtype; those for int8 are quantised by `quantised`."""
        if dtype == self.dtype:
            return self
        values = torch.from_numpy(self.data).view(getattr(torch, self.dtype.name))
        values = quantised(values) if dtype == DType.int8 else values.to(getattr(torch, dtype.name))
        return dataclasses.replace(self, dtype=dtype, data=to_bytes(values)[0])

    @property
    def is_map(self) -> bool:
        """Whether it is feature maps (n, c, h, w), more than one of more than one pixel, and all of
        its storage."""
        n, *rest = self.shape
        whole = math.prod(self.shape) == self.elements.size
        return len(rest) == 3 and n > 1 and rest[0] > 1 and rest[1] * rest[2] > 1 and whole

    def ordered(self, order: str) -> Saved:
        """Feature maps that lie in order NCHW, in another of `MAP_ORDERS`."""
        maps = self.elements.reshape(self.shape).transpose(MAP_ORDERS[order])
        data = np.ascontiguousarray(maps).reshape(-1).view(np.uint8)
        return dataclasses.replace(self, data=data)


def quantised(values: torch.Tensor) -> torch.Tensor:
    """``values`` as int8: one scale for all, the largest magnitude becomes 127, and 0 stays 0."""
    largest = values.abs().max()
    return (values * (127 / largest)).round().to(torch.int8) if largest else values.to(torch.int8)


class Collector:
    """A backend that keeps a copy of everything it compresses."""

    name = "collector"

    def __init__(self) -> None:
        self.taken: list[tuple[np.ndarray, DType]] = []

    def compress(self, data: np.ndarray, dtype: DType, *how: Any) -> Frame:
        self.taken.append((data.copy(), dtype))
        return NATIVE.compress(data, dtype, *how)

    def decompress(self, frame: Frame, out: np.ndarray) -> None:
        NATIVE.decompress(frame, out)


def forward(model: nn.Module, images: torch.Tensor, backend: Backend) -> Report:
    """A forward pass in train mode and the loss; what it saves goes through ``backend``: storages
    of `LEAST_ELEMENTS` bytes and more."""
    torch.manual_seed(0)
    with actdma.offload(
        model.train(), codec="zvc", backend=backend, min_bytes=LEAST_ELEMENTS, min_ratio=0
    ) as session:
        logits = model(images).float().flatten(0, -2)
        F.cross_entropy(logits, torch.arange(len(logits)) % CLASSES)
    return session.report()


def saved_by(model: nn.Module, images: torch.Tensor) -> list[Saved]:
    """The floating-point storages of at least `LEAST_ELEMENTS` that a forward pass in train mode
    saves, each once, parameters and buffers left out, in the order of saving."""
    collector = Collector()
    records = forward(model, images, collector).records
    return [
        Saved(record.module or "loss", record.operator or "input", record.shape, dtype, data)
        for record, (data, dtype) in zip(records, collector.taken, strict=True)
        if best_codec(dtype) == Codec.ZVE and data.size >= LEAST_ELEMENTS * dtype.itemsize
    ]


def run_coded_bytes(elements: np.ndarray) -> int:
    """Size under run coding by the element, as in cDMA: a byte per run of up to 128 elements that
    are all zero or all not, followed by those that are not; raw where that is less."""
    kept = elements != 0
    borders = np.flatnonzero(kept[1:] != kept[:-1]) + 1
    runs = np.diff(np.concatenate([[0], borders, [kept.size]]))
    coded = int((-(-runs // LONGEST_RUN)).sum()) + int(np.count_nonzero(kept)) * elements.itemsize
    return min(coded, elements.nbytes)


def _framed(codec: Codec | None) -> Callable[[Saved], int]:
    """Bytes of frames of 4 MiB, descriptors and trailers included; None: the dtype's best codec."""

    def nbytes(saved: Saved) -> int:
        chosen = best_codec(saved.dtype) if codec is None else codec
        return NATIVE.compress(saved.data, saved.dtype, chosen).nbytes

    return nbytes


# Compressed bytes of a storage, by compressor. "auto" is zve for floating point, ints for integers.
COMPRESSORS: dict[str, Callable[[Saved], int]] = {
    "raw": _framed(Codec.RAW),
    "element runs": lambda saved: run_coded_bytes(saved.elements),
    "zvc": _framed(Codec.ZVC),
    "rle": _framed(Codec.RLE),
    "auto": _framed(None),
    "deflate": lambda saved: len(zlib.compress(saved.data, 1)),
}


@dataclasses.dataclass(frozen=True)
class Sizes:
    """Elements of some storages and zeros among them, raw bytes, and compressed bytes by
    compressor."""

    elements: int
    zeros: int
    raw: int
    stored: dict[str, int]

    @classmethod
    def of(cls, saved: Saved, compressors: Iterable[str] = tuple(COMPRESSORS)) -> Sizes:
        """Those of one storage."""
        zeros = saved.elements.size - np.count_nonzero(saved.elements)
        stored = {name: COMPRESSORS[name](saved) for name in compressors}
        return cls(saved.elements.size, zeros, saved.data.size, stored)

    @classmethod
    def total(cls, parts: Iterable[Sizes]) -> Sizes:
        """The sums."""
        parts = list(parts)
        stored = {name: sum(part.stored[name] for part in parts) for name in parts[0].stored}
        sums = (sum(getattr(part, name) for part in parts) for name in ("elements", "zeros", "raw"))
        return cls(*sums, stored)

    @property
    def ratios(self) -> dict[str, float]:
        """Raw bytes per compressed byte."""
        return {name: self.raw / nbytes for name, nbytes in self.stored.items()}

    @property
    def density(self) -> float:
        """The share of elements that are not zero."""
        return 1 - self.zeros / self.elements

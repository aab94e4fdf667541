"""Average pooling of feature maps, and nearest upsampling back (arXiv 2409.11902). Lossy.

The NumPy reference: additions, scaling and rounding in the order that docs/format.md fixes.
"""

from __future__ import annotations

import dataclasses
import math
import numbers

import numpy as np

from ..arrays import Layout
from ..frame import (
    MAX_RAW_BYTES,
    POOL_DTYPES,
    POOL_ROW_BYTES,
    Codec,
    DType,
    FrameError,
    PoolKind,
    PoolShape,
    Status,
)
from .arithmetic import default_arithmetic
from .coding import Coding

_KINDS = {dtype: kind for kind, dtype in POOL_DTYPES.items()}
_STORED = {PoolKind.FP32: "<u4", PoolKind.BF16: "<u2", PoolKind.FP16: "<u2", PoolKind.INT8: "i1"}
_CANONICAL_NAN = {PoolKind.FP32: 0x7FC00000, PoolKind.BF16: 0x7FC0, PoolKind.FP16: 0x7E00}


@dataclasses.dataclass(frozen=True)
class Pool:
    """Codec pool: means over windows of ``k`` x ``k`` elements (2, 4 or 8) come back in their
    place.

    Takes tensors (..., H, W) of float32, bfloat16, float16 or int8; rows of at most 16384 bytes.
    """

    k: int = 2

    def __post_init__(self) -> None:
        if not isinstance(self.k, numbers.Integral) or self.k not in (2, 4, 8):
            raise ValueError(f"k is {self.k!r}, allowed are 2, 4 and 8")

    def prepare(self, data: np.ndarray, layout: Layout) -> tuple[np.ndarray, Coding]:
        """See `Lossy.prepare`."""
        return data, self.coding(layout.dtype, layout.shape)

    def coding(self, dtype: DType, shape: tuple[int, ...]) -> Coding:
        """How maps of ``shape`` are coded; TypeError or ValueError if they cannot be."""
        if dtype not in _KINDS:
            allowed = ", ".join(d.name for d in _KINDS)
            raise TypeError(f"codec pool does not take {dtype.name}; it takes {allowed}")
        if len(shape) < 2:
            raise ValueError(f"codec pool pools maps (..., H, W); the tensor has shape {shape}")
        # An empty tensor is no map of any size.
        height, width = (max(size, 1) for size in shape[-2:])
        maps = PoolShape(self.k, _KINDS[dtype], height, width, math.prod(shape[:-2]))
        row_bytes = width * dtype.itemsize
        if row_bytes > POOL_ROW_BYTES:
            raise ValueError(
                f"a row of {width} {dtype.name} has {row_bytes} bytes; the engines' line buffer "
                f"holds {POOL_ROW_BYTES}"
            )
        if maps.map_bytes > MAX_RAW_BYTES:
            raise ValueError(
                f"a map of {height} x {width} {dtype.name} has {maps.map_bytes} bytes; a frame "
                f"holds {MAX_RAW_BYTES}"
            )
        return Coding(Codec.POOL, maps.parameters, maps.map_bytes, "map", counter=3)


@default_arithmetic()
def encode(raw: np.ndarray, shape: PoolShape) -> bytes:
    """The payload: the pooled maps of ``raw`` (uint8, 1-D), whole words."""
    kind = PoolKind(shape.kind)
    maps = raw.view(_STORED[kind]).reshape(shape.maps, shape.height, shape.width)
    counts = np.outer(_extents(shape.height, shape.k), _extents(shape.width, shape.k))
    with np.errstate(all="ignore"):
        if kind == PoolKind.INT8:
            means = _round_half_away(_sums(maps.astype(np.int32), shape.k, 0), counts)
        else:
            sums = _sums(_widen(maps, kind), shape.k, np.float32(-0.0))
            means = _narrow(sums * (np.float32(1) / counts.astype(np.float32)), kind)
    return means.astype(_STORED[kind]).tobytes().ljust(shape.payload_bytes, b"\0")


def decode(words: np.ndarray, shape: PoolShape) -> tuple[np.ndarray, int]:
    """The data (uint8, 1-D) from the payload ``words``, and the bytes that the payload takes."""
    if 4 * words.size < shape.payload_bytes:
        raise FrameError(Status.LENGTH, "maps are cut off")
    pooled = (shape.maps, *shape.pooled)
    means = words.view(_STORED[PoolKind(shape.kind)])[: math.prod(pooled)].reshape(pooled)
    rows, columns = (np.arange(size) // shape.k for size in (shape.height, shape.width))
    maps = means.take(rows, axis=1).take(columns, axis=2)
    return maps.view(np.uint8).reshape(-1), shape.payload_bytes


def _extents(size: int, k: int) -> np.ndarray:
    """How many of ``size`` rows or columns each window has."""
    return np.minimum(k, size - np.arange(0, size, k))


def _sums(maps: np.ndarray, k: int, nothing: float) -> np.ndarray:
    """Sum of every window: a tree of pairs across, then row by row.

    ``nothing`` stands for what lies beyond the edge; adding it changes no bit (-0.0 does not).
    """
    _, height, width = maps.shape
    edges = ((0, 0), (0, -height % k), (0, -width % k))
    x = np.pad(maps, edges, constant_values=nothing)
    x = x.reshape(*x.shape[:2], x.shape[2] // k, k)
    while x.shape[-1] > 1:
        x = x[..., 0::2] + x[..., 1::2]
    x = x[..., 0]
    sums = x[:, 0::k]
    for row in range(1, k):
        sums = sums + x[:, row::k]
    return sums


def _round_half_away(sums: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """``sums / counts`` to the nearest integer, ties away from zero."""
    return np.sign(sums) * ((2 * np.abs(sums) + counts) // (2 * counts))


def _widen(maps: np.ndarray, kind: PoolKind) -> np.ndarray:
    if kind == PoolKind.BF16:
        return (maps.astype("<u4") << 16).view("<f4")
    return maps.view("<f4") if kind == PoolKind.FP32 else maps.view("<f2").astype("<f4")


def _narrow(values: np.ndarray, kind: PoolKind) -> np.ndarray:
    """The bits of ``values`` (float32), rounded to nearest even, NaN the canonical one."""
    bits = values.view("<u4")
    if kind == PoolKind.BF16:
        bits = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    elif kind == PoolKind.FP16:
        bits = values.astype("<f2").view("<u2")
    return np.where(np.isnan(values), bits.dtype.type(_CANONICAL_NAN[kind]), bits)

"""Block magnitude pruning to Block Sparse Row (structured activation pruning, arXiv 2311.16883).

A matrix is cut into blocks, blocks whose norm is below a threshold are dropped (docs/format.md,
bsr). The frames are matrices in Block Sparse Row format already: `parts` hands them out as such.
"""

from __future__ import annotations

import dataclasses
import math
import numbers
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..arrays import Layout, from_bytes, numpy_dtype
from ..frame import (
    HEADER_BYTES,
    MAX_RAW_BYTES,
    BsrShape,
    Codec,
    Descriptor,
    DType,
    Frame,
    FrameError,
    Norm,
    Status,
    check_end,
    check_sequence,
)
from .arithmetic import default_arithmetic
from .coding import Coding

_NORMS = {"l1": Norm.L1, "l2": Norm.L2, "max": Norm.MAX}
_LEAST_POSITIVE = 1  # float32 bits
_INFINITY = 0x7F800000
_CACHED_BYTES = 1 << 18  # data at a time, so that temporaries stay in a cache


@dataclasses.dataclass(frozen=True)
class Bsr:
    """Codec bsr: blocks of a matrix with a small norm come back as zeros, the others unchanged.

    Takes tensors of two or more dimensions, flattened to ``(-1, last)``, of float32, bfloat16 or
    float16. ``block``: rows and columns of a block, 4, 8, 16 or 32; edges are padded with zeros to
    whole blocks, and `Frame.raw_nbytes` counts the padding. ``norm``: "l1", "l2" or "max". Exactly
    one of ``threshold``: blocks with a lower norm are dropped (compared in float32, for "l2" the
    sum of squares with the float32 next to the square of ``threshold``), and ``density``: the share
    of blocks to keep, those with the largest norms (`top_k`, on the CPU for every backend;
    `next_threshold` spares that from the second step on). A block with a NaN is always kept.
    """

    block: int = 16
    norm: str = "l2"
    threshold: float | None = None
    density: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.block, numbers.Integral) or self.block not in BsrShape.BLOCKS:
            raise ValueError(f"block is {self.block!r}, allowed are 4, 8, 16 and 32")
        if not isinstance(self.norm, str) or self.norm not in _NORMS:
            raise ValueError(f"norm is {self.norm!r}, allowed are 'l1', 'l2' and 'max'")
        if (self.threshold is None) == (self.density is None):
            given = "none was" if self.threshold is None else "both were"
            raise ValueError(f"codec bsr needs either a threshold or a density, {given} given")
        if self.threshold is not None and not _between(self.threshold, 0, math.inf):
            raise ValueError(f"threshold is {self.threshold!r}, allowed are 0 and above")
        if self.density is not None and not _between(self.density, 0, 1):
            raise ValueError(f"density is {self.density!r}, allowed are 0 to 1")

    def prepare(self, data: np.ndarray, layout: Layout) -> tuple[np.ndarray, Coding]:
        """See `Lossy.prepare`."""
        shape = self.shape(layout)
        elements = data.view(f"<u{layout.dtype.itemsize}").reshape(matrix_shape(layout.shape))
        raw = stage(elements, self.block).reshape(-1).view(np.uint8)
        return raw, self.coding(shape, norms(raw, shape) if self.threshold is None else None)

    def shape(self, layout: Layout) -> BsrShape:
        """How a tensor is cut into blocks, with no threshold yet; TypeError or ValueError if it
        cannot be."""
        if layout.dtype not in BsrShape.KINDS:
            allowed = ", ".join(d.name for d in BsrShape.KINDS)
            raise TypeError(f"codec bsr does not take {layout.dtype.name}; it takes {allowed}")
        if len(layout.shape) < 2:
            raise ValueError(f"codec bsr takes matrices; the tensor has shape {layout.shape}")
        kind = BsrShape.KINDS.index(layout.dtype)
        # An empty matrix has rows of no blocks; a frame's have one or more.
        columns = max(1, -(-layout.shape[-1] // self.block))
        shape = BsrShape(self.block, _NORMS[self.norm], kind, columns, 0)
        if shape.row_bytes > MAX_RAW_BYTES:
            raise ValueError(
                f"a row of {columns} blocks has {shape.row_bytes} bytes; a frame holds "
                f"{MAX_RAW_BYTES}"
            )
        return shape

    def coding(self, shape: BsrShape, norms: np.ndarray | None) -> Coding:
        """How the tensor is coded whose blocks have these ``norms``, which only a density needs."""
        if self.density is None:
            threshold = threshold_bits(shape.norm, self.threshold)
        else:
            threshold = top_k(norms, self.density)
        shape = dataclasses.replace(shape, threshold=threshold)
        return Coding(Codec.BSR, shape.parameters, shape.row_bytes, "row of blocks")


def _between(number: Any, least: float, most: float) -> bool:
    return isinstance(number, numbers.Real) and least <= number <= most


def stage(matrix: np.ndarray, block: int) -> np.ndarray:
    """``matrix`` (2-D) in block order: (block rows, block columns, block, block), padded with
    zeros."""
    edges = [(0, -size % block) for size in matrix.shape]
    whole = np.pad(matrix, edges) if np.any(edges) else matrix
    rows, columns = (size // block for size in whole.shape)
    return whole.reshape(rows, block, columns, block).swapaxes(1, 2).copy()


def unstage(blocks: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """The matrix of ``shape`` that `stage` has put in block order."""
    rows, columns, block, _ = blocks.shape
    matrix = blocks.swapaxes(1, 2).reshape(rows * block, columns * block)
    return np.ascontiguousarray(matrix[: shape[0], : shape[1]])


def restore(frame: Frame, raw: np.ndarray) -> tuple[np.ndarray, Layout]:
    """Bytes (uint8, 1-D) and layout of the tensor whose data in block order is ``raw``.

    Without a layout, as from bytes, a matrix with its edges padded to whole blocks.
    """
    shape = BsrShape.of(Descriptor.unpack(next(frame.packets())).parameters)
    if raw.size % (shape.columns * shape.block_bytes):
        raise FrameError(Status.RAW_BYTES, "a block row is cut in two")
    elements = raw.view(f"<u{frame.dtype.itemsize}")
    blocks = elements.reshape(-1, shape.columns, shape.block, shape.block)
    padded = (len(blocks) * shape.block, shape.columns * shape.block)
    layout = frame.layout or Layout(frame.dtype, padded)
    return unstage(blocks, matrix_shape(layout.shape)).reshape(-1).view(np.uint8), layout


@default_arithmetic()
def norms(raw: np.ndarray, shape: BsrShape) -> np.ndarray:
    """What each block is measured by (float32, for L2 the sum of squares).

    ``raw``: uint8, 1-D, in block order.
    """
    blocks = raw.reshape(-1, shape.block_bytes)
    step = max(1, _CACHED_BYTES // shape.block_bytes)
    parts = [_norms(blocks[i : i + step], shape) for i in range(0, len(blocks), step)]
    return np.concatenate([np.empty(0, np.float32), *parts])


def _norms(blocks: np.ndarray, shape: BsrShape) -> np.ndarray:
    values = np.abs(_as_float32(blocks, shape.kind))
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        if shape.norm == Norm.MAX:
            return values.max(axis=1)
        if shape.norm == Norm.L2:
            values = values * values
        while values.shape[1] > 1:
            values = values[:, 0::2] + values[:, 1::2]
    return values[:, 0]


def histogram(norms: np.ndarray) -> np.ndarray:
    """How many of ``norms`` have which exponent: 64 counts (uint32)."""
    exponents = (norms.view(np.uint32) >> 23 & 0xFF).astype(np.int64)
    bins = np.clip(exponents - BsrShape.HISTOGRAM_BASE, 0, BsrShape.HISTOGRAM_BINS - 1)
    return np.bincount(bins, minlength=BsrShape.HISTOGRAM_BINS).astype("<u4")


@default_arithmetic()
def encode(raw: np.ndarray, descriptor: Descriptor) -> tuple[bytes, bytes]:
    """Payload and extension of the frame that holds ``raw`` (uint8, 1-D, in block order)."""
    shape = BsrShape.of(descriptor.parameters)
    measured = norms(raw, shape)
    threshold = np.uint32(shape.threshold).view(np.float32)
    kept = ~(measured < threshold)  # a NaN is kept
    blocks = raw.reshape(-1, shape.block_bytes)
    parts, start = [], 0
    for size in shape.groups(raw.size):
        group = slice(start, start + size)
        bits = np.packbits(kept[group], bitorder="little").tobytes()
        parts += [bits.ljust(4, b"\0"), blocks[group][kept[group]].tobytes()]
        start += size
    return b"".join(parts), histogram(measured).tobytes()


def walk(words: np.ndarray, descriptor: Descriptor) -> tuple[np.ndarray, np.ndarray, int]:
    """What lies where in a payload: for each block of the frame whether it was kept (bool), for
    each kept one its first word (int64), and the words that the payload has.

    ``words``: uint32, the payload and what follows it. `FrameError` if it is cut off or a bit is
    set that stands for no block.
    """
    shape = BsrShape.of(descriptor.parameters)
    size = shape.block_bytes // 4
    bits, starts, position = [np.empty(0, np.bool_)], [np.empty(0, np.int64)], 0
    for group in shape.groups(descriptor.raw_bytes):
        if position >= words.size:
            raise FrameError(Status.LENGTH, "blocks are missing")
        mask = int(words[position])
        if mask >> group:
            raise FrameError(Status.BLOCK, f"mask 0x{mask:08x} of {group} blocks")
        kept = np.unpackbits(words[position : position + 1].view(np.uint8), bitorder="little")
        bits.append(kept[:group].astype(np.bool_))
        starts.append(position + 1 + size * np.arange(mask.bit_count()))
        position += 1 + size * mask.bit_count()
    if position > words.size:
        raise FrameError(Status.LENGTH, "a block is cut off")
    return np.concatenate(bits), np.concatenate(starts), position


def decode(words: np.ndarray, descriptor: Descriptor) -> tuple[np.ndarray, int]:
    """Raw data (uint8, 1-D, in block order) from the ``words`` after the descriptor, and the bytes
    of the payload; errors as `walk`."""
    shape = BsrShape.of(descriptor.parameters)
    kept, starts, walked = walk(words, descriptor)
    out = np.zeros((kept.size, shape.block_bytes // 4), "<u4")
    out[kept] = words[starts[:, None] + np.arange(out.shape[1])]
    return out.view(np.uint8).ravel(), 4 * walked


def matrix_shape(shape: tuple[int, ...]) -> tuple[int, int]:
    """Rows and columns of a tensor of ``shape``."""
    return math.prod(shape[:-1]), shape[-1]


def _as_float32(raw: np.ndarray, kind: int) -> np.ndarray:
    dtype = BsrShape.KINDS[kind]
    if dtype == DType.bfloat16:
        return (raw.view("<u2").astype("<u4") << 16).view("<f4")
    return raw.view("<f2" if dtype == DType.float16 else "<f4").astype("<f4")


@default_arithmetic()
def threshold_bits(norm: Norm, threshold: float) -> int:
    """The threshold as norms are compared with: of L2 the square, rounded once to float32."""
    # -0.0 is 0; from the largest double on, float32 has infinity, also for integers beyond it.
    threshold = abs(float(min(threshold, sys.float_info.max)))
    compared = threshold * threshold if norm == Norm.L2 else threshold
    with np.errstate(over="ignore"):
        return int(np.float32(compared).view(np.uint32))


def top_k(norms: np.ndarray, density: float) -> int:
    """Threshold (float32 bits) that keeps the ``round(density * norms.size)`` largest norms.

    Equal ones are kept or dropped together: all those that equal the last one wanted are kept,
    unless they are 0. NaN counts as the largest.
    """
    count = round(density * norms.size)
    if count == 0:
        return _INFINITY
    # Bits of numbers that are not negative sort as the numbers do, NaN above infinity.
    bits = np.partition(norms.view(np.uint32), norms.size - count)[norms.size - count]
    return int(np.clip(bits, _LEAST_POSITIVE, _INFINITY))


class Parts(NamedTuple):
    """A matrix in Block Sparse Row format; ``torch.sparse_bsr_tensor(*parts)`` takes it."""

    crow_indices: Any
    """int64, (block rows + 1): how many kept blocks lie before each block row."""

    col_indices: Any
    """int64, (kept blocks): each one's block column."""

    values: Any
    """(kept blocks, b, b) of the matrix' dtype (bfloat16 in NumPy: uint16)."""

    size: tuple[int, int]
    """Rows and columns of the matrix with its edges padded to whole blocks."""


Gather = Callable[[Frame, list[Descriptor]], tuple[np.ndarray, np.ndarray, np.ndarray]]
"""Gives the arrays of `Parts`, of a bsr frame and the descriptors of its packets."""


def parts(frame: Frame | bytes | bytearray | memoryview, gather: Gather | None = None) -> Parts:
    """The kept blocks of a bsr frame, without making it dense.

    Tensors on the device of the tensor that was compressed, else NumPy arrays. ``gather``: a faster
    one than the NumPy reference. `FrameError` if the frame is not good, ValueError if it is not
    bsr.
    """
    frame, descriptors = _described(frame)
    shape = BsrShape.of(descriptors[0].parameters)
    crow, col, values = (gather or _gathered)(frame, descriptors)
    device = frame.layout.device if frame.layout else None

    def as_caller(array: np.ndarray, dtype: DType) -> Any:
        return from_bytes(array.reshape(-1).view(np.uint8), Layout(dtype, array.shape, device))

    return Parts(
        as_caller(crow, DType.int64),
        as_caller(col, DType.int64),
        as_caller(values, frame.dtype),
        ((len(crow) - 1) * shape.block, shape.columns * shape.block),
    )


def _gathered(
    frame: Frame, descriptors: list[Descriptor]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    frames = _walked(frame, descriptors)
    shape = frames[0].shape
    rows = np.concatenate([f.kept for f in frames]).reshape(-1, shape.columns)
    blocks = np.concatenate([f.blocks() for f in frames]).view(numpy_dtype(frame.dtype))
    return (
        np.concatenate([np.zeros(1, np.int64), np.cumsum(rows.sum(axis=1))]),
        np.ascontiguousarray(np.nonzero(rows)[1]),
        blocks.reshape(-1, shape.block, shape.block),
    )


@dataclasses.dataclass(frozen=True)
class Statistics:
    """What a bsr frame tells of the norms that its threshold was held against.

    ``counts``: how many norms lie in each of the histogram's bins (docs/format.md); ``kept``: how
    many blocks were kept; ``threshold``: float32 bits, of L2 the square.
    """

    counts: np.ndarray
    kept: int
    norm: Norm
    threshold: int

    @property
    def density(self) -> float:
        """Kept blocks per block."""
        return self.kept / max(1, int(self.counts.sum()))

    @classmethod
    def of(cls, frame: Frame | bytes | bytearray | memoryview) -> Statistics:
        """Those of all frames of a matrix; errors as `parts`."""
        frames = _walked(*_described(frame))
        shape = frames[0].shape
        counts = sum(f.words[-BsrShape.HISTOGRAM_BINS :].astype(np.int64) for f in frames)
        kept = sum(int(np.count_nonzero(f.kept)) for f in frames)
        return cls(counts, kept, Norm(shape.norm), shape.threshold)


def next_threshold(history: Sequence[Statistics], density: float) -> float:
    """The threshold with which the next matrix like the last one will have ``density``.

    ``history``: `Statistics` of the steps before, the latest last, at least one; two find the
    threshold also where all norms are nearly alike. It comes from the latest histogram and from
    what the thresholds have kept; in between, norms are taken to be spread evenly by their
    logarithm. So a training step's threshold costs no look at the step's data. ValueError for an
    empty history and a density that is none.
    """
    if not (isinstance(history, Sequence) and history and isinstance(history[-1], Statistics)):
        raise ValueError(f"history is {history!r}, expected a list of Statistics, at least one")
    if not _between(density, 0, 1):
        raise ValueError(f"density is {density!r}, allowed are 0 to 1")
    latest = history[-1]
    # The share of norms not below 2 ** exponent: at the lower ends of bins, and at thresholds.
    bins = np.arange(1, BsrShape.HISTOGRAM_BINS) + (BsrShape.HISTOGRAM_BASE - 127.0)
    shares = latest.counts[::-1].cumsum()[::-1][1:] / max(1, int(latest.counts.sum()))
    points = list(zip(bins, shares, strict=True))
    for step in history:
        if _LEAST_POSITIVE <= step.threshold < _INFINITY:
            threshold = float(np.uint32(step.threshold).view(np.float32))
            points.append((math.log2(threshold), step.density))
    exponents, shares = np.array(sorted(points)).T
    shares = np.minimum.accumulate(shares)
    if density > shares[0]:
        compared = float(np.uint32(_LEAST_POSITIVE).view(np.float32))
    else:
        compared = 2.0 ** float(np.interp(-density, -shares, exponents))
    return math.sqrt(compared) if latest.norm == Norm.L2 else compared


@dataclasses.dataclass
class _Payload:
    """A frame that is good but for its values: ``words`` are payload and extension, the others
    those of `walk`."""

    shape: BsrShape
    words: np.ndarray
    kept: np.ndarray
    starts: np.ndarray

    def blocks(self) -> np.ndarray:
        """The kept blocks, a row of words for each."""
        return self.words[self.starts[:, None] + np.arange(self.shape.block_bytes // 4)]


def _described(
    frame: Frame | bytes | bytearray | memoryview,
) -> tuple[Frame, list[Descriptor]]:
    """The frames of a matrix, and their descriptors, checked to belong together."""
    frame = Frame.of(frame)
    if frame.codec != Codec.BSR:
        raise ValueError(f"expected a frame of codec bsr, got one of {frame.codec.name.lower()}")
    descriptors = [Descriptor.unpack(packet) for packet in frame.packets()]
    for number, descriptor in enumerate(descriptors):
        check_sequence(descriptor, descriptors[0], number)
    row_bytes = BsrShape.of(descriptors[0].parameters).row_bytes
    if sum(descriptor.raw_bytes for descriptor in descriptors) % row_bytes:
        raise FrameError(Status.RAW_BYTES, "a block row is cut in two")
    return frame, descriptors


def _walked(frame: Frame, descriptors: list[Descriptor]) -> list[_Payload]:
    """The payloads of described frames, checked."""
    payloads = []
    for packet, descriptor in zip(frame.packets(), descriptors, strict=True):
        words = packet[HEADER_BYTES:-HEADER_BYTES].view("<u4")
        kept, starts, walked = walk(words, descriptor)
        check_end(packet, descriptor, 4 * walked, 0)
        payloads.append(_Payload(BsrShape.of(descriptor.parameters), words, kept, starts))
    return payloads

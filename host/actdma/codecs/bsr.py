"""Block magnitude pruning to Block Sparse Row (structured activation pruning, arXiv 2311.16883).

A matrix is cut into blocks, blocks whose norm is below a threshold are dropped.
(docs/format.md, bsr).
"""

from __future__ import annotations


import numpy as np

from ..frame import BsrShape, Descriptor, DType, FrameError, Norm, Status

_LEAST_POSITIVE = np.uint32(1).view(np.float32)


def stage(matrix: np.ndarray, block: int) -> np.ndarray:
    """``matrix`` (2-D) in block order: (block rows, block columns, block, block), padded with
    zeros."""
    rows, columns = (-(-size // block) for size in matrix.shape)
    padded = np.zeros((rows * block, columns * block), matrix.dtype)
    padded[: matrix.shape[0], : matrix.shape[1]] = matrix
    return np.ascontiguousarray(padded.reshape(rows, block, columns, block).swapaxes(1, 2))


def unstage(blocks: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """The matrix of ``shape`` that `stage` has put in block order."""
    rows, columns, block, _ = blocks.shape
    matrix = blocks.swapaxes(1, 2).reshape(rows * block, columns * block)
    return np.ascontiguousarray(matrix[: shape[0], : shape[1]])


def norms(raw: np.ndarray, shape: BsrShape) -> np.ndarray:
    """What each block is measured by (float32, for L2 the sum of squares).

    ``raw``: uint8, 1-D, in block order.
    """
    values = np.abs(_as_float32(raw, shape.kind)).reshape(-1, shape.block**2)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        if shape.norm == Norm.MAX:
            return values.max(axis=1, initial=0)
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


def _as_float32(raw: np.ndarray, kind: int) -> np.ndarray:
    dtype = BsrShape.KINDS[kind]
    if dtype == DType.bfloat16:
        return (raw.view("<u2").astype("<u4") << 16).view("<f4")
    return raw.view("<f2" if dtype == DType.float16 else "<f4").astype("<f4")

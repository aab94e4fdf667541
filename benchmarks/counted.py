"""Sizes of payloads, for any size of blocks and groups, counted by the rules of docs/format.md."""

from __future__ import annotations

import numpy as np

from actdma.codecs.records import HEADER_BITS
from actdma.frame import ALIGN

WORD = 4  # bytes


def zvc_bytes(elements: np.ndarray, block_bytes: int) -> int:
    """Payload of ``elements`` (unsigned, 1 to 4 bytes) under zvc with such blocks."""
    return int(_shortest(*_zvc_words(_padded(elements), block_bytes)[:2]).sum()) * WORD


def zve_bytes(elements: np.ndarray, exponent_bits: int, block_bytes: int, group: int) -> int:
    """Payload of ``elements`` (unsigned, floating point) under zve with such blocks and groups."""
    elements = _padded(elements)
    zvc, raw, kept, dense = _zvc_words(elements, block_bytes)
    per_block = block_bytes // elements.itemsize
    index = np.flatnonzero(elements)
    if not index.size:
        return int(_shortest(zvc, raw).sum()) * WORD
    first = np.cumsum(kept) - kept  # of each block among what is kept
    block = index // per_block
    starts = np.flatnonzero((np.arange(index.size) - first[block]) % group == 0)
    values = elements[index]
    mantissa_bits = 8 * elements.itemsize - 1 - exponent_bits
    exponents = values >> mantissa_bits & (1 << exponent_bits) - 1
    spread = np.maximum.reduceat(exponents, starts) - np.minimum.reduceat(exponents, starts)
    widths = np.ceil(np.log2(spread.astype(np.float64) + 1)).astype(np.int64)
    widths[widths > 6] = 8
    signed = np.maximum.reduceat(values >> 8 * elements.itemsize - 1, starts).astype(np.int64)
    bits = np.bincount(
        block[starts], (mantissa_bits + signed + widths) * group, minlength=kept.size
    ).astype(np.int64)
    headers = np.bincount(block[starts], minlength=kept.size) * HEADER_BITS
    masks = np.where(dense, 0, _words(_counts(elements.size, per_block)))
    return int(_shortest(zvc, raw, 1 + masks + _words(headers) + _words(bits)).sum()) * WORD


def _padded(elements: np.ndarray) -> np.ndarray:
    return np.pad(elements, (0, -elements.size % (ALIGN // elements.itemsize)))


def _counts(elements: int, per_block: int) -> np.ndarray:
    """Elements of each block; the last one may be shorter."""
    starts = np.arange(0, elements, per_block)
    return np.minimum(elements - starts, per_block)


def _words(bits: np.ndarray) -> np.ndarray:
    return -(-bits // (8 * WORD))


def _zvc_words(
    elements: np.ndarray, block_bytes: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Of each block the words as a zero or zvc block and as a raw one, the elements that are not
    zero, and whether all are."""
    per_block = block_bytes // elements.itemsize
    counts = _counts(elements.size, per_block)
    kept = np.add.reduceat(elements != 0, np.arange(0, elements.size, per_block), dtype=np.int64)
    zvc = 1 + _words(counts) + _words(8 * elements.itemsize * kept)
    return np.where(kept, zvc, 1), 1 + counts * elements.itemsize // WORD, kept, kept == counts


def _shortest(*words: np.ndarray) -> np.ndarray:
    return np.minimum.reduce(words)

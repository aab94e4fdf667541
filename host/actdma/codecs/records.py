"""What zve and ints share: groups of elements with a bit set, a header and a record for each.

docs/format.md, Blocks: header plane and record plane. A *split* (`actdma.codecs.zve`,
`actdma.codecs.ints`) says what header and record of a group are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np

HEADER_BITS = 12
_DENSE = 1 << 12


class Split(Protocol):
    """How a group of elements becomes a header of 12 bits and a record of words, and back."""

    def record(self, elements: np.ndarray) -> tuple[int, np.ndarray]:
        """Header and record (uint32) of a group (unsigned, at least one)."""
        ...

    def length(self, header: int) -> int | None:
        """Words of the record that belongs to ``header``; None if the header is impossible."""
        ...

    def elements(self, header: int, record: np.ndarray) -> np.ndarray:
        """A whole group (unsigned) from header and record."""
        ...


def group_size(element_bytes: int) -> int:
    """Elements per group: a group has at least 64 bytes."""
    return 64 if element_bytes == 1 else 32


def header_words(groups: int) -> int:
    """Words of the header plane."""
    return -(-groups * HEADER_BITS // 32)


def planes(values: np.ndarray, count: int, group: int) -> np.ndarray:
    """The lowest ``count`` bit planes of ``values``, with 0 for what is missing of the group."""
    bits = np.zeros((count, group), np.bool_)
    bits[:, : values.size] = (
        values.astype(np.uint64) >> np.arange(count, dtype=np.uint64)[:, None] & 1
    )
    return np.packbits(bits, axis=1, bitorder="little").view("<u4").ravel()


def values(words: np.ndarray, group: int) -> np.ndarray:
    """The values (uint64) whose bit planes, all that there are, ``words`` holds."""
    bits = np.unpackbits(words.view(np.uint8), bitorder="little").reshape(-1, group)
    weights = np.uint64(1) << np.arange(len(bits), dtype=np.uint64)
    return (bits * weights[:, None]).sum(axis=0, dtype=np.uint64)


def encode(elements: np.ndarray, mask: np.ndarray, split: Split) -> tuple[int, np.ndarray]:
    """Bits 4 to 12 of W0, and the planes, of a block.

    ``elements``: the block as unsigned elements, not all of them 0; ``mask``: its mask plane.
    """
    kept = elements[elements != 0]
    group = group_size(elements.itemsize)
    pairs = [split.record(kept[i : i + group]) for i in range(0, kept.size, group)]
    headers = np.array([header for header, _ in pairs])
    bits = (headers[:, None] >> np.arange(HEADER_BITS) & 1).astype(np.uint8).ravel()
    header_plane = np.zeros(4 * header_words(len(pairs)), np.uint8)
    packed = np.packbits(bits, bitorder="little")
    header_plane[: packed.size] = packed
    dense = kept.size == elements.size
    parts = [header_plane.view("<u4"), *(record for _, record in pairs)]
    if not dense:
        parts.insert(0, mask)
    return len(pairs) - 1 << 4 | dense * _DENSE, np.concatenate(parts)


def layout(w0: int, elements: int, element_bytes: int) -> tuple[int, int] | None:
    """Groups and words of the mask plane of a block whose first word is ``w0``; None if it cannot
    be."""
    groups, dense = (w0 >> 4 & 0xFF) + 1, bool(w0 & _DENSE)
    most = -(-elements // group_size(element_bytes))
    if w0 & 0xE000 or groups > most or (dense and groups != most):
        return None
    return groups, 0 if dense else -(-elements // 32)


def decode(words: np.ndarray, w0: int, out: np.ndarray, split: Split) -> bool:
    """Write a block's elements to ``out`` (unsigned, zeros) from its planes; False if the planes
    disagree."""
    group = group_size(out.itemsize)
    groups, m = layout(w0, out.size, out.itemsize)
    bits = np.ones(out.size, np.bool_)
    if m:
        mask = np.unpackbits(words[:m].view(np.uint8), bitorder="little").astype(np.bool_)
        bits = mask[: out.size]
        if mask[out.size :].any():
            return False
    count = int(np.count_nonzero(bits))
    if groups != -(-count // group):
        return False
    h = header_words(groups)
    kept = []
    position = m + h
    for header in _headers(words[m : m + h], groups):
        length = split.length(header)
        if length is None or position + length > words.size:
            return False
        kept.append(split.elements(header, words[position : position + length]))
        position += length
    out[bits] = np.concatenate(kept)[:count]
    return position == words.size


def _headers(words: np.ndarray, groups: int) -> Iterator[int]:
    bits = np.unpackbits(words.view(np.uint8), bitorder="little")
    rows = bits[: groups * HEADER_BITS].reshape(groups, HEADER_BITS)
    yield from (int(h) for h in rows @ (1 << np.arange(HEADER_BITS)))

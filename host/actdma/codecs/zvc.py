"""Zero-value compression (cDMA, arXiv 1705.01626): a mask bit per element, packed non-zeros."""

from __future__ import annotations

import numpy as np


def element_view(block: np.ndarray, element_bytes: int) -> np.ndarray:
    """A block's bytes as unsigned elements; 8-byte elements are coded as pairs of 4."""
    return block.view(f"<u{min(element_bytes, 4)}")


def mask_words(block_bytes: int, element_bytes: int) -> int:
    """Words of the mask plane of a block of ``block_bytes``."""
    return -(-block_bytes // (min(element_bytes, 4) * 32))


def encode(block: np.ndarray, element_bytes: int) -> np.ndarray:
    """Mask plane and data plane of ``block`` (uint8, a multiple of 64 long) as uint32 words."""
    elements = element_view(block, element_bytes)
    bits = np.zeros(mask_words(block.size, element_bytes) * 32, np.bool_)
    bits[: elements.size] = elements != 0
    mask = np.packbits(bits, bitorder="little").view("<u4")
    packed = elements[elements != 0].view(np.uint8)
    data = np.zeros(-(-packed.size // 4) * 4, np.uint8)
    data[: packed.size] = packed
    return np.concatenate([mask, data.view("<u4")])


def decode(words: np.ndarray, out: np.ndarray) -> bool:
    """Write a block's elements to ``out`` (unsigned, zeros) from its planes; False if mask and data
    plane disagree."""
    m = -(-out.size // 32)
    bits = np.unpackbits(words[:m].view(np.uint8), bitorder="little").astype(np.bool_)
    set_bits = int(np.count_nonzero(bits))
    if bits[out.size :].any() or words.size != m + -(-set_bits * out.itemsize // 4):
        return False
    out[bits[: out.size]] = words[m:].view(out.dtype)[:set_bits]
    return True

"""Zero-value compression with the runs taken out of its mask (docs/format.md, tag plane).

cDMA (arXiv 1705.01626) codes runs of zero elements; here they are runs of 32 in the mask's words,
which hardware can do at line rate. docs/evaluation.md compares the two.
"""

from __future__ import annotations

import numpy as np

from . import zvc

LITERALS = 256  # must be fewer
_ALL = 0xFFFFFFFF
_ZEROS, _ONES, _LITERAL, _NEVER = range(4)


def tag_words(mask_words: int) -> int:
    """Words of the tag plane."""
    return -(-mask_words // 16)


def literals(w0: int) -> int:
    """Words of the literal plane of the block whose first word is ``w0``."""
    return w0 >> 4 & 0xFF


def encode(mask: np.ndarray, data: np.ndarray) -> tuple[int, np.ndarray] | None:
    """Bits 4 to 11 of W0, and the planes, of a block; None where it has too many literals.

    ``mask``, ``data``: the planes of `zvc.encode`.
    """
    tags = np.select([mask == 0, mask == _ALL], [_ZEROS, _ONES], _LITERAL)
    literal = mask[tags == _LITERAL]
    if literal.size >= LITERALS:
        return None
    padded = np.zeros((tag_words(mask.size), 16), np.uint64)
    padded.ravel()[: mask.size] = tags
    plane = (padded << np.arange(0, 32, 2, dtype=np.uint64)).sum(axis=1).astype("<u4")
    return literal.size << 4, np.concatenate([plane, literal, data])


def decode(words: np.ndarray, w0: int, out: np.ndarray) -> bool:
    """Write a block's elements to ``out`` (unsigned, zeros) from its planes; False if the planes
    disagree."""
    m = -(-out.size // 32)
    t, count = tag_words(m), literals(w0)
    tags = (words[:t, None] >> np.arange(0, 32, 2, dtype="<u4") & 3).ravel()
    literal = tags[:m] == _LITERAL
    if tags[m:].any() or (tags == _NEVER).any() or np.count_nonzero(literal) != count:
        return False
    mask = np.where(tags[:m] == _ONES, _ALL, 0).astype("<u4")
    mask[literal] = words[t : t + count]
    return zvc.decode(np.concatenate([mask, words[t + count :]]), out)

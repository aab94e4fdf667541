"""Transfers through a backend, held to the NumPy reference."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ..api import compress, decompress
from ..backend import Backend
from ..codecs import Bsr, Lossy, Pool

# More than a frame's worth of blocks, and no whole number of them.
_SIDE = 100
_LOSSY: dict[str, Lossy] = {"pool": Pool(2), "bsr": Bsr(8, density=0.5)}


def differing(backend: Backend, codecs: Iterable[str]) -> list[str]:
    """Which of the ``codecs`` do not write the reference's bytes through ``backend``, or do not
    give back what the reference does; errors of the backend's own are raised."""
    return [codec for codec in codecs if not _as_reference(backend, codec)]


def _as_reference(backend: Backend, codec: str) -> bool:
    data = _data(codec)
    chosen = _LOSSY.get(codec, codec)
    frame = compress(data, chosen, backend)
    if bytes(frame) != bytes(compress(data, chosen, "reference")):
        return False
    back, expected = decompress(frame, backend), decompress(frame, "reference")
    return back.tobytes() == expected.tobytes()


def _data(codec: str) -> np.ndarray:
    """Maps as after a ReLU; integers for the codec that takes only those."""
    rng = np.random.default_rng(0)
    maps = np.maximum(rng.standard_normal((_SIDE, _SIDE), np.float32), 0)
    return (8 * maps).astype(np.int32) if codec == "ints" else maps

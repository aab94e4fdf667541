"""From which size on a tensor is faster through the board than through the processor's codec."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import numpy as np

from ..backend import Backend
from ..frame import Codec, DType
from .timing import CORTEX_A53, FrameCost, Processor, StreamModel

_SIZES = (1 << 13, 1 << 18)
# Raw bytes per compressed byte of zvc on fp32, half of it zeros.
_RATIO = 1.88
_REPEATS = 3


def measured_break_even(board: Backend, cpu: Backend, frame_bytes: int, most: int) -> int:
    """`crossing` of round trips (zvc, fp32, half zeros, frames of ``frame_bytes``) measured here
    and now; takes milliseconds."""

    def seconds(backend: Backend) -> Callable[[int], float]:
        return lambda nbytes: min(
            _round_trip(backend, nbytes, frame_bytes) for _ in range(_REPEATS)
        )

    return crossing(seconds(board), seconds(cpu), most)


def modelled_break_even(port: float, most: int, processor: Processor = CORTEX_A53) -> int:
    """`crossing` of the same round trips, of one frame each, by the model. ``port``: bytes per
    second of the DMA's memory port, which are the fabric's, too."""

    def board(nbytes: int) -> float:
        stored, fabric = round(nbytes / _RATIO), nbytes / port
        model = StreamModel(port, processor)
        for frame in (
            FrameCost(nbytes, nbytes, stored, nbytes + stored, fabric),
            FrameCost(stored, nbytes, nbytes, nbytes, fabric),
        ):
            model.step(copied_in=frame)
            model.step(transferred=frame)
            model.step(copied_out=frame)
        return model.time.seconds

    def cpu(nbytes: int) -> float:
        return 2 * (processor.call + nbytes / processor.codec)

    return crossing(board, cpu, most)


def crossing(board: Callable[[int], float], cpu: Callable[[int], float], most: int) -> int:
    """Bytes from which on ``board`` takes no more seconds than ``cpu``: where straight lines
    through two sizes of each meet. ``most`` if that is larger or nowhere: such tensors go to the
    board all the same, which leaves the processor free."""
    small, large = _SIZES
    lost_at_small = board(small) - cpu(small)
    lost_at_large = board(large) - cpu(large)
    won_per_byte = (lost_at_small - lost_at_large) / (large - small)
    if won_per_byte <= 0:
        return 0 if max(lost_at_small, lost_at_large) <= 0 else most
    return min(max(0, math.ceil(small + lost_at_small / won_per_byte)), most)


def _round_trip(backend: Backend, nbytes: int, frame_bytes: int) -> float:
    """Seconds to compress ``nbytes`` and back."""
    words = np.arange(nbytes // 4, dtype=np.uint32)
    raw = np.where(words & 1, words, 0).view(np.uint8)
    out = np.empty_like(raw)
    start = time.perf_counter()
    backend.decompress(backend.compress(raw, DType.float32, Codec.ZVC, frame_bytes), out)
    return time.perf_counter() - start

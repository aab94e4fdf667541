"""Seconds of an operation, and of a memcpy of the same bytes right after it."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable

import numpy as np


def timed(function: Callable[[], object]) -> float:
    """Wall-clock seconds of one call."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def memcpy_seconds(target: np.ndarray, source: np.ndarray) -> float:
    """Seconds to copy ``source`` (contiguous) over ``target``."""
    return timed(lambda: ctypes.memmove(target.ctypes.data, source.ctypes.data, source.nbytes))


def aligned_ones(nbytes: int) -> np.ndarray:
    """``nbytes`` that have been written to (uint8), from a multiple of 64 on."""
    memory = np.ones(nbytes + 64, np.uint8)
    return memory[-memory.ctypes.data % 64 :][:nbytes]


def aligned(data: np.ndarray) -> np.ndarray:
    """A copy of ``data`` (uint8), from a multiple of 64 on."""
    copy = aligned_ones(data.size)
    copy[:] = data
    return copy

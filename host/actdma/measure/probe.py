"""Backends around backends: one times the CPU's codec against memcpy, one tells its progress."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from ..backend import Backend
from ..frame import Frame

_REPEATS = 3


class CpuProbe:
    """The CPU's codec, each call timed beside a memcpy of the same bytes (best of three, warm).

    Rates in GB/s (1e9 raw bytes per second), one thread, over all data seen so far.
    """

    def __init__(self, inner: Backend) -> None:
        self.name = inner.name
        self.raw_bytes = 0
        self._inner = inner
        self._seconds = {"compress": 0.0, "decompress": 0.0, "memcpy": 0.0}
        self._warm = np.ones(0, np.uint8)

    def compress(self, data: np.ndarray, *how: Any) -> Frame:
        """As `Backend.compress`."""
        if data.size > self._warm.size:
            self._warm = np.ones(data.size, np.uint8)
        frame = self._time("compress", lambda: self._inner.compress(data, *how))
        copy = self._warm[: data.size]
        self._time("memcpy", lambda: np.copyto(copy, data))
        self._time("decompress", lambda: self._inner.decompress(frame, copy))
        self.raw_bytes += data.size
        return frame

    def decompress(self, frame: Frame, out: np.ndarray) -> int | None:
        """As `Backend.decompress`; not timed, its memory is cold."""
        return self._inner.decompress(frame, out)

    def rates(self) -> dict[str, float]:
        """GB/s of "cpu_compress", "cpu_decompress" and "memcpy", under the names of the totals."""
        rate = {name: self.raw_bytes / s / 1e9 for name, s in self._seconds.items() if s}
        names = {"compress": "cpu_compress", "decompress": "cpu_decompress", "memcpy": "memcpy"}
        return {f"{names[name]}_gb_per_s": value for name, value in rate.items()}

    def _time(self, what: str, call: Callable[[], Any]) -> Any:
        best = float("inf")
        for _ in range(_REPEATS):
            began = time.perf_counter()
            result = call()
            best = min(best, time.perf_counter() - began)
        self._seconds[what] += best
        return result


class Watched:
    """A backend that tells how many raw bytes it has moved, either way."""

    def __init__(self, inner: Backend, moved: Callable[[int], Any]) -> None:
        self.name = inner.name
        self._inner = inner
        self._moved = moved

    def compress(self, data: np.ndarray, *how: Any) -> Frame:
        """As `Backend.compress`."""
        frame = self._inner.compress(data, *how)
        self._moved(data.size)
        return frame

    def decompress(self, frame: Frame, out: np.ndarray) -> int | None:
        """As `Backend.decompress`."""
        cycles = self._inner.decompress(frame, out)
        self._moved(out.size)
        return cycles

    def info(self) -> dict[str, Any] | None:
        """What the inner backend tells about itself."""
        info = getattr(self._inner, "info", None)
        return info() if callable(info) else None

"""Compresses through a backend and, where a board does not do it, through the CPU's codec."""

from __future__ import annotations

import functools
import threading
import warnings

import numpy as np

from ..backend import Backend, ReferenceBackend, compress_bound
from ..board import BoardError
from ..codecs import bsr
from ..codecs.bsr import Parts
from ..frame import BLOCK_BYTES, Codec, DType, Frame, FrameError
from .arena import Arena

_SAMPLE = 4  # blocks


class Coder:
    """A backend whose faults cost no step: what it fails at, the CPU's codec does instead.

    All backends write and read the same frames, so either can read what the other wrote.
    ``break_even``: smaller tensors (bytes) go to the CPU at once; None: as the backend measured.
    `faults` counts what the backend failed at; the first fault is told by a RuntimeWarning.
    """

    def __init__(self, backend: Backend, frame_bytes: int, break_even: int | None) -> None:
        self.backend = backend
        self.faults = 0
        self._frame_bytes = frame_bytes
        measured = getattr(backend, "break_even_bytes", 0)
        self._break_even = measured if break_even is None else break_even
        self._lock = threading.Lock()

    def compress(
        self, data: np.ndarray, dtype: DType, codec: Codec, arena: Arena
    ) -> tuple[Frame, str]:
        """The frames of ``data`` (uint8, 1-D) in memory of ``arena``; the name of the backend."""
        block = arena.take(compress_bound(data.size, dtype, codec, self._frame_bytes))
        memory = np.asarray(block)
        arguments = (data, dtype, codec, self._frame_bytes, memory)
        backend = self._suited(data.size)
        try:
            frame = backend.compress(*arguments)
        except (BoardError, MemoryError) as error:
            backend = self._instead(error)
            frame = backend.compress(*arguments)
        del arguments, memory
        block.shrink(frame.nbytes)
        return frame, backend.name

    def decompress(self, frame: Frame, out: np.ndarray) -> int | None:
        """Write the frame's data to ``out``; the fabric's cycles. `FrameError` if it is bad."""
        backend = self._suited(out.size)
        try:
            return backend.decompress(frame, out)
        except (BoardError, MemoryError, FrameError) as error:
            if backend is self._cpu:
                raise
            # A frame that the board calls bad may have been damaged on its way there.
            self._cpu.decompress(frame, out)
            self._instead(error)
            return None

    def parts(self, frame: Frame) -> Parts:
        """The kept blocks of a bsr frame; `FrameError` if it is bad."""
        return bsr.parts(frame, getattr(self._cpu, "kept_blocks", None))

    def holds(self, frame: Frame, data: np.ndarray) -> bool:
        """Whether ``data`` is what the frame was made of."""
        return frame.holds(data, getattr(self._cpu, "padded_crcs", None))

    def zeros(self, frame: Frame, data: np.ndarray) -> int:
        """Elements of ``data``, of which ``frame`` was made, without any bit set (-0.0 has one)."""
        if frame.zeros is not None:
            return frame.zeros
        size = frame.dtype.element_bytes
        count = getattr(self._cpu, "count_zeros", None)
        return count(data, size) if count else int(np.sum(data.view(f"u{size}") == 0))

    def sample(self, data: np.ndarray, dtype: DType, codec: Codec) -> Frame:
        """The frame of a few blocks from all over ``data``, by the CPU's codec."""
        blocks = data[: data.size // BLOCK_BYTES * BLOCK_BYTES].reshape(-1, BLOCK_BYTES)
        return self._cpu.compress(blocks[:: -(-len(blocks) // _SAMPLE)].ravel(), dtype, codec)

    @property
    def on_cpu(self) -> bool:
        """Whether it is the CPU that compresses."""
        return self._cpu is self.backend

    @functools.cached_property
    def _cpu(self) -> Backend:
        if self.backend.name in ("native", "reference"):
            return self.backend
        try:
            from ..native import NativeBackend
        except ImportError:  # an image without a compiler
            return ReferenceBackend()
        return NativeBackend()

    def _suited(self, nbytes: int) -> Backend:
        return self.backend if nbytes >= self._break_even else self._cpu

    def _instead(self, error: Exception) -> Backend:
        """The CPU's codec, after a fault of the backend; raises ``error`` if that is the same."""
        if self.on_cpu:
            raise error
        with self._lock:
            self.faults += 1
            first = self.faults == 1
        if first:
            warnings.warn(
                f"the {self.backend.name} backend failed; the CPU's codec does what it fails at, "
                f"and the report counts it: {error}",
                RuntimeWarning,
                stacklevel=2,
            )
        return self._cpu

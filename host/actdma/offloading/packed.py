"""A span of a storage, compressed, and the storage that it is decoded to."""

from __future__ import annotations

import dataclasses
import hashlib
import threading
import time
import weakref
from typing import Protocol

import numpy as np
import torch

from ..arrays import torch_dtype_code
from ..codecs import Coding
from ..frame import Codec, DType, Frame, FrameError, Status
from .arena import Arena
from .coder import Coder
from .held import Held
from .records import Record
from .storages import View, offset_in_line
from .transfer import Decoded, Room, Source


@dataclasses.dataclass(frozen=True)
class Memory:
    """Where compressed and decoded bytes lie, and the sum of both."""

    packed: Arena
    decoded: Arena
    held: Held


class Claimant(Protocol):
    """A saved tensor that lies in a span."""

    asked: bool
    """It was wanted in this backward pass."""


class Span:
    """Bytes ``start`` to ``stop`` of a storage, in some form that takes less room.

    What is brought back is shared by all who claim it, and held here until the last of them has
    asked. ``lead``: where byte ``start`` lies in the memory that is brought back.
    """

    def __init__(self, span: tuple[int, int], lead: int, record: Record, memory: Memory) -> None:
        self.start, self.stop = span
        self.position = 0  # in the order of packing
        self.depth = 0  # residual additions that are done again for it
        self.record = record
        self._memory = memory
        self._lead = lead
        self._lock = threading.Lock()
        self._claimants: list[weakref.ref[Claimant]] = []
        self._awaited: Decoded | None = None

    @property
    def nbytes(self) -> int:
        """Raw bytes."""
        return self.stop - self.start

    def claim(self, claimant: Claimant) -> None:
        """``claimant`` may ask for what was saved, once in each backward pass."""
        self._claimants.append(weakref.ref(claimant))

    def view(self, view: View) -> torch.Tensor:
        """A tensor with the values, dtype, shape, strides and device of the one that was saved."""
        with self._lock:
            decoded = self._awaited
            if decoded is None or not decoded.unchanged:
                decoded = self._bring()
            self._awaited = decoded if self._claimed() else None
            return view.on(decoded.wait(), self._lead - self.start)

    def prefetch(self) -> None:
        """Bring it back, if somebody may ask for it and nobody has."""
        with self._lock:
            if self._awaited is None and self._claimed():
                self._awaited = self._bring()

    def _claimed(self) -> bool:
        """Whether somebody has not asked yet in this backward pass; the last to ask ends it."""
        claimants = [c for c in (reference() for reference in self._claimants) if c is not None]
        if not all(c.asked for c in claimants):
            return True
        for c in claimants:
            c.asked = False
        return False

    def _bring(self) -> Decoded:
        raise NotImplementedError

    def _check(self, data: np.ndarray, expected: bytes | None) -> None:
        """`FrameError` if ``data`` is not what hashed to ``expected``; None: nobody wants to
        know."""
        if expected is None:
            return
        self.record.bit_identical = digest(data) == expected
        if not self.record.bit_identical:
            # Never let it be used: a wrong index is a wild pointer in some backward kernels.
            what = f"tensor {self.record.index} came back with other bits"
            raise FrameError(Status.RAW_CRC, what)


class PackedSpan(Span):
    """Bytes of a storage, compressed without loss."""

    def __init__(
        self,
        source: Source,
        span: tuple[int, int],
        codec: Codec,
        coder: Coder,
        memory: Memory,
        record: Record,
        verify: bool,
    ) -> None:
        super().__init__(span, offset_in_line(source.storage, span[0]), record, memory)
        self.version = source.version
        self._coder = coder
        self._device = source.device
        data = source.bytes(*span)
        self._frame = compressed(data, torch_dtype_code(source.dtype), codec, coder, memory, record)
        self._digest = digest(data) if verify else None
        self._share = memory.held.add(self._frame.nbytes)

    def covers(self, source: Source, span: tuple[int, int]) -> bool:
        """Whether ``span`` of ``source``, as it is now, can be had from this copy.

        A version alone does not prove that: one storage can have several counters (chunks of
        `unsafe_chunk`, ``.data``), and NumPy does not count. So the bytes are compared.
        """
        within = self.start <= span[0] and span[1] <= self.stop <= source.storage.nbytes()
        return (
            within
            and self.version == source.version
            and self._coder.holds(self._frame, source.bytes(self.start, self.stop))
        )

    def _bring(self) -> Decoded:
        share = self._memory.held.add(self.nbytes)
        room = Room(self.nbytes, self._lead, self._device, self._memory.decoded, share)
        decompressed(self._frame, room.data, self._coder, self.record)
        self._check(room.data, self._digest)
        return room.decoded()


def compressed(
    data: np.ndarray,
    dtype: DType,
    codec: Codec | Coding,
    coder: Coder,
    memory: Memory,
    record: Record,
) -> Frame:
    """The frames of ``data`` (uint8, 1-D) in the arena of what is packed, noted in ``record``."""
    began = time.perf_counter()
    frame, record.backend = coder.compress(data, dtype, codec, memory.packed)
    record.spent("compress", began)
    record.compress_cycles = frame.cycles
    record.stored_bytes = frame.nbytes
    record.zero_fraction = coder.zeros(frame, data) / max(data.size // dtype.element_bytes, 1)
    return frame


def decompressed(frame: Frame, out: np.ndarray, coder: Coder, record: Record) -> None:
    """Write the data of ``frame`` to ``out`` (uint8, 1-D), noted in ``record``."""
    began = time.perf_counter()
    record.decompress_cycles = coder.decompress(frame, out)
    record.spent("decompress", began)


def digest(data: np.ndarray) -> bytes:
    """A hash of bytes, independent of the frame's own checksums."""
    return hashlib.blake2b(data, digest_size=16).digest()

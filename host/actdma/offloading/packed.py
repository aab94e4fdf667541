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
from ..frame import Codec, DType, FrameError, Status
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


class PackedSpan:
    """Bytes ``start`` to ``stop`` of a storage, compressed.

    What was decoded is shared by all who claim it, and held here until the last of them has asked.
    """

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
        self.start, self.stop = span
        self.version = source.version
        self.position = 0  # in the order of packing
        self.record = record
        self._coder = coder
        self._memory = memory
        self._device = source.device
        self._lead = offset_in_line(source.storage, self.start)
        self._lock = threading.Lock()
        self._claimants: list[weakref.ref[Claimant]] = []
        self._awaited: Decoded | None = None
        data = source.bytes(*span)
        dtype = torch_dtype_code(source.dtype)
        began = time.perf_counter()
        self._frame, record.backend = coder.compress(data, dtype, codec, memory.packed)
        record.compress_s = time.perf_counter() - began
        record.compress_cycles = self._frame.cycles
        record.stored_bytes = self._frame.nbytes
        record.zero_fraction = zero_fraction(data, dtype, self._frame.zeros)
        self._digest = digest(data) if verify else None
        self._share = memory.held.add(self._frame.nbytes)

    @property
    def nbytes(self) -> int:
        """Raw bytes."""
        return self.stop - self.start

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

    def claim(self, claimant: Claimant) -> None:
        """``claimant`` may ask for what was saved, once in each backward pass."""
        self._claimants.append(weakref.ref(claimant))

    def view(self, view: View) -> torch.Tensor:
        """A tensor with the values, dtype, shape, strides and device of the one that was saved."""
        with self._lock:
            decoded = self._awaited
            if decoded is None or not decoded.unchanged:
                decoded = self._decode()
            self._awaited = decoded if self._claimed() else None
            return view.on(decoded.wait(), self._lead - self.start)

    def prefetch(self) -> None:
        """Decode, if somebody may ask for it and nobody has."""
        with self._lock:
            if self._awaited is None and self._claimed():
                self._awaited = self._decode()

    def _claimed(self) -> bool:
        """Whether somebody has not asked yet in this backward pass; the last to ask ends it."""
        claimants = [c for c in (reference() for reference in self._claimants) if c is not None]
        if not all(c.asked for c in claimants):
            return True
        for c in claimants:
            c.asked = False
        return False

    def _decode(self) -> Decoded:
        share = self._memory.held.add(self.nbytes)
        room = Room(self.nbytes, self._lead, self._device, self._memory.decoded, share)
        began = time.perf_counter()
        self.record.decompress_cycles = self._coder.decompress(self._frame, room.data)
        self.record.decompress_s = time.perf_counter() - began
        self.record.decompressions += 1
        if self._digest is not None:
            self.record.bit_identical = digest(room.data) == self._digest
            if not self.record.bit_identical:
                # Never let it be used: a wrong index is a wild pointer in some backward kernels.
                what = f"tensor {self.record.index} came back with other bits"
                raise FrameError(Status.RAW_CRC, what)
        return room.decoded()


def zero_fraction(data: np.ndarray, dtype: DType, zeros: int | None) -> float:
    """Fraction of the elements in ``data`` without any bit set (-0.0 has one); ``zeros``: how many,
    if that is known."""
    elements = data.view(f"u{dtype.element_bytes}")
    if zeros is None:
        zeros = elements.size - np.count_nonzero(elements)
    return zeros / elements.size


def digest(data: np.ndarray) -> bytes:
    """A hash of bytes, independent of the frame's own checksums."""
    return hashlib.blake2b(data, digest_size=16).digest()

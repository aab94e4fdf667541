"""What the pack hook leaves in the graph: a compressed span of a storage, and views of it."""

from __future__ import annotations

import hashlib
import time

import numpy as np
import torch

from ..arrays import torch_dtype_code
from ..backend import Backend
from ..frame import Codec, DType, FrameError, Status
from .records import Record
from .storages import View, WeakStorage, checksum, offset_in_line, storage_bytes
from .versions import Version


class PackedSpan:
    """Bytes ``start`` to ``stop`` of a tensor's storage, compressed.

    Decoded memory is shared by everyone who asks for it while it is alive, and not held here.
    """

    def __init__(
        self,
        t: torch.Tensor,
        span: tuple[int, int],
        backend: Backend,
        codec: Codec,
        frame_bytes: int,
        record: Record,
        verify: bool,
    ) -> None:
        self.start, self.stop = span
        self.version = t._version
        self.record = record
        self._backend = backend
        self._device = t.device
        self._lead = offset_in_line(t, self.start)
        self._decoded: WeakStorage | None = None
        data = storage_bytes(t, self.start, self.stop)
        dtype = torch_dtype_code(t.dtype)
        began = time.perf_counter()
        self._frame = backend.compress(data, dtype, codec, frame_bytes)
        record.compress_s = time.perf_counter() - began
        record.compress_cycles = self._frame.cycles
        record.stored_bytes = self._frame.nbytes
        record.zero_fraction = zero_fraction(data, dtype)
        self._checksum = checksum(data)
        self._digest = digest(data) if verify else None

    def covers(self, t: torch.Tensor, span: tuple[int, int]) -> bool:
        """Whether ``span`` of the storage of ``t``, as it is now, can be had from this copy.

        A version alone does not prove that: one storage can have several counters (chunks of
        `unsafe_chunk`, ``.data``), and NumPy does not count. So the bytes are compared.
        """
        if self.version != t._version or not (self.start <= span[0] and span[1] <= self.stop):
            return False
        if t.untyped_storage().nbytes() < self.stop:
            return False
        return checksum(storage_bytes(t, self.start, self.stop)) == self._checksum

    def view(self, view: View) -> torch.Tensor:
        """A tensor with the values, dtype, shape, strides and device of the one that was saved."""
        storage = self._decoded and self._decoded()
        if storage is None or not self._unchanged(storage):
            storage = self._decode()
            self._decoded = WeakStorage(storage)
        return view.on(storage, self._lead - self.start)

    def _unchanged(self, storage: torch.UntypedStorage) -> bool:
        """Whether nobody has written to what was decoded, as a backward function may."""
        flat = torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)
        stop = self._lead + self.stop - self.start
        return checksum(storage_bytes(flat, self._lead, stop)) == self._checksum

    def _decode(self) -> torch.UntypedStorage:
        room = torch.empty(self._lead + self.stop - self.start, dtype=torch.uint8)
        data = room.numpy()[self._lead :]
        began = time.perf_counter()
        self.record.decompress_cycles = self._backend.decompress(self._frame, data)
        self.record.decompress_s = time.perf_counter() - began
        self.record.decompressions += 1
        if self._digest is not None:
            self.record.bit_identical = digest(data) == self._digest
            if not self.record.bit_identical:
                # Never let it be used: a wrong index is a wild pointer in some backward kernels.
                what = f"tensor {self.record.index} came back with other bits"
                raise FrameError(Status.RAW_CRC, what)
        return room.to(self._device).untyped_storage()


class Packed:
    """A saved tensor: a view of a packed span, and the version it had."""

    __slots__ = ("_span", "_version", "_view")

    def __init__(self, t: torch.Tensor, span: PackedSpan) -> None:
        self._span, self._view, self._version = span, View.of(t), Version(t)

    def unpack(self) -> torch.Tensor:
        """The tensor; RuntimeError if the original was modified in place after it was saved."""
        self._version.check()
        return self._span.view(self._view)


class Kept:
    """A saved tensor that stays as it is."""

    __slots__ = ("_version",)

    def __init__(self, t: torch.Tensor) -> None:
        self._version = Version(t, keep=True)

    def unpack(self) -> torch.Tensor:
        """The tensor; RuntimeError if it was modified in place after it was saved."""
        self._version.check()
        return self._version.tensor


def zero_fraction(data: np.ndarray, dtype: DType) -> float:
    """Fraction of the elements in ``data`` without any bit set (-0.0 has one)."""
    elements = data.view(f"u{dtype.element_bytes}")
    return 1 - np.count_nonzero(elements) / elements.size


def digest(data: np.ndarray) -> bytes:
    """A hash of bytes, independent of the frame's own checksums."""
    return hashlib.blake2b(data, digest_size=16).digest()

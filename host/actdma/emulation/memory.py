"""Physically contiguous memory behind a write-back cache, as a processor and its DMA share it."""

from __future__ import annotations

import mmap
import os
import threading
from typing import Any

import numpy as np

from .faults import Fault, Faults

LINE = 64
PAGE = 4096


class Pool:
    """A bounded pool of contiguous memory, allocated first-fit in pages.

    ``base``: physical address, ``size``: bytes. The processor reads and writes ``cached``, a DMA
    reads and writes ``dram``; `flush` and `invalidate` move cache lines between them, so that a
    forgotten call shows as stale data. With ``cache`` False both are one memory, as behind a
    coherent port. ``faults``: what goes wrong, None for nothing.
    """

    def __init__(
        self, base: int, size: int, cache: bool = True, faults: Faults | None = None
    ) -> None:
        self.base = base
        self.size = size
        self.dram = _pages(size)
        self.cached = _pages(size) if cache else self.dram
        self.closed = False
        self._faults = faults or Faults()
        self._process = os.getpid()
        self.flushes = 0
        self.invalidations = 0
        self._blocks: dict[int, int] = {}
        # Buffers are freed by the garbage collector too, at any point of an allocation.
        self._lock = threading.RLock()

    def close(self) -> None:
        """Return the memory to the system as soon as the last buffer in it is gone; nothing is
        allocated or mapped any more."""
        with self._lock:
            self.closed = True
            self.dram = self.cached = np.empty(0, np.uint8)

    @property
    def live(self) -> int:
        """Number of buffers not freed."""
        return len(self._blocks)

    @property
    def used(self) -> int:
        """Bytes in buffers not freed, whole pages."""
        return sum(self._blocks.values())

    def allocate(self, nbytes: int) -> int:
        """Physical address of ``nbytes`` contiguous bytes; MemoryError with the sizes if there is
        no room."""
        need = max(1, -(-nbytes // PAGE)) * PAGE
        with self._lock:
            if self.closed:
                raise MemoryError("the emulated board is closed, and its contiguous memory gone")
            offset, largest = self._first_fit(need)
            if self._faults.strike({Fault.EXHAUSTED}):
                offset, largest = None, 0
            if offset is None:
                raise MemoryError(
                    f"contiguous memory exhausted: {nbytes} bytes asked, the largest free piece "
                    f"has {largest}; of the pool's {self.size} bytes {self.used} are in "
                    f"{self.live} buffers"
                )
            self._blocks[self.base + offset] = need
        return self.base + offset

    def return_pointer(self, address: int) -> None:
        """Free what `allocate` returned (the name is the one pynq's buffers call)."""
        if os.getpid() != self._process:
            return  # a forked child may have inherited the lock as another thread held it
        with self._lock:
            self._blocks.pop(address, None)

    def contains(self, address: int, nbytes: int) -> bool:
        """Whether a DMA may touch these bytes."""
        end = self.base + self.size
        return not self.closed and self.base <= address and address + nbytes <= end

    def dma_view(self, address: int, nbytes: int) -> memoryview:
        """The bytes as a DMA sees them."""
        start = address - self.base
        return memoryview(self.dram[start : start + nbytes])

    def flush(self, address: int, nbytes: int) -> None:
        """Write the cache lines that hold these bytes back to memory."""
        self.flushes += 1
        if not self._faults.strike({Fault.SKIPPED_FLUSH}):
            self._copy(self.cached, self.dram, address, nbytes)

    def invalidate(self, address: int, nbytes: int) -> None:
        """Drop the cache lines that hold these bytes: the processor reads memory again."""
        self.invalidations += 1
        if not self._faults.strike({Fault.SKIPPED_INVALIDATE}):
            self._copy(self.dram, self.cached, address, nbytes)

    def _copy(self, source: np.ndarray, target: np.ndarray, address: int, nbytes: int) -> None:
        if source is target or self.closed:
            return
        start = (address - self.base) // LINE * LINE
        stop = -(-(address - self.base + nbytes) // LINE) * LINE
        target[start:stop] = source[start:stop]

    def _first_fit(self, need: int) -> tuple[int | None, int]:
        """Offset of the first gap of ``need`` bytes (None: no such gap) and the largest gap
        seen."""
        start, largest = 0, 0
        for address in [*sorted(self._blocks), self.base + self.size]:
            gap = address - self.base - start
            if gap >= need:
                return start, gap
            largest = max(largest, gap)
            start = address - self.base + self._blocks.get(address, 0)
        return None, largest

    def buffer(self, shape: Any, dtype: Any, device: Any) -> np.ndarray:
        """A `pynq.buffer.PynqBuffer` in this pool; freed with its last reference or by
        `freebuffer`."""
        from pynq.buffer import PynqBuffer

        dtype = np.dtype(dtype)
        nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        address = self.allocate(nbytes)
        start = address - self.base
        buffer = PynqBuffer(
            shape,
            dtype,
            buffer=self.cached[start : start + max(nbytes, 1)],
            device=device,
            device_address=address,
            bo=address,
            coherent=False,
        )
        buffer.memory = self
        buffer.pointer = address
        buffer.return_to = self
        # pynq would unmap the memory of a buffer freed twice.
        buffer.freed = True
        return buffer


def _pages(size: int) -> np.ndarray:
    """Zeroed memory of its own, which goes back to the system with the last view of it."""
    private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    return np.frombuffer(mmap.mmap(-1, size, flags=private), np.uint8)

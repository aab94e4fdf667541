"""Memory that is used again: the first touch of fresh pages costs more than any codec."""

from __future__ import annotations

import bisect
import collections
import threading

import numpy as np

CHUNK_BYTES = 64 << 20
_ALIGN = 64  # a cache line


class Block:
    """Bytes of an arena, returned with the last reference; `np.asarray` gives the memory."""

    def __init__(self, arena: Arena, chunk: _Chunk, start: int, stop: int) -> None:
        self._arena, self._chunk, self._start, self._stop = arena, chunk, start, stop

    @property
    def address(self) -> int:
        """Of its first byte."""
        return self._chunk.address + self._start

    @property
    def __array_interface__(self) -> dict:
        return {
            "version": 3,
            "shape": (self._stop - self._start,),
            "typestr": "|u1",
            "data": (self.address, False),
        }

    def shrink(self, nbytes: int) -> None:
        """Keep the first ``nbytes`` only: what lies behind is used by others from now on."""
        stop = self._start + _aligned(nbytes)
        self._arena.give_back(self._chunk, stop, self._stop)
        self._stop = stop

    def __del__(self) -> None:
        self._arena.give_back(self._chunk, self._start, self._stop)


class _Chunk:
    """One allocation: its memory, and the free pieces of it in ascending order."""

    def __init__(self, nbytes: int) -> None:
        self._memory = np.empty(nbytes + _ALIGN, np.uint8)
        self.address = _aligned(self._memory.ctypes.data)
        self.nbytes = nbytes
        self.free = [(0, nbytes)]

    def take(self, nbytes: int) -> int | None:
        """Start of the first free piece that has ``nbytes``, taken off it; None if none has."""
        for i, (start, stop) in enumerate(self.free):
            if stop - start >= nbytes:
                self.free[i : i + 1] = [(start + nbytes, stop)] if stop - start > nbytes else []
                return start
        return None

    def give_back(self, start: int, stop: int) -> None:
        """Join a piece with the free ones beside it."""
        i = bisect.bisect(self.free, (start, stop))
        first, last = i, i
        if i and self.free[i - 1][1] == start:
            first, start = i - 1, self.free[i - 1][0]
        if i < len(self.free) and self.free[i][0] == stop:
            last, stop = i + 1, self.free[i][1]
        self.free[first:last] = [(start, stop)]


class Arena:
    """Grows by chunks and gives out the first piece that is large enough. Thread-safe.

    A block is taken as large as it might have to be, and shrunk to what it has become: memory of a
    chunk that was never written to takes no room.
    """

    def __init__(self, chunk_bytes: int = CHUNK_BYTES) -> None:
        self._chunk_bytes = chunk_bytes
        self._chunks: list[_Chunk] = []
        self._lock = threading.Lock()
        # Blocks end at any point, even of `take`: what they had waits here, without a lock.
        self._returned: collections.deque[tuple[_Chunk, int, int]] = collections.deque()

    def take(self, nbytes: int) -> Block:
        """A block of at least ``nbytes``, at the beginning of a cache line."""
        size = max(_aligned(nbytes), _ALIGN)
        with self._lock:
            self._collect()
            for chunk in self._chunks:
                start = chunk.take(size)
                if start is not None:
                    return Block(self, chunk, start, start + size)
            chunk = _Chunk(max(size, self._chunk_bytes))
            self._chunks.append(chunk)
            return Block(self, chunk, chunk.take(size), size)

    def give_back(self, chunk: _Chunk, start: int, stop: int) -> None:
        """What a block does not need any more."""
        if start < stop:
            self._returned.append((chunk, start, stop))

    def trim(self) -> None:
        """Return chunks that nobody uses to the system."""
        with self._lock:
            self._collect()
            self._chunks = [c for c in self._chunks if c.free != [(0, c.nbytes)]]

    @property
    def nbytes(self) -> int:
        """Bytes of all chunks, used or not."""
        return sum(chunk.nbytes for chunk in self._chunks)

    @property
    def used(self) -> int:
        """Bytes in blocks."""
        with self._lock:
            self._collect()
            return self.nbytes - sum(b - a for chunk in self._chunks for a, b in chunk.free)

    def _collect(self) -> None:
        while self._returned:
            chunk, start, stop = self._returned.popleft()
            chunk.give_back(start, stop)


def _aligned(nbytes: int) -> int:
    return -(-nbytes // _ALIGN) * _ALIGN

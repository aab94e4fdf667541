"""The contiguous buffers that every transfer goes through: a bounded pool, allocated once."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..frame import BLOCK_BYTES, HEADER_BYTES, frame_bound
from .errors import BoardError

SLOTS = 6  # three frames under way in each of two engines
_SMALLEST = HEADER_BYTES + frame_bound(BLOCK_BYTES)
# What an allocator says when there is no memory: pynq's is a RuntimeError.
_NO_MEMORY = (MemoryError, RuntimeError, OSError)


class Slot:
    """A buffer to send from and one to receive into (`pynq.buffer.PynqBuffer`, uint8, 1-D)."""

    def __init__(self, allocate: Callable[[int], Any]) -> None:
        self._allocate = allocate
        self.send: Any = None
        self.receive: Any = None

    def holds(self, send_bytes: int, receive_bytes: int) -> bool:
        """Whether a packet and an answer of these lengths fit."""
        return (
            self.send is not None
            and self.send.nbytes >= send_bytes
            and self.receive.nbytes >= receive_bytes
        )

    def allocate(self, send_bytes: int, receive_bytes: int) -> None:
        """Other buffers. The old ones are freed first: memory may not hold both. What the allocator
        raises if there is no memory; the slot has no buffers then."""
        self.close()
        try:
            self.send = self._allocate(send_bytes)
            self.receive = self._allocate(receive_bytes)
        except _NO_MEMORY:
            self.close()
            raise

    def close(self) -> None:
        """Free the buffers."""
        for buffer in (self.send, self.receive):
            if buffer is not None:
                buffer.freebuffer()
        self.send = self.receive = None


class Staging:
    """At most `SLOTS` slots for packets and answers of ``nbytes``; fewer, then smaller ones, where
    memory is short. A slot grows when a larger frame comes, at the others' cost if need be.

    ``allocate``: called with a number of bytes, returns a contiguous buffer (uint8, 1-D) or raises
    MemoryError, RuntimeError or OSError. `BoardError` that says what was asked and what the pool
    has if not even the smallest frame fits.
    """

    def __init__(self, allocate: Callable[[int], Any], nbytes: int) -> None:
        self._allocate = allocate
        self._nbytes = nbytes
        self._changed = threading.Condition()
        self._waiting = 0
        self._closed = False
        self._slots: list[Slot] = []
        self._free: list[Slot] = []
        self._populate()

    @property
    def slots(self) -> int:
        """How many slots there are."""
        return len(self._slots)

    @property
    def idle(self) -> int:
        """How many of them nobody uses."""
        return len(self._free)

    @property
    def nbytes(self) -> int:
        """Bytes of packet and answer that fit every slot without allocating."""
        return min(min(slot.send.nbytes, slot.receive.nbytes) for slot in self._slots)

    def acquire(self, send_bytes: int, receive_bytes: int, held: list[Slot]) -> Slot | None:
        """A slot for a packet and an answer of these lengths, which is added to ``held``.

        Who holds slots already gets None where another would have to be waited for, or someone else
        waits: go on with those. `BoardError` if there is no memory, or the pool was closed.
        """
        with self._changed:
            if held and (self._waiting or not self._free):
                return None
            while True:
                self._await(lambda: self._free or not self._slots)
                if self._closed:
                    raise BoardError("the board was closed")
                if not self._slots:
                    self._populate()
                slot = self._free[-1]
                if slot.holds(send_bytes, receive_bytes):
                    break
                try:
                    slot.allocate(send_bytes, receive_bytes)
                    break
                except _NO_MEMORY as error:
                    # Its memory is the next one's to take, whether that is free or in use yet.
                    self._free.remove(slot)
                    self._slots.remove(slot)
                    if not self._slots:
                        with contextlib.suppress(BoardError):
                            self._populate()
                        self._changed.notify_all()
                        raise _exhausted(send_bytes, receive_bytes, error) from error
                    if held and not self._free:
                        return None
            # In both lists for a moment, so that an interrupt cannot lose it.
            held.append(slot)
            self._free.remove(slot)
            return slot

    def release(self, held: list[Slot], count: int | None = None) -> None:
        """Give back the first ``count`` of ``held``, all of them if None."""
        with self._changed:
            for slot in held[:count]:
                if slot not in self._free:
                    self._free.append(slot)
            del held[:count]
            self._changed.notify_all()

    def close(self) -> None:
        """Wait until no slot is in use, and free them all."""
        with self._changed:
            self._await(lambda: len(self._free) == len(self._slots))
            self._closed = True
            for slot in self._slots:
                slot.close()

    def _await(self, condition: Callable[[], Any]) -> None:
        self._waiting += 1
        try:
            self._changed.wait_for(condition)
        finally:
            self._waiting -= 1

    def _populate(self) -> None:
        """Allocate what fits: as large as asked if one does, else the half, and so on."""
        size = self._nbytes
        while not self._add(size):
            size //= 2
        while len(self._slots) < SLOTS and self._add(size):
            pass

    def _add(self, nbytes: int) -> bool:
        """One more slot, False if there is no memory for it; `BoardError` if it cannot be
        smaller."""
        slot = Slot(self._allocate)
        try:
            slot.allocate(nbytes, nbytes)
        except _NO_MEMORY as error:
            if nbytes <= _SMALLEST and not self._slots:
                raise _exhausted(nbytes, nbytes, error) from error
            return False
        self._slots.append(slot)
        self._free.append(slot)
        return True


def _exhausted(send_bytes: int, receive_bytes: int, error: Exception) -> BoardError:
    return BoardError(
        f"no contiguous memory for a frame: {send_bytes} bytes to send and {receive_bytes} to "
        f"receive were asked; {error}{_linux_pool()}. Take smaller frames (frame_bytes), free "
        "buffers of pynq.allocate, or boot with a larger cma="
    )


def _linux_pool() -> str:
    """What Linux tells of its contiguous memory, "" where it has none."""
    try:
        lines = Path("/proc/meminfo").read_text("utf-8").splitlines()
    except OSError:
        return ""
    sizes = [" ".join(line.split()) for line in lines if line.startswith("Cma")]
    return f" ({', '.join(sizes)})" if sizes and not sizes[0].endswith(": 0 kB") else ""

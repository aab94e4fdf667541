"""The contiguous buffers that every transfer goes through, allocated once and reused."""

from __future__ import annotations

from typing import Any


class Staging:
    """One buffer to send from and one to receive into, which grow when a larger frame comes.

    ``allocate``: called with a number of bytes, returns a contiguous buffer (uint8, 1-D).
    """

    def __init__(self, allocate: Any, nbytes: int) -> None:
        self._allocate = allocate
        self._buffers: dict[str, Any] = {}
        for name in ("send", "receive"):
            self.view(name, nbytes)

    def view(self, name: str, nbytes: int) -> Any:
        """The first ``nbytes`` of buffer "send" or "receive"; MemoryError says what the pool
        has."""
        buffer = self._buffers.get(name)
        if buffer is None or buffer.nbytes < nbytes:
            if buffer is not None:
                # Freed first: a board's contiguous memory may not hold both.
                self._buffers.pop(name).freebuffer()
            buffer = self._buffers[name] = self._allocate(nbytes)
        return buffer[:nbytes]

    def close(self) -> None:
        """Free both buffers."""
        while self._buffers:
            self._buffers.popitem()[1].freebuffer()

"""How many bytes are held for the backward pass, now and at most."""

from __future__ import annotations

import collections
import threading


class Held:
    """Adds up `Share`. Thread-safe; a share may end at any point, also of these methods."""

    def __init__(self) -> None:
        self.peak = 0
        self._now = 0
        self._lock = threading.Lock()
        self._ended: collections.deque[int] = collections.deque()

    def add(self, nbytes: int) -> Share:
        """``nbytes`` are held from now on, for as long as the share lives."""
        with self._lock:
            self._collect()
            self._now += nbytes
            self.peak = max(self.peak, self._now)
        return Share(self, nbytes)

    def end(self, nbytes: int) -> None:
        """A share of ``nbytes`` has ended."""
        self._ended.append(nbytes)

    @property
    def now(self) -> int:
        """Bytes held."""
        with self._lock:
            self._collect()
            return self._now

    def _collect(self) -> None:
        while self._ended:
            self._now -= self._ended.popleft()


class Share:
    """Some bytes that are held."""

    __slots__ = ("__weakref__", "_held", "_nbytes")

    def __init__(self, held: Held, nbytes: int) -> None:
        self._held, self._nbytes = held, nbytes

    def __del__(self) -> None:
        self._held.end(self._nbytes)

"""Who may use a device: one thread at a time, of the process that opened it."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator

from .errors import BoardError


class Turns:
    """The lock of a device called ``what`` in messages.

    Not re-entrant: a signal handler or finaliser that comes in the middle of a frame of its own
    thread gets a `BoardError` instead of waiting for itself, and so does a forked child.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._lock = threading.RLock()
        self._process = os.getpid()
        self._busy = False

    @property
    def foreign(self) -> bool:
        """Whether this is another process than the one that opened the device."""
        return os.getpid() != self._process

    @contextlib.contextmanager
    def take(self) -> Iterator[None]:
        """Wait for the other threads, then have the device alone."""
        # First of all: a thread of the parent may have held the lock that a forked child inherits.
        if self.foreign:
            raise BoardError(
                f"the {self._what} was opened in another process; open it again in this one"
            )
        with self._lock:
            # The lock lets its own thread in again: whoever finds the device busy interrupted it.
            if self._busy:
                raise BoardError(
                    f"the {self._what} is in use by this very thread: a signal handler or "
                    "finaliser cannot use it in the middle of a frame"
                )
            try:
                self._busy = True
                yield
            finally:
                self._busy = False

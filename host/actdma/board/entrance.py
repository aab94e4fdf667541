"""Who may use a device: the threads of the process that opened it, each once at a time."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator

from .errors import BoardError


class Entrance:
    """The way into a device called ``what`` in messages.

    Not re-entrant: a signal handler or finaliser that comes in the middle of a frame of its own
    thread gets a `BoardError` instead of waiting for itself, and so does a forked child.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._process = os.getpid()
        self._inside: set[int] = set()

    @property
    def foreign(self) -> bool:
        """Whether this is another process than the one that opened the device."""
        return os.getpid() != self._process

    @contextlib.contextmanager
    def enter(self) -> Iterator[None]:
        """Be inside; other threads may be, too."""
        if self.foreign:
            raise BoardError(
                f"the {self._what} was opened in another process; open it again in this one"
            )
        thread = threading.get_ident()
        if thread in self._inside:
            raise BoardError(
                f"the {self._what} is in use by this very thread: a signal handler or "
                "finaliser cannot use it in the middle of a frame"
            )
        try:
            self._inside.add(thread)
            yield
        finally:
            self._inside.discard(thread)

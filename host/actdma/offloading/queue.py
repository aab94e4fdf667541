"""When work is done: at once, or in order by one thread while the caller goes on."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, Protocol, TypeVar

T = TypeVar("T")


class Result(Protocol[T]):
    """What work will have come to."""

    def result(self) -> T:
        """Wait for it, and raise what it raised."""
        ...


class Done(Generic[T]):
    """The result of work that was done at once."""

    def __init__(self, value: T) -> None:
        self._value = value

    def result(self) -> T:
        """The value."""
        return self._value


class Later(Generic[T]):
    """The result of work that a thread does."""

    def __init__(self, future: Future[T]) -> None:
        self._future = future

    def result(self) -> T:
        """Wait for it; raises a copy of what the work raised.

        The frames that an error goes through are in its traceback. Were it the future's own, that
        would hold those of a step, they the graph, and this the future: for ever, as no garbage
        collector sees through a graph.
        """
        error = self._future.exception()
        if error is not None:
            raise copied(error)
        return self._future.result()


def copied(error: BaseException) -> BaseException:
    """The same error with a traceback of its own; itself if it cannot be copied."""
    try:
        twin = type(error).__new__(type(error), *error.args)
    except TypeError:
        return error
    twin.__dict__.update(error.__dict__)
    if str(twin) != str(error):
        return error
    twin.__cause__, twin.__suppress_context__ = error.__cause__, error.__suppress_context__
    return twin.with_traceback(error.__traceback__)


class AtOnce:
    """Does all work in the caller's thread."""

    ahead_bytes = 0

    def put(self, nbytes: int, work: Callable[[], T]) -> Result[T]:
        """Do ``work``; raises what it raises."""
        return Done(work())


class Queue:
    """One thread that does work in the order of `put`.

    Work of at most ``limit`` bytes waits: `put` waits for room, so a slow device holds the caller
    up and memory does not grow. Work that alone is larger gets in when nothing else waits. The
    thread ends with the last reference to the queue.
    """

    def __init__(self, limit: int) -> None:
        self.ahead_bytes = limit
        self._room = threading.Condition()
        self._waiting = 0
        self._thread = ThreadPoolExecutor(1, "actdma")
        self._process = os.getpid()

    def put(self, nbytes: int, work: Callable[[], T]) -> Later[T]:
        """Have ``work``, which needs ``nbytes`` to be held for it, done. RuntimeError in a forked
        child, which has no such thread."""
        if os.getpid() != self._process:
            raise RuntimeError("this offload session belongs to another process: open one in this")
        with self._room:
            while self._waiting and self._waiting + nbytes > self.ahead_bytes:
                self._room.wait()
            self._waiting += nbytes
        future = self._thread.submit(work)
        future.add_done_callback(lambda _: self._leave(nbytes))
        return Later(future)

    def offer(self, work: Callable[[], object]) -> None:
        """Have ``work`` done that nobody waits for."""
        self._thread.submit(work)

    def _leave(self, nbytes: int) -> None:
        with self._room:
            self._waiting -= nbytes
            self._room.notify()


def queue_of(limit: int) -> AtOnce | Queue:
    """The queue that holds ``limit`` bytes, of which 0 means none."""
    return Queue(limit) if limit else AtOnce()

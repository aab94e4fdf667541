"""Frames through one engine: copied in, transferred, checked and copied out, all three at once."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

import numpy as np

from .errors import BoardError
from .jobs import Job
from .link import Link
from .staging import Slot, Staging


@dataclasses.dataclass
class Passage:
    """A job on its way through a slot.

    ``send``, ``receive``: the parts of the slot's buffers that it uses; ``received``: the bytes
    that came; ``cycles``: the engine's, None where time is not modelled; ``fault``: why it had to
    be transferred once more.
    """

    job: Job
    send: Any
    receive: Any
    received: int = 0
    cycles: int | None = None
    fault: BoardError | None = None

    def fill(self) -> None:
        """Write the packet and make it, and the room for the answer, ready for the DMA."""
        self.job.fill(self.send.view(np.ndarray))
        self.send.flush()
        self.receive.invalidate()

    def take(self) -> None:
        """Check the answer and copy out what is wanted."""
        answer = self.receive[: self.received]
        answer.invalidate()
        self.job.take(self.send.view(np.ndarray), answer.view(np.ndarray))


# Called with what is copied in, in the fabric and copied out at the same time.
Watch = Callable[["Passage | None", "Passage | None", "Passage | None"], None]


class Pipeline:
    """Streams of jobs through the engine behind ``link``, over the slots of ``staging``.

    While a frame is in the fabric, the next is copied into another slot, and the answer of the one
    before is checked and copied out by a thread of the pipeline's own. A frame that fails is
    transferred once more, after a reset. Several threads may run streams: their frames alternate,
    one in the fabric at a time.

    ``cycles``: the engine's clock cycles of the last frame; ``check``: called before anything is
    written to a register; what it raises ends the stream. ``faults``: how often a frame failed,
    ``retries``: how often one was transferred once more.
    """

    def __init__(
        self,
        link: Link,
        staging: Staging,
        cycles: Callable[[], int | None],
        check: Callable[[], None],
    ) -> None:
        self.faults = self.retries = 0
        self._link = link
        self._staging = staging
        self._cycles = cycles
        self._check = check
        self._turn = threading.Lock()
        self._taker = ThreadPoolExecutor(1, f"actdma-{link.name}")

    def run(self, jobs: Iterator[Job], watch: Watch) -> None:
        """Do the jobs. What is wrong with one is raised when those before it are done: `BoardError`
        after a second failure, else what ``jobs`` or a job raised. ``watch`` is called after each
        step with what overlapped in it."""
        source, held = _Source(jobs), []
        filled: Passage | None = None
        landed: Passage | None = None
        try:
            while True:
                if filled is None and (filled := self._fill(source, held)) is not None:
                    watch(filled, None, None)
                if filled is None and landed is None:
                    break
                flying, filled = filled, None
                if flying is not None:
                    filled = self._fly(flying, landed, source, held)
                else:
                    self._deliver(landed)
                watch(filled, flying, landed)
                if landed is not None:
                    self._staging.release(held, 1)
                landed = flying
        finally:
            self._staging.release(held)
        if source.error is not None:
            raise source.error

    def close(self) -> None:
        """End the pipeline's thread."""
        self._taker.shutdown()

    def _fill(self, source: _Source, held: list[Slot]) -> Passage | None:
        """Copy the next packet into a slot; None if there is no job, or no slot yet."""
        job = source.job
        slot = job and self._staging.acquire(job.send_bytes, job.capacity, held)
        if not slot:
            return None
        passage = Passage(job, slot.send[: job.send_bytes], slot.receive[: job.capacity])
        passage.fill()
        source.advance()
        return passage

    def _fly(
        self, flying: Passage, landed: Passage | None, source: _Source, held: list[Slot]
    ) -> Passage | None:
        """Transfer a frame; meanwhile copy in the next, which is returned, and take the answer of
        the one before."""
        taking: Future[None] | None = None
        with self._using_link():
            try:
                stuck = _fault(self._link.start, flying.send, flying.receive)
                if landed is not None:
                    taking = self._taker.submit(landed.take)
                filled = self._fill(source, held)
                bad = taking and _fault(taking.result)
                stuck = stuck or _fault(self._land, flying)
            finally:
                if taking is not None:
                    wait([taking])
            if bad:
                self._mend(landed, bad)
            if stuck:
                self._repeat(flying, stuck)
        return filled

    def _deliver(self, landed: Passage) -> None:
        """Take the answer of the last frame, or of one after which no slot was free."""
        if bad := _fault(landed.take):
            with self._using_link():
                self._mend(landed, bad)

    def _land(self, passage: Passage) -> None:
        passage.received = self._link.finish()
        passage.cycles = self._cycles()

    def _mend(self, landed: Passage, fault: BoardError) -> None:
        """Repeat a frame whose answer was bad, and take the new one."""
        self._repeat(landed, fault)
        if again := _fault(landed.take):
            self._give_up(landed, again)

    def _repeat(self, passage: Passage, fault: BoardError) -> None:
        """Transfer a frame once more, alone and after a reset, unless that was done already."""
        if passage.fault is not None:
            self._give_up(passage, fault)
        self.faults += 1
        self.retries += 1
        passage.fault = fault
        self._check()
        self._link.reset()
        passage.fill()
        again = _fault(self._link.start, passage.send, passage.receive)
        if again := again or _fault(self._land, passage):
            self._give_up(passage, again)

    def _give_up(self, passage: Passage, fault: BoardError) -> None:
        self.faults += 1
        raise fault from passage.fault

    @contextlib.contextmanager
    def _using_link(self) -> Iterator[None]:
        """Have the link alone; whatever is raised, an interrupt too, leaves it and the engine
        reset."""
        with self._turn:
            self._check()
            try:
                yield
            except BaseException:
                self._check()
                self._link.reset()
                raise


class _Source:
    """``jobs``, one at a time: ``job`` is the next, None after the last or when finding one raised
    ``error``."""

    def __init__(self, jobs: Iterator[Job]) -> None:
        self._jobs = jobs
        self.error: Exception | None = None
        self.advance()

    def advance(self) -> None:
        """Find the next."""
        self.job: Job | None = None
        try:
            self.job = next(self._jobs, None)
        except Exception as error:
            self.error = error


def _fault(call: Callable[..., object], *arguments: object) -> BoardError | None:
    """Call something: the `BoardError` that it raised, if it did."""
    try:
        call(*arguments)
    except BoardError as error:
        return error
    return None

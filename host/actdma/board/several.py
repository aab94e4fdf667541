"""Several boards behind the protocol of one."""

from __future__ import annotations

import contextlib
import functools
import threading
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from ..frame import Engine
from .device import Device
from .errors import BoardError
from .jobs import Job


class Boards(Device):
    """Boards, or cards, that work side by side: the frames of a tensor are spread over those that
    have the least to do (a `Backend`).

    ``boards``: open ones, of one kind; closed with this. One that fails, which is after it has
    tried a frame twice, is closed and taken out with a RuntimeWarning, and what it had not done is
    given to the others; frames can be read by any of them. Without any left, calls raise the last
    one's `BoardError`; `actdma.offload` goes on with the CPU's codec then.

    `info` is that of the first board, with codecs that all have, sums of ``faults`` and
    ``retries``, and ``boards``: the `info` of each that is left. Thread-safe. TypeError for what is
    no board, ValueError for none.
    """

    name = "board"

    def __init__(self, boards: Sequence[Device]) -> None:
        boards = list(boards)
        for board in boards:
            if not isinstance(board, Device):
                raise TypeError(f"expected boards or cards, got {type(board).__name__}")
        if not boards:
            raise ValueError("expected at least one board, got none")
        super().__init__("set of boards", "actdma.Boards", None)
        self._alive = boards
        self._busy = dict.fromkeys(boards, 0)  # jobs that each was given
        self._lock = threading.Lock()
        self._last_fault: BoardError | None = None
        self._gone = {"faults": 0, "retries": 0}  # of those taken out
        self._workers = ThreadPoolExecutor(2 * len(boards), "actdma-boards")
        self._codecs = functools.reduce(lambda a, b: a & b, (b._codecs for b in boards))
        limits = [b._max_packet for b in boards if b._max_packet is not None]
        self._max_packet = min(limits, default=None)
        self._info = {**boards[0].info(), "codecs": self._codec_names()}
        self.break_even_bytes = max(getattr(b, "break_even_bytes", 0) for b in boards)

    def info(self) -> dict[str, Any]:
        """What the boards are and what went wrong with them; see the class."""
        each = [board.info() for board in self._boards()]
        sums = {
            name: past + sum(one.get(name, 0) for one in each) for name, past in self._gone.items()
        }
        return {**super().info(), **sums, "boards": each}

    def _work(self, engine: Engine, jobs: Iterator[Job]) -> int | None:
        with self._entrance.enter():
            self._check_usable()
            todo, cycles = list(jobs), []
            while todo:
                todo = self._round(engine, todo, cycles)
        return None if None in cycles else sum(cycles)

    def _round(self, engine: Engine, todo: list[Job], cycles: list[int | None]) -> list[Job]:
        """Have boards do what is ``todo``; what is left because one of them failed. Raises what is
        wrong with a job, and the last fault if no board is left."""
        queue = _Jobs(todo)
        with self._given(len(todo)) as boards:
            futures = {b: self._start(b, engine, queue.share()) for b in boards}
            errors = {board: future.exception() for board, future in futures.items()}
        for board, error in errors.items():
            if isinstance(error, BoardError):
                self._take_out(board, error)
            elif error is None:
                cycles.append(futures[board].result())
        wrong = [e for e in errors.values() if e is not None and not isinstance(e, BoardError)]
        if wrong:
            raise wrong[0]
        return queue.undone()

    def _start(self, board: Device, engine: Engine, share: Iterator[Job]) -> Future[int | None]:
        return self._workers.submit(board._work, engine, share)

    @contextlib.contextmanager
    def _given(self, jobs: int) -> Iterator[list[Device]]:
        """As many boards as ``jobs`` occupy, those with the least to do."""
        with self._lock:
            if not self._alive:
                raise BoardError(
                    f"all boards have failed, the last one with: {self._last_fault}"
                ) from self._last_fault
            boards = sorted(self._alive, key=self._busy.__getitem__)[:jobs]
            each = -(-jobs // len(boards))
            for board in boards:
                self._busy[board] += each
        try:
            yield boards
        finally:
            with self._lock:
                for board in boards:
                    self._busy[board] -= each

    def _take_out(self, board: Device, error: BoardError) -> None:
        with self._lock:
            if board not in self._alive:
                return  # by another thread
            self._alive.remove(board)
            self._last_fault, left = error, len(self._alive)
            told = board.info()
            for name in self._gone:
                self._gone[name] += told.get(name, 0)
        warnings.warn(
            f"a board failed and is left out, {left} remain: {error}", RuntimeWarning, stacklevel=2
        )
        with contextlib.suppress(BoardError):
            board.close()

    def _boards(self) -> list[Device]:
        with self._lock:
            return list(self._alive)

    def _release(self) -> None:
        self._workers.shutdown()
        with contextlib.ExitStack() as stack:
            for board in self._boards():
                stack.callback(board.close)


class _Jobs:
    """Jobs that several boards take from one queue; which of them are done."""

    def __init__(self, jobs: list[Job]) -> None:
        self._jobs = jobs
        self._done = [False] * len(jobs)
        self._next = iter(range(len(jobs)))
        self._lock = threading.Lock()

    def share(self) -> Iterator[Job]:
        """What one board takes, one at a time."""
        while True:
            with self._lock:
                index = next(self._next, None)
            if index is None:
                return
            yield self._watched(index)

    def undone(self) -> list[Job]:
        """Those that nobody has done, in order."""
        return [job for job, done in zip(self._jobs, self._done, strict=True) if not done]

    def _watched(self, index: int) -> Job:
        job = self._jobs[index]

        def take(packet: np.ndarray, answer: np.ndarray) -> None:
            job.take(packet, answer)
            self._done[index] = True

        return job._replace(take=take)

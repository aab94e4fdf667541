"""An Alveo card as a backend: tensors cut into frames, frames dealt out to the compute units."""

from __future__ import annotations

import functools
import itertools
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..board import BoardError
from ..board.device import Device
from ..board.jobs import Job, identify_job
from ..frame import (
    FRAME_BYTES,
    HEADER_BYTES,
    Engine,
    FrameError,
    Trailer,
    answer_bytes,
    frame_bound,
    padded,
)
from .unit import Unit, open_units

_KERNELS = {
    Engine.COMPRESSOR: "actdma_compress_maxi",
    Engine.DECOMPRESSOR: "actdma_decompress_maxi",
}


class Card(Device):
    """Compresses and decompresses through the compute units of a card (a `Backend`).

    ``xrt``: the module pyxrt; ``device``: a `pyxrt.device` that has loaded the xclbin of ``uuid``;
    ``kind``: "hardware" or "emulated"; ``platform``: what the xclbin was built for; ``timeout``:
    seconds per frame, None for a default made from its size; ``frame_bytes``: raw bytes of the
    largest frame that buffers are allocated for at once; ``cycles``: the clock cycles of a unit's
    last run, by its name, where an emulated card models them; ``on_close``: called when the card is
    closed.

    `info` tells kind, device and platform names, clock in MHz, lanes per beat, codecs, compute
    units and versions of the engines, and whether time is modelled.

    Frames of a tensor are under way on several units at a time. Thread-safe, one tensor at a time;
    not re-entrant, and of one process only, as `actdma.board.Board`. After an error from the card
    itself it is not used any more, for a unit that never ended may still write to its buffers.
    """

    name = "alveo"

    def __init__(
        self,
        xrt: Any,
        device: Any,
        uuid: Any,
        *,
        kind: str,
        platform: str,
        timeout: float | None = None,
        frame_bytes: int = FRAME_BYTES,
        cycles: Callable[[str], int | None] | None = None,
        on_close: Callable[[], None] | None = None,
    ) -> None:
        super().__init__("card", "actdma.open_alveo", on_close)
        self.kind = kind
        self._cycles = cycles
        self._turn = threading.Lock()
        self._units = {
            engine: open_units(xrt, device, uuid, kernel, timeout)
            for engine, kernel in _KERNELS.items()
        }
        bound = frame_bound(frame_bytes)
        for unit in self._units[Engine.COMPRESSOR]:
            unit.reserve(HEADER_BYTES + padded(frame_bytes), bound)
        for unit in self._units[Engine.DECOMPRESSOR]:
            unit.reserve(bound, answer_bytes(frame_bytes))
        identities = {engine: self._identify(engine) for engine in _KERNELS}
        everyone = itertools.chain.from_iterable(identities.values())
        self._codecs = functools.reduce(lambda a, b: a & b, (i.codecs for i in everyone))
        self._info = {
            "kind": kind,
            "device": device.get_info(xrt.xrt_info_device.name),
            "platform": platform,
            "clock_mhz": float(device.get_info(xrt.xrt_info_device.max_clock_frequency_mhz)),
            "lanes": identities[Engine.COMPRESSOR][0].lanes,
            "codecs": self._codec_names(),
            "units": {e.name.lower(): len(units) for e, units in self._units.items()},
            "versions": {e.name.lower(): found[0].version for e, found in identities.items()},
            "modelled": cycles is not None,
        }

    def _release(self) -> None:
        with self._turn:
            for unit in self._all_units():
                unit.close()

    def _work(self, engine: Engine, jobs: Iterator[Job]) -> int | None:
        """Do the jobs on the units in turn and take their answers in order; the sum of the cycles.

        Each unit has one job under way: the host fills and empties buffers while the others run.
        """
        units = self._units[engine]
        pending: deque[tuple[Unit, Job, np.ndarray]] = deque()
        cycles: list[int] = []

        def take_next() -> None:
            unit, job, packet = pending.popleft()
            job.take(packet, unit.finish())
            if self._cycles is not None and (taken := self._cycles(unit.name)) is not None:
                cycles.append(taken)

        def next_job() -> Job | None:
            try:
                return next(jobs, None)
            except FrameError:
                # What is wrong with an earlier frame comes first.
                while pending:
                    take_next()
                raise

        with self._entrance.enter(), self._turn:
            self._check_usable()
            try:
                for unit in itertools.cycle(units):
                    if (job := next_job()) is None:
                        break
                    if len(pending) == len(units):
                        take_next()
                    packet = unit.start(job.send_bytes, job.capacity, job.fill)
                    pending.append((unit, job, packet))
                while pending:
                    take_next()
            finally:
                for unit in units:
                    if unit.running and not unit.broken:
                        unit.wait()
        return sum(cycles) if cycles else None

    def _identify(self, engine: Engine) -> list[Trailer]:
        """What every unit of an engine says it is; `BoardError` unless that is expected."""
        identities: list[Trailer] = []
        names = [unit.name for unit in self._units[engine]]
        self._work(engine, (identify_job(engine, name, identities.append) for name in names))
        return identities

    def _check_usable(self) -> None:
        super()._check_usable()
        for unit in self._all_units():
            if unit.broken:
                raise BoardError(
                    f"the card is not used any more since {unit.broken}: reset it "
                    "(xrt-smi reset) and open it again"
                )

    def _all_units(self) -> Iterator[Unit]:
        return itertools.chain.from_iterable(self._units.values())

"""One compute unit: a packet into the card's memory, the kernel over it, the answer back.

Uses of pyxrt (XRT, src/python/pybind11): device, kernel, run, bo. The kernels are
``hls/src/actdma_*_maxi.cpp``: packet, answer, packet_bytes, capacity.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..board import BoardError, BoardTimeoutError
from ..frame import ALIGN

_PACKET, _ANSWER, _PACKET_BYTES, _CAPACITY = range(4)
# What the output buffer begins with (hls/include/actdma/maxi.hpp): the answer's length, overrun.
_RESULT_BYTES = 64
_FAILED = ("ERROR", "ABORT", "NORESPONSE", "SKERROR", "SKCRASHED")
# Far below what PCIe and a kernel do: a run that takes longer will not end.
_SLOWEST = 50e6


class Buffer:
    """A buffer object in the bank of one kernel argument; grows when a larger frame comes."""

    def __init__(self, xrt: Any, device: Any, group: int) -> None:
        self._xrt = xrt
        self._device = device
        self._group = group
        self.bo: Any = None
        self.bytes = np.empty(0, np.uint8)

    def reserve(self, nbytes: int) -> None:
        """Make it at least ``nbytes`` long; `BoardError` if the bank has no room."""
        if self.bytes.size >= nbytes:
            return
        self.close()
        try:
            self.bo = self._xrt.bo(self._device, nbytes, self._xrt.bo.normal, self._group)
        except (RuntimeError, MemoryError) as error:
            raise BoardError(
                f"the card's memory (bank group {self._group}) has no room for a buffer of "
                f"{nbytes} bytes: {error}"
            ) from None
        self.bytes = np.frombuffer(self.bo.map(), np.uint8)

    def push(self, nbytes: int) -> None:
        """Copy the first ``nbytes`` to the card."""
        self.bo.sync(self._xrt.xclBOSyncDirection.XCL_BO_SYNC_BO_TO_DEVICE, nbytes, 0)

    def pull(self, start: int, nbytes: int) -> np.ndarray:
        """Copy ``nbytes`` from the card; they are there until the buffer is used again."""
        self.bo.sync(self._xrt.xclBOSyncDirection.XCL_BO_SYNC_BO_FROM_DEVICE, nbytes, start)
        return self.bytes[start : start + nbytes]

    def close(self) -> None:
        """Free it. The view first: nothing else keeps it from outliving the memory."""
        self.bytes = np.empty(0, np.uint8)
        self.bo = None


class Unit:
    """A compute unit called ``name`` of ``kernel``, with a buffer to send and one to receive.

    ``timeout``: seconds per frame, None for a default made from its size. ``broken``: why the unit
    cannot be used any more, or "". RuntimeError, as pyxrt raises it, if the xclbin loaded has no
    such unit.
    """

    def __init__(
        self, xrt: Any, device: Any, uuid: Any, kernel: str, name: str, timeout: float | None
    ) -> None:
        self.name = name
        self._xrt = xrt
        self._kernel = xrt.kernel(device, uuid, f"{kernel}:{{{name}}}")
        self._send = Buffer(xrt, device, self._kernel.group_id(_PACKET))
        self._receive = Buffer(xrt, device, self._kernel.group_id(_ANSWER))
        self._timeout = timeout
        self._sent = self._capacity = 0
        # One per frame: a run holds the buffers it was given.
        self._run: Any = None
        self.broken = ""

    @property
    def running(self) -> bool:
        """Whether a run was started and has not been seen to complete."""
        return self._run is not None

    def reserve(self, send_bytes: int, capacity: int) -> None:
        """Buffers for packets of ``send_bytes`` and answers of ``capacity`` bytes."""
        self._send.reserve(send_bytes)
        self._receive.reserve(_RESULT_BYTES + capacity)

    def start(
        self, send_bytes: int, capacity: int, fill: Callable[[np.ndarray], None]
    ) -> np.ndarray:
        """Start on a packet that ``fill`` writes; `finish` has the answer. Returns the packet."""
        self.reserve(send_bytes, capacity)
        packet = self._send.bytes[:send_bytes]
        fill(packet)
        self._sent, self._capacity = send_bytes, capacity
        with self._xrt_errors():
            self._send.push(send_bytes)
            run = self._xrt.run(self._kernel)
            run.set_arg(_PACKET, self._send.bo)
            run.set_arg(_ANSWER, self._receive.bo)
            run.set_arg(_PACKET_BYTES, send_bytes)
            run.set_arg(_CAPACITY, capacity)
            self._run = run
            run.start()
        return packet

    def finish(self) -> np.ndarray:
        """The answer, once it is there; a view that `start` overwrites. `BoardError` or
        `BoardTimeoutError` if there is none."""
        self.wait()
        with self._xrt_errors():
            length, overrun = self._receive.pull(0, _RESULT_BYTES)[:8].view("<u4").tolist()
        if overrun:
            raise BoardError(
                f"{self.name}: an answer of {length} bytes does not fit the {self._capacity} "
                f"there is room for (a packet of {self._sent} bytes was sent)"
            )
        if not 0 < length <= self._capacity or length % ALIGN:
            raise BoardError(
                f"{self.name}: says its answer has {length} bytes, where at most {self._capacity} "
                f"and a multiple of {ALIGN} are possible: another kernel, or its memory is bad"
            )
        with self._xrt_errors():
            return self._receive.pull(_RESULT_BYTES, length)

    def wait(self) -> None:
        """Wait until the run has ended; unless it has completed the unit is `broken`, and an error
        raised."""
        limit = self._timeout or 1.0 + (self._sent + self._capacity) / _SLOWEST
        with self._xrt_errors():
            # 0 would be for ever.
            state = self._run.wait(max(1, round(1000 * limit)))
        name = getattr(state, "name", str(state)).removeprefix("ERT_CMD_STATE_")
        asked = f"{self._sent} bytes to send, room for {self._capacity}"
        if name in _FAILED:
            self.broken = f"{self.name} failed (state {name}; {asked})"
            raise BoardError(self.broken)
        if name != "COMPLETED":
            self.broken = f"{self.name} did not end within {limit:.3g} s (state {name}; {asked})"
            raise BoardTimeoutError(self.broken)
        self._run = None

    @contextlib.contextmanager
    def _xrt_errors(self) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:
            self.broken = f"{self.name}: XRT reports: {error}"
            raise BoardError(self.broken) from error

    def close(self) -> None:
        """Free the buffers."""
        self._run = None
        self._send.close()
        self._receive.close()


def open_units(
    xrt: Any, device: Any, uuid: Any, kernel: str, timeout: float | None = None
) -> list[Unit]:
    """Every compute unit of ``kernel``, called ``<kernel>_1`` and so on as v++ names them.

    `BoardError` if there is none.
    """
    units: list[Unit] = []
    while True:
        name = f"{kernel}_{len(units) + 1}"
        try:
            units.append(Unit(xrt, device, uuid, kernel, name, timeout))
        except RuntimeError as error:
            if units:
                return units
            raise BoardError(
                f"the xclbin has no compute unit {name}: not one of ours? ({error})"
            ) from None

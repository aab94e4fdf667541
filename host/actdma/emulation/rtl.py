"""The engines as Verilog in the emulated board's fabric, simulated by Verilator clock by clock.

The Verilog is made from the HLS C++ by the translator in ``hls/openrtl``, so this needs a checkout
of the repository, ``pip install "actdma[rtl]"`` and g++. The first use of an engine takes about a
minute; libraries are cached by what they are made of.
"""

from __future__ import annotations

import ctypes
import sys
import weakref
from pathlib import Path
from typing import Any

from ..overlay.cache import cache_root

_HLS = Path(__file__).resolve().parents[3] / "hls"


def openrtl() -> Any:
    """The translator's package; ImportError with what is missing."""
    if not (_HLS / "openrtl").is_dir():
        raise ImportError(
            f"fabric='rtl' translates the sources in hls/, and there is no {_HLS / 'openrtl'}: "
            "use a checkout of the repository, installed with pip install -e"
        )
    if str(_HLS) not in sys.path:
        sys.path.append(str(_HLS))
    try:
        from openrtl import simulator
    except ImportError as error:
        raise ImportError(f"{error}: pip install 'actdma[rtl]'") from error
    return simulator


class RtlKernel:
    """A `Kernel` that runs the Verilog of an engine.

    ``kind``: "compress" or "decompress"; ``lanes``: 32-bit words per beat; ``macros``: build flags
    of the C++ (``{"ACTDMA_POOL": 0}``); ``stops``: of 256, how often a port stands still in a
    cycle, at random from ``seed``; ``check``: streams within the engine do so, too.
    """

    def __init__(
        self,
        kind: str,
        lanes: int = 4,
        *,
        macros: dict[str, int] | None = None,
        stops: int = 0,
        seed: int = 0,
        check: bool = False,
    ) -> None:
        simulator = openrtl()
        path, self._waits = simulator.library(kind, lanes, cache_root() / "rtl", macros, check)
        self.lanes = lanes
        self.library = simulator.load(path)
        self.engine = self.library.actdma_new(seed, stops)
        self._close = weakref.finalize(self, self.library.actdma_delete, self.engine)
        self._buffers: dict[str, Any] = {}

    @property
    def sending(self) -> bool:
        """See `Kernel.sending`."""
        return bool(self.library.actdma_sending(self.engine))

    @property
    def sent(self) -> int:
        """See `Kernel.sent`."""
        return self.library.actdma_sent(self.engine)

    @property
    def receiving(self) -> bool:
        """See `Kernel.receiving`."""
        return bool(self.library.actdma_receiving(self.engine))

    @property
    def received(self) -> int:
        """See `Kernel.received`."""
        return self.library.actdma_received(self.engine)

    @property
    def overrun(self) -> bool:
        """See `Kernel.overrun`."""
        return bool(self.library.actdma_overrun(self.engine))

    @property
    def cycles(self) -> int:
        """See `Kernel.cycles`; counted by the clock."""
        return self.library.actdma_cycles(self.engine)

    @property
    def waiting(self) -> list[str]:
        """See `Kernel.waiting`."""
        lacks = self.library.actdma_lacks
        return [text for bit, text in enumerate(self._waits) if lacks(self.engine, bit)]

    def reset(self) -> None:
        """See `Kernel.reset`."""
        self.library.actdma_reset(self.engine)
        self._buffers.clear()

    def drop(self) -> None:
        """See `Kernel.drop`."""
        self.library.actdma_drop(self.engine)
        self._buffers.clear()

    def send(self, data: memoryview) -> None:
        """See `Kernel.send`; a packet that is no memory of one's own is copied."""
        if self.sending:
            raise RuntimeError("a packet is already being sent")
        if memoryview(data).nbytes == 0:
            raise ValueError("a packet has at least one byte")
        self._arm("send", data, writable=False)

    def receive(self, data: memoryview) -> None:
        """See `Kernel.receive`."""
        if self.receiving:
            raise RuntimeError("a packet is already being received")
        self._arm("receive", data, writable=True)

    def run(self) -> None:
        """See `Kernel.run`. RuntimeError where the engine breaks AXI4-Stream's rules."""
        error = self.library.actdma_run(self.engine).decode()
        if error:
            raise RuntimeError(error)

    def _arm(self, what: str, data: memoryview, writable: bool) -> None:
        view = memoryview(data).cast("B")
        kind = ctypes.c_ubyte * view.nbytes
        buffer = kind.from_buffer_copy(view) if view.readonly else kind.from_buffer(view)
        if writable and view.readonly:
            raise ValueError("a receive buffer is written to; this one is read-only")
        self._buffers[what] = buffer
        getattr(self.library, f"actdma_{what}")(self.engine, ctypes.addressof(buffer), view.nbytes)

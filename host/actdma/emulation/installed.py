"""Puts an emulated board together: memory, DMAs, kernels, clocks, and the files pynq wants."""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType

from ..overlay.design import Design, load_design
from .dma import Dma
from .faults import BOARD_FAULTS, CACHE_FAULTS, Faults
from .hwh import write_hwh
from .kernel import Kernel
from .memory import Pool
from .own_design import own_design
from .streams import Streams

FABRICS = ("csim", "rtl")
KernelFactory = Callable[[], Kernel]
_numbers = itertools.count()


class Emulation:
    """An emulated board under pynq.

    ``bitfile``: path of a bitstream for `pynq.Overlay` (empty, with a generated .hwh beside it);
    ``device``: the pynq device; ``design``: the block design it was made from; ``kernels``: the
    kernel behind each DMA, by the DMA's name; ``memory``: the contiguous memory; ``timed``: whether
    cycles are counted; ``faults``: what goes wrong; ``inject``: lets it, see `Faults.inject`.
    `actdma.emulation.install` makes one.
    """

    def __init__(
        self,
        design: Design,
        memory: Pool,
        kernels: dict[str, Kernel],
        timed: bool,
        faults: Faults,
    ) -> None:
        from .device import EmulatedDevice, RegisterFile, clock_registers

        self.design = design
        self.memory = memory
        self.kernels = kernels
        self.timed = timed
        self.faults = faults
        self.inject = faults.inject
        self._process = os.getpid()
        self._streams = {name: Streams(kernel, faults, name) for name, kernel in kernels.items()}
        self.dmas = {name: self._dma(name) for name in kernels}
        self.device = EmulatedDevice(f"emulated{next(_numbers)}", memory, self._program, faults)
        for name, dma in self.dmas.items():
            self.device.map(*design.window(name), dma)
        for name in set(design.addresses) - set(self.dmas):
            self.device.map(*design.window(name), RegisterFile({}))
        for base, registers in clock_registers(design).items():
            self.device.map(base, 0x1000, registers)
        folder = tempfile.mkdtemp(prefix="actdma-")
        self._remove_files = weakref.finalize(self, _remove, folder, os.getpid())
        self.bitfile = self._write_files(Path(folder))
        self._replaced: list[object] | None = None

    def activate(self) -> None:
        """Make this pynq's active device until `close`."""
        from pynq.pl_server.device import Device

        if self._replaced is None:
            active = vars(Device).get("_active_device")
            self._replaced = [] if active is None else [active]
        Device.active_device = self.device

    def close(self) -> None:
        """Give pynq its former active device back, reset the fabric and remove the files. Buffers
        stay valid until they are freed; no more can be allocated."""
        from pynq.pl_server.device import Device

        if self._replaced is not None and vars(Device).get("_active_device") is self.device:
            del Device._active_device
            for device in self._replaced:
                Device.active_device = device
        self._replaced = None
        self._remove_files()
        if os.getpid() == self._process:
            with self.device.lock:
                self._program()
            self.memory.close()

    def cycles(self, dma: str) -> int | None:
        """Clock cycles of the last packet through the kernel behind ``dma``; None if not timed."""
        with self.device.lock:
            return self.kernels[dma].cycles if self.timed else None

    def waiting(self, dma: str) -> list[str]:
        """What the fabric behind ``dma`` waits for, now that nothing can move any more."""
        with self.device.lock:
            return list(self.kernels[dma].waiting)

    def moved(self, dma: str) -> tuple[int, int]:
        """Bytes sent and received in the transfers started last."""
        streams = self._streams[dma]
        with self.device.lock:
            return streams.sent, streams.received

    def _program(self) -> None:
        """What loading a bitstream does to the fabric."""
        for name, dma in self.dmas.items():
            self._streams[name].reset()
            dma.reset()

    def _dma(self, name: str) -> Dma:
        def reset(outputs: tuple[str, ...]) -> None:
            sources = self.design.reset_sources(self.design.streams_to(name))
            if sources.intersection(f"{name}/{output}" for output in outputs):
                self._streams[name].reset()

        parameters = self.design.cells[name]["parameters"]
        return Dma(name, parameters, self.memory, self._streams[name], reset, self.faults)

    def _write_files(self, folder: Path) -> str:
        bitfile = folder / f"{self.design.name}.bit"
        bitfile.touch()
        bitfile.with_suffix(".hwh").write_text(write_hwh(self.design), "utf-8")
        return str(bitfile)

    def __enter__(self) -> Emulation:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def install(
    lanes: int = 4,
    timed: bool = True,
    *,
    cache: bool = True,
    activate: bool = True,
    memory_bytes: int | None = None,
    kernels: Mapping[str, KernelFactory] | None = None,
    design: Design | None = None,
    fabric: str = "csim",
) -> Emulation:
    """Emulate a Zynq UltraScale+ with both engines below pynq, and make it pynq's active device.

    ``lanes``: 32-bit words per beat (2, 4, 8, 16); ``timed``: count clock cycles (slower);
    ``cache``: model the processor's write-back cache; ``activate``: False leaves pynq's active
    device alone (pass ``device=emulation.device`` then); ``memory_bytes``: contiguous memory, 128
    MiB unless given; ``kernels``: other kernels behind the DMAs, by DMA name (an `HlsTop` is one's
    own HLS C++); ``design``: another block design. Where a kernel's DMA is not in ours
    ("axi_dma_0"), the board has a DMA for each of ``kernels`` and no engine. ``fabric``: what runs
    the engines, "csim" (their C++) or "rtl" (Verilog made from it, simulated clock by clock, much
    slower; see docs/openrtl.md).
    ImportError with what to install if pynq, or for "rtl" a tool, is missing; ValueError for
    another fabric, and for a kernel whose DMA is not in ``design`` or has streams of another width.
    """
    if fabric not in FABRICS:
        raise ValueError(f"fabric is {fabric!r}, allowed are {', '.join(FABRICS)}")
    try:
        import pynq  # noqa: F401
    except ImportError as error:
        raise ImportError(
            'the emulated board needs pynq: pip install "actdma[emulation]"'
        ) from error
    made = {name: make() for name, make in (kernels or {}).items()}
    if design is None:
        design = load_design(stream_bits=32 * lanes)
        if not made.keys() <= set(design.dmas):
            design = own_design({name: kernel.lanes for name, kernel in made.items()})
    _check_kernels(design, made)
    for name in design.dmas:
        if name not in made:
            made[name] = _engine(name, lanes, timed, fabric)
    board = design.board
    faults = Faults(BOARD_FAULTS if cache else BOARD_FAULTS - CACHE_FAULTS, design.dmas)
    memory = Pool(board["memory_base"], memory_bytes or board["memory_bytes"], cache, faults)
    emulation = Emulation(design, memory, made, timed, faults)
    if activate:
        emulation.activate()
    return emulation


def _remove(folder: str, process: int) -> None:
    """Remove the files, but not those of a forked child's parent."""
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)


def _check_kernels(design: Design, kernels: Mapping[str, Kernel]) -> None:
    """ValueError unless every kernel has a DMA of its width."""
    for name, kernel in kernels.items():
        if name not in design.dmas:
            raise ValueError(
                f"a kernel is to be behind {name!r}, the DMAs of the design are "
                + ", ".join(design.dmas)
            )
        bits = int(design.cells[name]["parameters"]["c_m_axis_mm2s_tdata_width"])
        if 32 * kernel.lanes != bits:
            raise ValueError(
                f"the kernel behind {name} has {32 * kernel.lanes}-bit streams, its DMA has "
                f"{bits}-bit ones"
            )


def _engine(dma: str, lanes: int, timed: bool, fabric: str) -> Kernel:
    """Our engine behind ``axi_dma_compress`` or ``axi_dma_decompress``, made from its HLS
    source."""
    kind = dma.removeprefix("axi_dma_")
    if fabric == "rtl":
        from .rtl import RtlKernel

        return RtlKernel(kind, lanes)
    from ._fabric import Engine

    return Engine(kind, lanes, timed)

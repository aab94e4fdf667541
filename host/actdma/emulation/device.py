"""The emulated Zynq UltraScale+ as a pynq device. Needs pynq; `actdma.emulation.install` imports
it."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from pynq.pl_server.device import Device
from pynq.ps import Clocks
from pynqmetadata.frontends import Metadata
from pynqmetadata.views.runtime import RuntimeMetadataParser

from ..overlay.design import Design
from .faults import Fault, Faults
from .memory import Pool

CRL_APB, CRF_APB = 0xFF5E_0000, 0xFD1A_0000
_IOPLL, _RPLL, _DPLL = 0x20, 0x30, 0x2C
_PL_CLOCKS = (0xC0, 0xC4, 0xC8, 0xCC)


class Registers(Protocol):
    """What lies behind a window of the register bus; offsets in bytes, values of 32 bits."""

    def read(self, offset: int) -> int:
        """Read the register at ``offset``."""
        ...

    def write(self, offset: int, value: int) -> None:
        """Write the register at ``offset``."""
        ...


class RegisterFile:
    """Registers that hold what was written to them."""

    def __init__(self, values: dict[int, int]) -> None:
        self._values = dict(values)

    def read(self, offset: int) -> int:
        """The last value written, or the initial one, or 0."""
        return self._values.get(offset, 0)

    def write(self, offset: int, value: int) -> None:
        """Remember ``value``."""
        self._values[offset] = value


def clock_registers(design: Design) -> dict[int, RegisterFile]:
    """The clock controllers as the boot loader leaves them, by base address (UG1087, CRL_APB,
    CRF_APB)."""
    board = design.board
    # FBDIV counts before the divider by two (DIV2).
    pll = 2 * board["pll_multiplier"] << 8 | 1 << 16
    divisor = round(board["ref_mhz"] * board["pll_multiplier"] / 100)
    clock = 1 << 24 | 1 << 16 | divisor << 8
    return {
        CRL_APB: RegisterFile({_IOPLL: pll, _RPLL: pll, **dict.fromkeys(_PL_CLOCKS, clock)}),
        CRF_APB: RegisterFile({_DPLL: pll}),
    }


class EmulatedDevice(Device):
    """A device whose register bus and memory are Python objects.

    ``memory``: what `pynq.allocate` gives out; ``program``: called as a bitstream is loaded;
    ``faults``: what goes wrong. `map` puts registers on the bus; it is not probed
    for: a program gets it by installing it. Threads take turns on the register bus, so a transfer
    that a write starts runs alone, as far as it can, before the write returns.
    A forked child has only a copy of the memory and perhaps half a transfer: it gets a
    RuntimeError.
    """

    def __init__(self, tag: str, memory: Pool, program: Callable[[], None], faults: Faults) -> None:
        super().__init__(tag)
        self.name = "emulated"
        self.arch = "aarch64"
        self.capabilities = {"REGISTER_RW": True}
        self.memory = memory
        self.timestamp = ""
        self._program = program
        self._faults = faults
        self.lock = threading.RLock()
        self._process = os.getpid()
        self._windows: list[tuple[int, int, Registers]] = []

    def map(self, base: int, size: int, registers: Registers) -> None:
        """Put ``registers`` at the addresses from ``base``."""
        self._windows.append((base, size, registers))

    def read_registers(self, address: int, length: int) -> bytes:
        """Read whole 32-bit registers; RuntimeError (a bus error on a board) where nothing is
        mapped."""
        self._check_process()
        with self.lock:
            return b"".join(
                registers.read(offset).to_bytes(4, "little")
                for registers, offset in self._decode(address, length)
            )

    def write_registers(self, address: int, data: bytes) -> None:
        """Write whole 32-bit registers, in order."""
        self._check_process()
        with self.lock:
            if self._faults.strike({Fault.RELOADED}):
                self.timestamp = f"{self.timestamp}, then another"
                self._program()
            for number, (registers, offset) in enumerate(self._decode(address, len(data))):
                registers.write(offset, int.from_bytes(data[4 * number : 4 * number + 4], "little"))

    def allocate(self, shape: Any, dtype: Any, **_: Any) -> Any:
        """A contiguous buffer of the emulated memory."""
        self._check_process()
        return self.memory.buffer(shape, dtype, self)

    def flush(self, bo: int, offset: int, _virtual: int, nbytes: int) -> None:
        """Cache maintenance before a DMA reads; ``bo`` is the buffer's physical address."""
        self.memory.flush(bo + offset, nbytes)

    def invalidate(self, bo: int, offset: int, _virtual: int, nbytes: int) -> None:
        """Cache maintenance after a DMA has written."""
        self.memory.invalidate(bo + offset, nbytes)

    def get_bitfile_metadata(self, bitfile_name: str, partial: bool = False) -> Any:
        """pynq's view of the .hwh beside the bitstream."""
        # pynq keeps the clock driver of the first device it ever saw.
        if hasattr(Clocks, "_real_instance"):
            del Clocks._real_instance
        hwh = Path(bitfile_name).with_suffix(".hwh")
        if not hwh.is_file():
            raise FileNotFoundError(f"{hwh} is missing: pynq finds a design's blocks in it")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            parser = RuntimeMetadataParser(Metadata(input=str(hwh)))
        parser.refresh_hierarchy_dict()
        # The wires are there, but pynq waits for interrupts on /dev/uio*, which a desk has not.
        for ip in parser.ip_dict.values():
            ip["interrupts"] = {}
        return parser

    def download(self, bitstream: Any, parser: Any = None) -> None:
        """The fabric begins anew, and pynq's bookkeeping is done."""
        with self.lock:
            self._program()
        super().post_download(bitstream, parser, self.name)

    def shutdown(self) -> None:
        """Nothing to isolate."""

    def gen_cache(self, bitstream: Any, parser: Any = None) -> None:
        """pynq would write a cache into its own package folder."""

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise RuntimeError(
                "the emulated board was installed in another process; install one in this process"
            )

    def _decode(self, address: int, length: int) -> list[tuple[Registers, int]]:
        for base, size, registers in self._windows:
            if base <= address and address + length <= base + size:
                return [(registers, address - base + i) for i in range(0, length, 4)]
        ranges = ", ".join(f"0x{b:x} to 0x{b + s - 1:x}" for b, s, _ in self._windows)
        raise RuntimeError(f"bus error: no register at 0x{address:x}; mapped are {ranges}")

"""Register model of the AXI DMA in direct register mode (PG021 7.1, "Direct Register Mode").

Modelled: both channels' control, status, address and length registers, reset, halt, completion and
the error bits. Not modelled: scatter/gather, interrupts' wires, time. A transfer completes within
the write to LENGTH that makes it possible, so nothing has to be polled and a test that hangs ends
at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .faults import HALTING_FAULTS, Fault, Faults
from .kernel import Kernel
from .memory import Pool

RUN, RESET = 0x1, 0x4
CONTROL_WRITABLE = 0xFFFF_7001
CONTROL_AFTER_RESET = 0x0001_0002
HALTED, IDLE = 0x1, 0x2
INTERNAL_ERROR, SLAVE_ERROR, DECODE_ERROR = 0x10, 0x20, 0x40
COMPLETE_IRQ, ERROR_IRQ = 0x1000, 0x4000
IRQS = 0x7000

_CONTROL, _STATUS, _ADDRESS, _ADDRESS_MSB, _LENGTH = 0x00, 0x04, 0x18, 0x1C, 0x28
_S2MM = 0x30
_ERRORS = {
    Fault.INTERNAL_ERROR: INTERNAL_ERROR,
    Fault.SLAVE_ERROR: SLAVE_ERROR,
    Fault.DECODE_ERROR: DECODE_ERROR,
    Fault.HALTED: 0,
}


class Channel:
    """One channel's registers; which way data goes is the `Dma`'s business."""

    def __init__(
        self,
        name: str,
        start: Callable[[Channel], None],
        length_mask: int,
        address_mask: int,
    ) -> None:
        self.name = name
        self._start = start
        self._length_mask = length_mask
        self._address_mask = address_mask
        self.reset()

    def reset(self) -> None:
        """The registers as after power-on."""
        self.control = CONTROL_AFTER_RESET
        self.status = HALTED
        self.address = 0
        self.length = 0
        self.busy = False
        self.failed = False

    def read(self, offset: int) -> int:
        """Value of the register at ``offset``; reserved ones read 0."""
        return {
            _CONTROL: self.control,
            _STATUS: self.status,
            _ADDRESS: self.address & 0xFFFF_FFFF,
            _ADDRESS_MSB: self.address >> 32,
            _LENGTH: self.length,
        }.get(offset, 0)

    def write(self, offset: int, value: int) -> None:
        """Write a register; LENGTH starts a transfer."""
        if offset == _CONTROL:
            self._write_control(value)
        elif offset == _STATUS:
            self.status &= ~(value & IRQS)
        elif offset == _ADDRESS:
            self._set_address(self.address >> 32 << 32 | value)
        elif offset == _ADDRESS_MSB:
            self._set_address(value << 32 | self.address & 0xFFFF_FFFF)
        elif offset == _LENGTH:
            self._write_length(value & self._length_mask)

    def complete(self, length: int) -> None:
        """The transfer ended well after ``length`` bytes."""
        self.busy = False
        self.length = length
        self.status |= IDLE | COMPLETE_IRQ

    def fail(self, error: int) -> None:
        """An error halts the channel until it is reset."""
        self.busy = False
        self.failed = True
        self.control &= ~RUN
        self.status = self.status & ~IDLE | HALTED | error | ERROR_IRQ

    def _set_address(self, address: int) -> None:
        self.address = address & self._address_mask

    def _write_control(self, value: int) -> None:
        self.control = value & CONTROL_WRITABLE | CONTROL_AFTER_RESET & ~0xFFFF_0000
        if not value & RUN:
            # What is under way stays so: only a reset ends it (PG021 lets it finish or flushes it).
            self.status = self.status & ~IDLE | HALTED
        elif not self.failed:
            self.status &= ~HALTED

    def _write_length(self, length: int) -> None:
        """PG021: without effect when halted or zero, and what it does while busy is undefined."""
        if self.status & HALTED or self.busy:
            return
        self.length = length
        self.status &= ~IDLE
        if length:
            self.busy = True
            self._start(self)


class Dma:
    """The AXI DMA ``name`` between ``memory`` and ``kernel``; an object on the register bus.

    ``parameters``: the cell's, as in the block design. ``on_reset``: called with the names of the
    reset outputs that go low; what they are wired to is not the DMA's business. ``faults``: what
    goes wrong.
    """

    def __init__(
        self,
        name: str,
        parameters: dict[str, Any],
        memory: Pool,
        kernel: Kernel,
        on_reset: Callable[[tuple[str, ...]], None],
        faults: Faults,
    ) -> None:
        masks = [(1 << int(parameters[name])) - 1 for name in ("c_sg_length_width", "c_addr_width")]
        self._width = int(parameters["c_m_axi_mm2s_data_width"]) // 8
        self._memory = memory
        self._kernel = kernel
        self._on_reset = on_reset
        self._name = name
        self._faults = faults
        self.mm2s = Channel("mm2s", self._start_send, *masks)
        self.s2mm = Channel("s2mm", self._start_receive, *masks)

    def read(self, offset: int) -> int:
        """Value of the 32-bit register at ``offset``."""
        if offset < _S2MM:
            return self.mm2s.read(offset)
        return self.s2mm.read(offset - _S2MM)

    def write(self, offset: int, value: int) -> None:
        """Write a 32-bit register. Resetting either channel resets the whole core (PG021,
        DMACR)."""
        if offset in (_CONTROL, _S2MM) and value & RESET:
            self._soft_reset()
        elif offset < _S2MM:
            self.mm2s.write(offset, value)
        else:
            self.s2mm.write(offset - _S2MM, value)

    def reset(self) -> None:
        """Both channels, and both reset outputs."""
        self.mm2s.reset()
        self.s2mm.reset()
        self._on_reset(("mm2s_prmry_reset_out_n", "s2mm_prmry_reset_out_n"))
        if self._kernel.sending or self._kernel.receiving:
            self._kernel.drop()

    def _soft_reset(self) -> None:
        self.reset()
        if self._faults.strike({Fault.RESET_HANGS}, self._name):
            for channel in (self.mm2s, self.s2mm):
                channel.control |= RESET

    def _start_send(self, channel: Channel) -> None:
        if self._mapped(channel):
            self._kernel.send(self._memory.dma_view(channel.address, channel.length))
            self._run()

    def _start_receive(self, channel: Channel) -> None:
        if self._mapped(channel):
            self._kernel.receive(self._memory.dma_view(channel.address, channel.length))
            self._run()

    def _mapped(self, channel: Channel) -> bool:
        """Check the address; without a realignment engine an odd one is undefined, here an
        error."""
        if not self._memory.contains(channel.address, channel.length):
            channel.fail(DECODE_ERROR)
        elif channel.address % self._width:
            channel.fail(INTERNAL_ERROR)
        elif injection := self._faults.strike(HALTING_FAULTS, self._name, channel.name):
            channel.fail(_ERRORS[injection.fault])
        return channel.busy

    def _run(self) -> None:
        kernel = self._kernel
        kernel.run()
        if self.mm2s.busy and not kernel.sending:
            self.mm2s.complete(self.mm2s.length)
        if self.s2mm.busy and kernel.overrun:
            self.s2mm.fail(INTERNAL_ERROR)
        elif self.s2mm.busy and not kernel.receiving:
            self.s2mm.complete(kernel.received)

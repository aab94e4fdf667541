"""One AXI DMA in direct register mode (PG021 7.1): a packet to the engine, its answer back.

pynq finds the DMA and maps its registers; status is read and decoded here, because pynq's channel
reports any error of a halted channel as "DMA channel not started".
"""

from __future__ import annotations

import dataclasses
import time
from typing import Any

from .errors import BoardError, BoardTimeoutError
from .probe import Probe

_CONTROL, _STATUS, _ADDRESS, _ADDRESS_MSB, _LENGTH = 0x00, 0x04, 0x18, 0x1C, 0x28
_RUN, _RESET = 0x1, 0x4
HALTED, IDLE = 0x1, 0x2
INTERNAL, SLAVE, DECODE = 0x10, 0x20, 0x40
ERRORS = INTERNAL | SLAVE | DECODE
_NAMES = {
    HALTED: "halted",
    IDLE: "idle",
    INTERNAL: "internal error",
    SLAVE: "slave error",
    DECODE: "decode error",
    0x1000: "complete",
    0x4000: "error interrupt",
}
# Register accesses of one transfer that is found complete at once: both channels' addresses (two
# each) and lengths, their status, and the length that came.
ACCESSES = 9
_RESET_SECONDS = 0.1
_POLLS_BEFORE_SLEEP = 100


def decode_status(status: int) -> str:
    """DMASR in words: ``"0x00005011: halted, internal error, complete, error interrupt"``."""
    names = [name for bit, name in _NAMES.items() if status & bit]
    if not status & (HALTED | IDLE):
        names.insert(0, "busy")
    return f"0x{status:08x}: {', '.join(names)}"


@dataclasses.dataclass
class Channel:
    """The registers of one direction; ``base`` is their offset in the DMA."""

    mmio: Any
    base: int
    name: str
    address: int = 0
    length: int = 0

    @property
    def status(self) -> int:
        """DMASR."""
        return self.mmio.read(self.base + _STATUS)

    @property
    def transferred(self) -> int:
        """LENGTH: after a receive has ended, the bytes that came."""
        return self.mmio.read(self.base + _LENGTH)

    def arm(self, address: int, length: int) -> None:
        """Start a transfer of at most ``length`` bytes at a physical address."""
        self.address, self.length = address, length
        self.mmio.write(self.base + _ADDRESS, address & 0xFFFF_FFFF)
        self.mmio.write(self.base + _ADDRESS_MSB, address >> 32)
        self.mmio.write(self.base + _LENGTH, length)

    def reset(self) -> None:
        """Reset the whole core, both channels of it; `BoardError` if that does not end."""
        self.mmio.write(self.base + _CONTROL, _RESET)
        self._await(_CONTROL, _RESET, "reset")

    def start(self) -> None:
        """Let the channel run; `BoardError` if it does not."""
        self.mmio.write(self.base + _CONTROL, _RUN)
        self._await(_STATUS, HALTED, "start")

    def _await(self, register: int, bit: int, what: str) -> None:
        end = time.monotonic() + _RESET_SECONDS
        while self.mmio.read(self.base + register) & bit:
            if time.monotonic() > end:
                raise BoardError(
                    f"{self.name} does not {what} within {_RESET_SECONDS} s (status "
                    f"{decode_status(self.status)}): is its clock running? Load the bitstream again"
                )


class Link:
    """The pair of channels of one DMA, and the engine behind it.

    ``ip``: pynq's driver object of the DMA; ``bytes_per_second``: the stream's width times its
    clock, from which the default timeout is made; ``timeout``: seconds for one exchange, None for
    the default.
    """

    def __init__(
        self,
        name: str,
        ip: Any,
        *,
        bytes_per_second: float,
        timeout: float | None = None,
        probe: Probe | None = None,
    ) -> None:
        parameters = ip.description["parameters"]
        if int(parameters.get("c_include_sg", 0)):
            raise BoardError(
                f"{name} is built with scatter/gather; the overlay needs c_include_sg 0"
            )
        self.name = name
        self.length_bits = int(parameters.get("c_sg_length_width", 14))
        self.max_bytes = (1 << self.length_bits) - 1
        self._address_limit = 1 << int(parameters.get("c_addr_width", 32))
        self.bytes_per_second = bytes_per_second
        self._timeout = timeout
        self._probe = probe
        self._send = Channel(ip.mmio, 0x00, f"{name} send channel (MM2S)")
        self._receive = Channel(ip.mmio, 0x30, f"{name} receive channel (S2MM)")

    def start(self, send: Any, receive: Any) -> None:
        """Start to send a packet and to receive the answer.

        ``send``: contiguous buffer (`pynq.buffer.PynqBuffer`, uint8) of exactly the packet;
        ``receive``: one that is large enough for any answer; no cached data may lie over either.
        Receive is armed first, because an answer may begin before the packet has ended.
        `BoardError` if the DMA cannot take them.
        """
        self._check(self._send, send)
        self._check(self._receive, receive)
        self._receive.arm(receive.physical_address, receive.nbytes)
        self._send.arm(send.physical_address, send.nbytes)

    def finish(self) -> int:
        """Wait for what `start` began; the answer's length in bytes. `BoardError` or
        `BoardTimeoutError` if it fails."""
        self._wait(self._send.length + self._receive.length)
        return self._receive.transferred

    def reset(self) -> None:
        """Reset both channels, and with them the engine, which may sit in mid-frame; start
        again."""
        self.stop()
        self._send.start()
        self._receive.start()

    def stop(self) -> None:
        """Reset both channels and the engine, and leave them halted."""
        self._send.reset()
        self._receive.reset()

    def _check(self, channel: Channel, buffer: Any) -> None:
        if not 0 < buffer.nbytes <= self.max_bytes:
            raise BoardError(
                f"{channel.name}: {buffer.nbytes} bytes do not fit its length register of "
                f"{self.length_bits} bits (1 to {self.max_bytes})"
            )
        end = buffer.physical_address + buffer.nbytes
        if end > self._address_limit:
            raise BoardError(
                f"{channel.name}: a buffer ends at 0x{end:x}, beyond the DMA's addresses (below "
                f"0x{self._address_limit:x}); build it with a larger c_addr_width"
            )

    def _wait(self, nbytes: int) -> None:
        """Wait until both channels are idle; raise on an error, a deadlock or a timeout."""
        limit = self._timeout or 1.0 + 20 * nbytes / self.bytes_per_second
        end = time.monotonic() + limit
        polls = 0
        pending = [self._send, self._receive]
        while True:
            for channel in list(pending):
                status = channel.status
                if status & (ERRORS | HALTED):
                    raise BoardError(self._failure(channel, status))
                if status & IDLE:
                    pending.remove(channel)
            if not pending:
                return
            polls += 1
            if self._probe is not None:
                raise BoardTimeoutError(
                    self._stuck(pending, "never ends: nothing can move any more")
                )
            if time.monotonic() > end:
                raise BoardTimeoutError(self._stuck(pending, f"does not end within {limit:.3g} s"))
            if polls > _POLLS_BEFORE_SLEEP:
                time.sleep(20e-6)

    def _failure(self, channel: Channel, status: int) -> str:
        if status & DECODE:
            last = channel.address + channel.length - 1
            cause = f"addresses 0x{channel.address:x} to 0x{last:x} are not mapped to memory"
        elif status & SLAVE:
            cause = "the memory refused the access"
        elif status & INTERNAL and channel is self._receive:
            cause = f"the engine's packet is longer than the {channel.length} bytes of the buffer"
        elif status & INTERNAL:
            cause = "length or alignment of the transfer is not allowed"
        else:
            cause = "someone else stopped it"
        return f"{channel.name} failed: {cause} (status {decode_status(status)}; {self._moved()})"

    def _stuck(self, pending: list[Channel], what: str) -> str:
        channel = pending[-1]
        if pending == [self._receive]:
            cause = "the engine sent no TLAST, or waits for more data"
        elif pending == [self._send]:
            cause = "the engine answered before it had taken the whole packet"
        else:
            cause = "the engine takes no data: it sits in mid-frame, or has no clock or reset"
        text = (
            f"{channel.name} {what}; likely cause: {cause} "
            f"(status {decode_status(channel.status)}; {self._moved()})"
        )
        waiting = self._probe.waiting(self.name) if self._probe else []
        return text + "".join(f"\n  {line}" for line in waiting)

    def _moved(self) -> str:
        """Bytes moved so far; the registers tell only what was asked for."""
        asked = f"{self._send.length} bytes to send, room for {self._receive.length}"
        if self._probe is None:
            return asked
        sent, received = self._probe.moved(self.name)
        return f"{asked}, {sent} bytes sent, {received} received"

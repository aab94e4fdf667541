"""The two streams between a DMA and a kernel, where packets come to harm."""

from __future__ import annotations

import dataclasses
import random
from collections import deque
from collections.abc import Iterator

from ..frame import HEADER_BYTES, Engine, FrameError, Trailer
from .faults import IDENTITY_FAULTS, PACKET_FAULTS, Fault, Faults, Injection
from .kernel import Kernel

_LINE = 64


class Streams:
    """The kernel behind the DMA called ``dma``, as that sees it: a `Kernel` itself.

    Packets pass untouched unless a fault of `faults.Faults` strikes.
    """

    def __init__(self, kernel: Kernel, faults: Faults, dma: str) -> None:
        self._kernel = kernel
        self._faults = faults
        self._dma = dma
        self._before = {"mm2s": b"", "s2mm": b""}
        self.sent = self.received = 0
        self._forget()

    def _forget(self) -> None:
        self._source: memoryview | None = None
        self._begun = b""  # of a packet to the kernel that has not ended
        self._sending: deque[bytes | memoryview] = deque()
        self._stalled = False
        self._sink: memoryview | None = None
        self._answer: memoryview | None = None  # where the kernel writes
        self._arrived: deque[tuple[bytes, bool]] = deque()
        self.overrun = False

    @property
    def lanes(self) -> int:
        """See `Kernel.lanes`."""
        return self._kernel.lanes

    @property
    def cycles(self) -> int:
        """See `Kernel.cycles`."""
        return self._kernel.cycles

    @property
    def waiting(self) -> list[str]:
        """See `Kernel.waiting`."""
        return list(self._kernel.waiting)

    @property
    def sending(self) -> bool:
        """See `Kernel.sending`."""
        return self._source is not None

    @property
    def receiving(self) -> bool:
        """See `Kernel.receiving`."""
        return self._sink is not None

    def reset(self) -> None:
        """See `Kernel.reset`."""
        self._kernel.reset()
        self._forget()

    def drop(self) -> None:
        """See `Kernel.drop`."""
        self._kernel.drop()
        self._forget()

    def send(self, data: memoryview) -> None:
        """See `Kernel.send`."""
        self._source, self.sent = data, 0
        self._stalled = self._strike({Fault.STALLED}, "mm2s") is not None
        if self._stalled:
            return
        if not self._faults.awaited(PACKET_FAULTS, self._dma, "mm2s") and not self._begun:
            self._sending.append(data)
            return
        for piece, last in self._harm("mm2s", bytes(data), self._strike(PACKET_FAULTS, "mm2s")):
            self._begun += piece
            if last and self._begun:
                self._sending.append(self._begun)
                self._begun = b""

    def receive(self, data: memoryview) -> None:
        """See `Kernel.receive`."""
        self._sink, self.received, self.overrun = data, 0, False
        if self._strike({Fault.STALLED}, "s2mm"):
            return
        faults = PACKET_FAULTS | IDENTITY_FAULTS
        self._accept(data if not self._faults.awaited(faults, self._dma, "s2mm") else None)

    def run(self) -> None:
        """See `Kernel.run`."""
        kernel, moved = self._kernel, True
        while moved:
            if self._sending and not kernel.sending:
                kernel.send(self._sending.popleft())
            kernel.run()
            moved = self._collect() or (bool(self._sending) and not kernel.sending)
        if self._source is None or self._stalled:
            return
        if kernel.sending:
            self.sent = min(kernel.sent, len(self._source))
        else:
            self.sent, self._source = len(self._source), None

    def _accept(self, direct: memoryview | None) -> None:
        """Let the kernel write its next answer to the sink itself or, with None, to memory of its
        own, where it may come to harm."""
        if self._deliver():
            return
        self._answer = memoryview(bytearray(len(self._sink))) if direct is None else direct
        self._kernel.receive(self._answer)

    def _collect(self) -> bool:
        """Take the kernel's answer; whether more of it can move."""
        kernel, answer = self._kernel, self._answer
        if answer is None:
            return False
        if answer is self._sink:
            self.received = kernel.received
        if kernel.receiving:
            return False
        self._answer = None
        if answer is self._sink or kernel.overrun:
            self.overrun, self._sink = kernel.overrun, None
            return False
        packet = bytes(answer[: kernel.received])
        faults = PACKET_FAULTS | (IDENTITY_FAULTS if _identity(packet) else frozenset())
        self._arrived.extend(self._harm("s2mm", packet, self._strike(faults, "s2mm")))
        self._accept(None)
        return self._answer is not None

    def _deliver(self) -> bool:
        """Write what has arrived to the sink; whether the sink needs no more."""
        while self._sink is not None and self._arrived:
            piece, last = self._arrived.popleft()
            room = self._sink[self.received :]
            self.overrun = len(piece) > len(room)
            piece = piece[: len(room)]
            room[: len(piece)] = piece
            self.received += len(piece)
            if last or self.overrun:
                self._sink = None
        return self._sink is None

    def _strike(self, faults: set[Fault] | frozenset[Fault], channel: str) -> Injection | None:
        return self._faults.strike(faults, self._dma, channel)

    def _harm(
        self, channel: str, packet: bytes, injection: Injection | None
    ) -> list[tuple[bytes, bool]]:
        """What becomes of ``packet``: pieces, and whether a packet ends with each."""
        before = self._before[channel] or packet
        self._before[channel] = packet
        if injection is None:
            return [(packet, True)]
        room = len(self._sink or b"")
        return list(_pieces(injection, channel, packet, before, room))


def _pieces(
    injection: Injection, channel: str, packet: bytes, before: bytes, room: int
) -> Iterator[tuple[bytes, bool]]:
    """``before``: the packet before, ``room``: bytes of the receive buffer."""
    fault = injection.fault
    if fault == Fault.NO_TLAST:
        yield packet, False
    elif fault == Fault.ZERO_KEEP:
        yield (b"" if channel == "s2mm" else packet[: -_LINE + 1]), True
    elif fault == Fault.REPEATED:
        yield before, True
    elif fault == Fault.MERGED:
        yield before + packet, True
    elif fault == Fault.SPLIT:
        half = max(_LINE, len(packet) // 2 // _LINE * _LINE)
        yield packet[:half], True
        if packet[half:]:
            yield packet[half:], True
    elif fault == Fault.SHORT:
        yield packet[:-_LINE], True
    elif fault == Fault.LONG:
        yield packet + bytes(_LINE), True
    elif fault == Fault.ENDLESS:
        yield packet + bytes(max(room, 1 << 16)), True
    elif fault in IDENTITY_FAULTS:
        yield _other_identity(packet, fault), True
    elif fault != Fault.DROPPED:
        yield _flipped(packet, fault, injection.random), True


def _flipped(packet: bytes, fault: Fault, rng: random.Random) -> bytes:
    """``packet`` with one wrong bit."""
    start, stop = {
        Fault.FLIPPED_DESCRIPTOR: (0, HEADER_BYTES),
        Fault.FLIPPED_PAYLOAD: (HEADER_BYTES, len(packet) - HEADER_BYTES),
        Fault.FLIPPED_TRAILER: (len(packet) - HEADER_BYTES, len(packet)),
    }[fault]
    if start >= stop:
        start, stop = 0, len(packet)
    damaged = bytearray(packet)
    damaged[rng.randrange(max(start, 0), min(stop, len(packet)))] ^= 1 << rng.randrange(8)
    return bytes(damaged)


def _identity(packet: bytes) -> bool:
    """Whether ``packet`` is an answer to identify."""
    try:
        return Trailer.unpack(packet).identity != 0
    except FrameError:
        return False


def _other_identity(packet: bytes, fault: Fault) -> bytes:
    """An answer to identify, of another engine."""
    trailer = Trailer.unpack(packet)
    if fault == Fault.WRONG_VERSION:
        identity = trailer.identity + 1
    else:
        identity = trailer.identity ^ (Engine.COMPRESSOR ^ Engine.DECOMPRESSOR) << 8
    return dataclasses.replace(trailer, identity=identity).pack()

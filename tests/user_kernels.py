"""Kernels in Python for the emulated board, as what stands behind a DMA need not be ours, nor C++;
and a transfer by pynq's own calls."""

from __future__ import annotations

import numpy as np
import pynq

from actdma.codecs import reference
from actdma.frame import (
    HEADER_BYTES,
    Codec,
    Descriptor,
    Engine,
    FrameError,
    Operation,
    Trailer,
    crc,
    padded,
)


def exchange(dma, packet, room):
    """A user's transfer with pynq's own calls: what comes back for ``packet``."""
    send = pynq.allocate(packet.shape, np.uint8)
    receive = pynq.allocate((room,), np.uint8)
    send[:] = packet
    dma.recvchannel.transfer(receive)
    dma.sendchannel.transfer(send)
    dma.sendchannel.wait()
    dma.recvchannel.wait()
    return np.array(receive[: dma.recvchannel.transferred])


class Loopback:
    """Sends every packet back. Until a receive is armed it takes no more than ``fifo_bytes``."""

    lanes = 4
    fifo_bytes = 4096

    def __init__(self):
        self.cycles = 0
        self.reset()

    def reset(self):
        self.begun = b""
        self.answers = []
        self.drop()

    def drop(self):
        self.source = self.sink = None
        self.sent = self.received = 0
        self.overrun = False

    @property
    def sending(self):
        return self.source is not None

    @property
    def receiving(self):
        return self.sink is not None

    @property
    def waiting(self):
        return ["loopback waits for data on stream in"]

    def send(self, data):
        self.source, self.sent = data, 0

    def receive(self, data):
        self.sink, self.received, self.overrun = data, 0, False

    def run(self):
        if self.sending:
            self._take()
        if self.receiving and self.answers:
            self._give(self.answers.pop(0))

    def _take(self):
        room = len(self.source) if self.receiving else self.fifo_bytes - len(self.begun)
        taken = bytes(self.source[self.sent : self.sent + room])
        self.begun += taken
        self.sent += len(taken)
        if self.sent == len(self.source):
            self.answers.append(self.answer(self.begun))
            self.begun, self.source = b"", None

    def _give(self, packet):
        self.cycles = len(packet) // (4 * self.lanes)
        count = min(len(packet), len(self.sink))
        self.sink[:count] = packet[:count]
        self.received = count
        self.overrun = count < len(packet)
        self.sink = None

    def answer(self, packet):
        return packet


class ReferenceKernel(Loopback):
    """The NumPy reference as an engine that says what it is."""

    version = 1

    def __init__(self, engine):
        super().__init__()
        self.engine = engine

    def answer(self, packet):
        try:
            descriptor = Descriptor.unpack(packet)
            if descriptor.operation == Operation.IDENTIFY:
                identity = self.version | self.engine << 8 | self.lanes << 16
                codecs = sum(1 << codec for codec in Codec)
                answer = Trailer(descriptor_crc=crc(packet[:60]), identity=identity, codecs=codecs)
                return answer.pack(0)
            return self._transfer(packet, descriptor)
        except FrameError as error:
            return self._trailer(packet, error.status).pack(0)

    def _transfer(self, packet, descriptor):
        data = np.frombuffer(packet, np.uint8)
        if self.engine == Engine.COMPRESSOR:
            raw = data[HEADER_BYTES : HEADER_BYTES + descriptor.raw_bytes]
            return reference.encode_frame(raw, descriptor).tobytes()
        _, raw = reference.decode_frame(data)
        whole = raw.tobytes() + bytes(padded(raw.size) - raw.size)
        return whole + self._trailer(packet, 0, crc(whole)).pack(crc(whole))

    def _trailer(self, packet, status, raw_crc=0):
        words = np.frombuffer(packet[:HEADER_BYTES], "<u4")
        return Trailer(
            status=status,
            sequence=int(words[2]),
            descriptor_crc=int(words[15]),
            raw_bytes=int.from_bytes(packet[16:24], "little"),
            raw_crc=raw_crc,
        )


def reference_kernels():
    """`ReferenceKernel` factories for both DMAs."""
    return {
        "axi_dma_compress": lambda: ReferenceKernel(Engine.COMPRESSOR),
        "axi_dma_decompress": lambda: ReferenceKernel(Engine.DECOMPRESSOR),
    }

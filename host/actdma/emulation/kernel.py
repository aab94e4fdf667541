"""What can stand behind an emulated AXI DMA: any AXI4-Stream top with one input and one output.

The compressor and the decompressor are two kernels; a loopback or a user's own HLS top (`hls_top`)
are others. A kernel sees the DMA's two channels as one packet armed for sending and one buffer
armed for receiving.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable


@runtime_checkable
class Kernel(Protocol):
    """A streaming kernel with the source and the sink that the DMA's two channels are.

    ``send`` and ``receive`` only arm; ``run`` moves data until nothing can move any more. Either
    may come first, and several packets may pass before a receive buffer is there.
    """

    lanes: int
    """32-bit words per beat of both streams."""

    sending: bool
    """A packet is armed and not wholly taken."""

    sent: int
    """Bytes taken of the packet armed last."""

    receiving: bool
    """A receive buffer is armed and no TLAST has arrived in it."""

    received: int
    """Bytes written to the buffer armed last."""

    overrun: bool
    """The packet is longer than the receive buffer; the rest of it was not written."""

    cycles: int
    """Clock cycles of the last packet, stalls included; 0 where time is not modelled."""

    waiting: list[str]
    """One line per process that waits, when nothing can move any more."""

    def reset(self) -> None:
        """What ap_rst_n does: forget every beat, every state and what is armed."""
        ...

    def drop(self) -> None:
        """Disarm source and sink: the DMA was reset and the kernel was not."""
        ...

    def send(self, data: memoryview) -> None:
        """Arm one packet of any length; TLAST comes with the last beat. Kept until taken.

        Where the length is no whole number of beats, TKEEP leaves out lanes of the last.
        """
        ...

    def receive(self, data: memoryview) -> None:
        """Arm a writable buffer for the next packet."""
        ...

    def run(self) -> None:
        """Run until nothing can move any more."""
        ...

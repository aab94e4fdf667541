"""What an emulated board can tell its driver beyond the registers. A real board has no probe."""

from __future__ import annotations

from typing import Protocol


class Probe(Protocol):
    """Insight into the fabric behind a DMA, named as in the block design."""

    def cycles(self, dma: str) -> int | None:
        """Clock cycles of the last packet; None where time is not modelled."""
        ...

    def waiting(self, dma: str) -> list[str]:
        """What each process in the fabric waits for. A probe is asked only when nothing moves any
        more, so an unfinished transfer is a deadlock and no time needs to pass."""
        ...

    def moved(self, dma: str) -> tuple[int, int]:
        """Bytes sent and received in the transfers started last."""
        ...

"""Devices that compute, and links to host memory with the engines on them: figures and sources."""

from __future__ import annotations

import dataclasses

from ..overlay.design import load_boards, load_platforms
from .timeline import Route

# What an AXI DMA makes of its memory port, rounded down (AMD PG021, Performance: 99.76 % from
# memory, MM2S, and 74.64 % to it, S2MM).
MM2S, S2MM = 0.99, 0.75
# cDMA (arXiv 1705.01626) gives its engine 200 of a Titan X's 336 GB/s; so it gets here of others.
ENGINE_SHARE = 200 / 336
# What kernels reach of a peak; the first is about what cuDNN's direct convolutions in fp32 reach,
# the second what training on tensor cores is commonly seen at, the third what copies reach.
FP32_EFFICIENCY, HALF_EFFICIENCY, MEMORY_EFFICIENCY = 0.7, 0.4, 0.8
PRECISIONS = ("float32", "half")


@dataclasses.dataclass(frozen=True)
class Device:
    """A device by the peaks on its data sheet.

    ``float32`` and ``half``: TFLOP/s, half being float16 or bfloat16 (on tensor cores where there
    are any, dense); None: no faster than float32. ``memory``: GB/s.
    """

    title: str
    float32: float
    half: float | None
    memory: float

    def seconds(self, flops: float, bytes_moved: float, precision: str = "float32") -> float:
        """The roofline's time: that of the products or that of memory, whichever is longer.

        ValueError for an unknown ``precision``.
        """
        if precision not in PRECISIONS:
            raise ValueError(f"unknown precision {precision!r}; known are {', '.join(PRECISIONS)}")
        rate = self.float32 * FP32_EFFICIENCY
        if precision == "half" and self.half is not None:
            rate = self.half * HALF_EFFICIENCY
        return max(flops / rate / 1e12, bytes_moved / (self.memory * MEMORY_EFFICIENCY) / 1e9)


# NVIDIA's data sheets; boost clocks, SXM modules where there are any.
DEVICES = {
    "titan-x": Device("Titan X (Maxwell)", 6.7, None, 336),
    "titan-xp": Device("Titan Xp", 12.1, None, 548),
    "v100": Device("V100", 15.7, 125, 900),
    "a100": Device("A100 80 GB", 19.5, 312, 2039),
    "h100": Device("H100", 67, 989, 3350),
}


@dataclasses.dataclass(frozen=True)
class Link:
    """A way to host memory, all in GB/s (1e9 bytes per second).

    ``to_host``, ``to_device``: what it carries each way. ``compress``, ``decompress``: raw bytes
    that the engine on it takes and gives; None: the engine is in the device's memory controller, as
    cDMA's is, and gets `ENGINE_SHARE` of its bandwidth. ``kind``: whether that is "assumed" or
    "modelled"; ``source``: from what.
    """

    title: str
    to_host: float
    to_device: float
    kind: str
    source: str
    compress: float | None = None
    decompress: float | None = None

    @property
    def plain(self) -> Route:
        """The way of data that is not compressed: past an engine in the device, through others."""
        unlimited = float("inf")
        return Route(
            self.to_host,
            self.to_device,
            self.compress or unlimited,
            self.decompress or unlimited,
        )

    def route(self, device: Device | None = None, engine: float | None = None) -> Route:
        """The way of data that is compressed behind ``device``.

        ``engine``: GB/s of the engine, in place of what it has. Without a device, one that would
        be in there is as fast as any link.
        """
        share = device.memory * ENGINE_SHARE if device else float("inf")
        return Route(
            self.to_host,
            self.to_device,
            engine or self.compress or share,
            engine or self.decompress or share,
        )


_PINNED = ("assumed", "80 % of the lanes' rate, as large copies of pinned memory reach")


def _boards() -> dict[str, Link]:
    """The engines of the boards: raw data through the DMA's one channel, frames through the other.

    Such a link is that of a device whose memory the board shares.
    """
    links = {}
    for name, board in load_boards().items():
        port = board["stream_bits"] / 8 * board["clock_mhz"] / 1e3
        read, write = MM2S * port, S2MM * port
        links[name] = Link(
            f"{board['title']}, engine at {board['stream_bits']} bit, {board['clock_mhz']} MHz",
            to_host=write,
            to_device=read,
            compress=read,
            decompress=write,
            kind="modelled",
            source="docs/fabric.md",
        )
    return links


def _cards() -> dict[str, Link]:
    """Engines on Alveo cards, on the far side of PCIe: raw data crosses it, frames do not.

    The frames' side is the card's memory ports, one per unit, a beat in a cycle.
    """
    links = {}
    for name, card in load_platforms().items():
        port = 4 * card["lanes"] * card["clock_mhz"] / 1e3
        units = {kind: len(units) * port for kind, units in card["units"].items()}
        write, read = units["actdma_compress_maxi"], units["actdma_decompress_maxi"]
        pcie = PCIE["pcie3"]
        links[f"alveo-{name}"] = Link(
            f"{card['title']} behind PCIe 3, frames in its memory",
            to_host=write,
            to_device=read,
            compress=min(pcie.to_host, write),
            decompress=min(pcie.to_device, read),
            kind="modelled",
            source="a beat per cycle and unit, docs/alveo.md; PCIe assumed",
        )
    return links


PCIE = {
    "pcie3": Link("PCIe 3 x16", 12.8, 12.8, *_PINNED),
    "pcie4": Link("PCIe 4 x16", 25.6, 25.6, *_PINNED),
    "pcie5": Link("PCIe 5 x16", 51.2, 51.2, *_PINNED),
}
LINKS = {
    **PCIE,
    "nvlink-c2c": Link("NVLink-C2C", 360, 360, "assumed", "80 % of 450 GB/s each way"),
    **_boards(),
    **_cards(),
}

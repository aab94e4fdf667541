"""A Zynq UltraScale+ board that is not there, below the real pynq package.

    emu = actdma.emulation.install()
    ol = pynq.Overlay(emu.bitfile)

A user's own pynq code runs on it unchanged, also with the user's own HLS C++ in its fabric, an
`HlsTop`. `EmulatedCard` is an Alveo card that is not there,
below the API of pyxrt. ``inject`` of either makes a `Fault` happen.
"""

from __future__ import annotations

from .faults import Fault, Injection
from .hls_top import HlsTop, KernelError
from .installed import Emulation, install
from .kernel import Kernel
from .xrt import EmulatedCard

__all__ = [
    "EmulatedCard",
    "Emulation",
    "Fault",
    "HlsTop",
    "Injection",
    "Kernel",
    "KernelError",
    "install",
]

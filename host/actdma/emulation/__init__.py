"""A Zynq UltraScale+ board that is not there, below the real pynq package.

    emu = actdma.emulation.install()
    ol = pynq.Overlay(emu.bitfile)

A user's own pynq code runs on it unchanged.
"""

from __future__ import annotations

from .installed import Emulation, install
from .kernel import Kernel

__all__ = ["Emulation", "Kernel", "install"]

"""Activations of a PyTorch model through a compressor in FPGA fabric and back.

Importing this package touches no hardware and imports neither torch nor pynq.
"""

from __future__ import annotations

import importlib
from typing import Any

from .api import compress, decompress
from .codecs import Bsr, Pool
from .frame import Frame, FrameError
from .version import VERSION

__version__ = VERSION
__all__ = [
    "Boards",
    "Bsr",
    "Frame",
    "FrameError",
    "Pool",
    "compress",
    "compress_async",
    "decompress",
    "decompress_async",
    "emulation",
    "offload",
    "open_alveo",
    "open_board",
]

_LAZY = {
    "Boards": ".board",
    "compress_async": ".awaitable",
    "decompress_async": ".awaitable",
    "open_alveo": ".alveo",
    "open_board": ".board",
}
_LAZY_MODULES = ("alveo", "board", "emulation", "measure", "native", "simulate")


def __getattr__(name: str) -> Any:
    if name == "offload":
        return importlib.import_module(".offloading", __name__).offload
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name], __name__), name)
    if name in _LAZY_MODULES:
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]

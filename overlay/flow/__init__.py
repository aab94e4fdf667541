"""From HLS sources to a bitstream that has passed its gates. Needs Python's standard library alone.

Run as ``make -C overlay BOARD=kv260``, or ``python -m flow BOARD`` in ``overlay/``.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

OVERLAY = Path(__file__).resolve().parents[1]
ROOT = OVERLAY.parent
TOPS = ("actdma_compress", "actdma_decompress")


class BuildError(Exception):
    """The build cannot go on; the message says why, in one sentence or with the lines at fault."""


def _load_design_module() -> ModuleType:
    """`actdma.overlay.design` by its path: importing the package would want NumPy."""
    path = ROOT / "host" / "actdma" / "overlay" / "design.py"
    spec = importlib.util.spec_from_file_location("actdma_design", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    try:
        spec.loader.exec_module(module)
    except ModuleNotFoundError as error:
        sys.exit(
            f"overlay: {error.name} is missing: the build needs Python 3.11 or later, or 3.10 with "
            f"tomli (make -C overlay PYTHON=python3.12); this is {sys.version.split()[0]}"
        )
    return module


design = _load_design_module()

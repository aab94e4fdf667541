"""Boards and cards: whether there is one, and a transfer through it."""

from __future__ import annotations

import importlib.util
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..alveo import open_alveo
from ..api import compress, decompress
from ..board import BoardError, open_board
from ..board.opener import find_device
from ..board.staging import SLOTS
from ..frame import FRAME_BYTES, HEADER_BYTES, frame_bound
from ..overlay.cache import cached_bitfile, machine_name, this_board
from ..overlay.design import load_boards
from .finding import Finding, State
from .transfers import differing

# What buffers for whole frames take of the contiguous memory.
_STAGING_BYTES = 2 * SLOTS * (frame_bound(FRAME_BYTES) + HEADER_BYTES)


def findings(xclbin: str | None = None) -> Iterator[Finding]:
    """Of the emulated board, a Zynq board and, with the ``xclbin`` it is to load, an Alveo card."""
    yield _transfer("emulated board", lambda: open_board("emulated"))
    yield from _zynq()
    yield _alveo(xclbin)


def _zynq() -> Iterator[Finding]:
    subject = "Zynq board"
    device, reason = find_device()
    if device is None:
        yield Finding(subject, State.ABSENT, f"none: {reason}", "the emulated board works anywhere")
        return
    name = this_board(load_boards())
    if name is None:
        known = ", ".join(load_boards())
        found = f"the image calls this machine {machine_name() or 'nothing'!r}; known are {known}"
        advice = "build an overlay for it: docs/hardware.md, and open_board(bitfile=...)"
        yield Finding(subject, State.ABSENT, found, advice)
        return
    yield _contiguous_memory(Path("/proc/meminfo"))
    if not cached_bitfile(name).is_file():
        found = f"this is a {name}, and there is no bitstream for it"
        advice = f"actdma fetch --board {name} --from URL-or-folder"
        yield Finding(subject, State.WRONG, found, advice)
        return
    yield _transfer(subject, lambda: open_board("hardware"))


def _contiguous_memory(meminfo: Path) -> Finding:
    """Whether the kernel's contiguous memory (CMA) holds the driver's buffers."""
    kib = dict(re.findall(r"(Cma\w+):\s*(\d+) kB", meminfo.read_text("ascii")))
    total, free = (int(kib.get(key, 0)) << 10 for key in ("CmaTotal", "CmaFree"))
    found = f"{free >> 20} of {total >> 20} MiB free, buffers take {-(-_STAGING_BYTES >> 20)}"
    if free >= _STAGING_BYTES:
        return Finding("contiguous memory", State.GOOD, found)
    return Finding(
        "contiguous memory",
        State.WRONG,
        f"{found}: frames will be smaller, and slower",
        "end what holds buffers, or give the kernel cma=256M at boot",
    )


def _alveo(xclbin: str | None) -> Finding:
    subject = "Alveo card"
    if xclbin is not None:
        return _transfer(subject, lambda: open_alveo(xclbin=xclbin))
    if importlib.util.find_spec("pyxrt") is None:
        found = "none: pyxrt cannot be imported"
        return Finding(subject, State.ABSENT, found, "where there is one: source XRT's setup.sh")
    found = "pyxrt is there; no xclbin was given for a transfer"
    return Finding(subject, State.ABSENT, found, "actdma doctor --xclbin FILE")


def _transfer(subject: str, open_device: Callable[[], Any]) -> Finding:
    """Every codec of a board beside the reference, and the rate of a whole frame."""
    try:
        with open_device() as board:
            info = board.info()
            wrong = differing(board, info["codecs"])
            rate = "" if info["modelled"] else f", {_gb_per_s(board):.2f} GB/s there and back"
    except BoardError as error:
        absent = isinstance(error.__cause__, ImportError)
        state = State.ABSENT if absent else State.WRONG
        return Finding(subject, state, str(error), "" if absent else "docs/troubleshooting.md")
    name = info.get("board") or info["platform"]
    what = f"{name} at {info['clock_mhz']:g} MHz, {32 * info['lanes']} bits a beat"
    if wrong:
        found = f"{what}: not the bytes of the reference: {', '.join(wrong)}"
        return Finding(subject, State.WRONG, found, "load the bitstream again; docs/hardware.md")
    return Finding(
        subject, State.GOOD, f"{what}: {', '.join(info['codecs'])} as the reference{rate}"
    )


def _gb_per_s(board: Any) -> float:
    """Raw bytes by seconds, driver included, of a frame that goes through both engines."""
    data = np.arange(FRAME_BYTES // 4, dtype=np.uint32)
    data[::2] = 0
    began = time.perf_counter()
    decompress(compress(data, "zvc", board), board)
    return 2 * data.nbytes / (time.perf_counter() - began) / 1e9

"""Opens an Alveo card: a real one over pyxrt, or an emulated one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..board import BoardError
from ..board.opener import check_manifest
from ..frame import FRAME_BYTES
from .card import Card

if TYPE_CHECKING:
    from ..emulation.xrt import EmulatedCard

KINDS = ("hardware", "emulated")


def open_alveo(
    kind: str = "hardware",
    *,
    xclbin: str | os.PathLike[str] | None = None,
    device: int = 0,
    platform: str = "u50",
    lanes: int | None = None,
    timed: bool = True,
    timeout: float | None = None,
    frame_bytes: int = FRAME_BYTES,
) -> Card:
    """Open an Alveo card; use it as a context manager, or close it.

    ``kind``: "hardware" needs pyxrt, a card and its ``xclbin`` (``make -C overlay -f alveo.mk``);
    ``device`` is the card's index. "emulated" works anywhere: ``platform`` ("u50", "u250"),
    ``lanes`` (32-bit words per beat, None for the platform's) and ``timed`` (count clock cycles)
    are its own. ``timeout``: seconds per frame, None for a default made from its size.
    ``frame_bytes``: raw bytes of the largest frame that buffers are allocated for.

    ValueError for an unknown kind or platform; `BoardError` with what is missing if the card cannot
    be opened.
    """
    if kind not in KINDS:
        raise ValueError(f"unknown kind of card {kind!r}; known are {', '.join(KINDS)}")
    options = {"timeout": timeout, "frame_bytes": frame_bytes}
    if kind == "hardware":
        return _open_hardware(xclbin, device, options)
    from ..emulation.xrt import EmulatedCard

    card = EmulatedCard(platform, lanes, timed)
    try:
        return open_on(card, on_close=card.close, **options)
    except BaseException:
        card.close()
        raise


def open_on(card: EmulatedCard, **options: Any) -> Card:
    """An emulated card that is there already; ``options`` are those of `Card`."""
    options = {"cycles": card.cycles, **options}
    return _load(card.pyxrt, card.xclbin, 0, kind="emulated", **options)


def _open_hardware(
    xclbin: str | os.PathLike[str] | None, device: int, options: dict[str, Any]
) -> Card:
    try:
        import pyxrt
    except ImportError as error:
        raise BoardError(
            "no card: pyxrt is missing: install XRT, source its setup.sh and use the Python it was "
            f'built for ({error}). open_alveo("emulated") works anywhere'
        ) from None
    if xclbin is None:
        raise BoardError("a real card needs an xclbin: open_alveo(xclbin=...)")
    path = Path(xclbin).absolute()
    if not path.is_file():
        raise BoardError(f"{path} is missing; make -C overlay -f alveo.mk PLATFORM=u50 builds one")
    check_manifest(path.with_suffix(".sha256"))
    return _load(pyxrt, str(path), device, kind="hardware", **options)


def _load(xrt: Any, path: str, index: int, **options: Any) -> Card:
    try:
        xclbin = xrt.xclbin(path)
        device = xrt.device(index)
        uuid = device.load_xclbin(xclbin)
    except RuntimeError as error:
        raise BoardError(
            f"XRT does not load {path} onto card {index}: {error} (xrt-smi examine lists cards and "
            "their platforms)"
        ) from None
    return Card(xrt, device, uuid, platform=xclbin.get_xsa_name(), **options)

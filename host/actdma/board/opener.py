"""Opens a board: the real one if it is there, else the emulated one. Imports pynq when called."""

from __future__ import annotations

import atexit
import hashlib
import os
import platform
import threading
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..frame import FRAME_BYTES
from .board import Board
from .errors import BoardError

if TYPE_CHECKING:
    from ..emulation import Emulation

KINDS = ("auto", "emulated", "hardware")
_BOARD_FILE = Path("/proc/device-tree/chosen/pynq_board")
_shared: Board | None = None
_shared_lock = threading.Lock()


def open_board(
    kind: str | None = None,
    *,
    bitfile: str | os.PathLike[str] | None = None,
    lanes: int = 4,
    timed: bool = True,
    timeout: float | None = None,
    frame_bytes: int = FRAME_BYTES,
) -> Board:
    """Open a board; use it as a context manager, or close it.

    ``kind``: "hardware", "emulated", or "auto" (the real board if this runs on one, else the
    emulated one); None takes the environment variable ACTDMA_BOARD, else "auto". ``bitfile``: the
    overlay of a real board, with its .hwh beside it. ``lanes`` (32-bit words per beat) and
    ``timed`` (count clock cycles) are the emulated board's. ``timeout``: seconds per frame, None
    for a default made from size and link rate. ``frame_bytes``: raw bytes of the largest frame that
    buffers are allocated for.

    ValueError for an unknown kind; `BoardError` with what is missing if the board cannot be opened.
    """
    kind = kind or os.environ.get("ACTDMA_BOARD") or "auto"
    if kind not in KINDS:
        raise ValueError(f"unknown kind of board {kind!r}; known are {', '.join(KINDS)}")
    if kind == "auto":
        kind = "hardware" if bitfile or find_device()[0] is not None else "emulated"
    if kind == "hardware":
        return _open_hardware(bitfile, timeout, frame_bytes)
    from ..emulation import install

    try:
        # The driver's cache maintenance is tested with the cache model, which costs two copies.
        emulation = install(lanes, timed, cache=False, activate=False)
    except ImportError as error:
        raise BoardError(str(error)) from error
    try:
        return open_on(
            emulation, timeout=timeout, frame_bytes=frame_bytes, on_close=emulation.close
        )
    except BaseException:
        emulation.close()
        raise


def open_on(emulation: Emulation, **options: Any) -> Board:
    """A board on an emulation that is already installed; ``options`` are those of `Board`."""
    from pynq import Overlay

    overlay = Overlay(emulation.bitfile, device=emulation.device)
    board = emulation.design.board
    options = {"probe": emulation, **options}
    return Board(
        overlay,
        kind="emulated",
        title=board["title"],
        part=board["part"],
        clock_mhz=_clock_mhz(),
        **options,
    )


def shared_board() -> Board:
    """The process's own board, opened with `open_board` at the first call and closed at exit. A
    forked child opens its own."""
    global _shared
    with _shared_lock:
        if _shared is None or _shared.closed:
            _shared = open_board()
        return _shared


@atexit.register
def _close_shared() -> None:
    if _shared is not None:
        _shared.close()


def _forget_shared() -> None:
    """In a forked child: the board is its parent's, and the lock may be held by nobody left."""
    global _shared, _shared_lock
    _shared, _shared_lock = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_shared)


def find_device() -> tuple[Any | None, str]:
    """pynq's device of a real board, or None and the reason why there is none."""
    machine = platform.machine()
    if machine not in ("aarch64", "armv7l"):
        return None, f"this machine is {machine}, not a Zynq board"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from pynq.pl_server.device import Device

            devices = Device.devices
    except ImportError:
        return None, 'pynq is missing: use the board\'s PYNQ image, or pip install "actdma[board]"'
    if not devices:
        return (
            None,
            "pynq found no device: source the XRT environment (/etc/profile.d) and run as root",
        )
    return devices[0], ""


def check_files(bitfile: Path) -> None:
    """`BoardError` unless bitstream and .hwh are there and, where a ``.sha256`` file lies beside
    them (as sha256sum writes it), are the ones it lists."""
    for file in (bitfile, bitfile.with_suffix(".hwh")):
        if not file.is_file():
            raise BoardError(f"{file} is missing; an overlay is a .bit and a .hwh of the same name")
    check_manifest(bitfile.with_suffix(".sha256"))


def check_manifest(manifest: Path) -> None:
    """`BoardError` unless the files that ``manifest`` lists, where there is one, lie beside it and
    have the sums it says."""
    if not manifest.is_file():
        return
    for line in manifest.read_text("utf-8").splitlines():
        digest, _, name = line.partition(" ")
        file = manifest.with_name(name.strip(" *"))
        if not file.is_file() or hashlib.sha256(file.read_bytes()).hexdigest() != digest:
            raise BoardError(f"{file} is not the file that {manifest} lists: copy the set again")


def _open_hardware(
    bitfile: str | os.PathLike[str] | None, timeout: float | None, frame_bytes: int
) -> Board:
    device, reason = find_device()
    if device is None:
        raise BoardError(f'no board: {reason}. open_board("emulated") works anywhere')
    if bitfile is None:
        raise BoardError("a real board needs an overlay: open_board(bitfile=...)")
    path = Path(bitfile).absolute()
    check_files(path)
    from pynq import Overlay

    overlay = Overlay(str(path), device=device)
    title = _BOARD_FILE.read_text("ascii").strip("\0\n") if _BOARD_FILE.is_file() else "unknown"
    return Board(
        overlay,
        kind="hardware",
        title=title,
        part="unknown",
        clock_mhz=_clock_mhz(),
        timeout=timeout,
        frame_bytes=frame_bytes,
    )


def _clock_mhz() -> float:
    """The PL clock as the overlay just loaded has set it."""
    from pynq import Clocks

    return float(Clocks.fclk0_mhz)

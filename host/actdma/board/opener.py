"""Opens a board: the real one if it is there, else the emulated one. Imports pynq when called."""

from __future__ import annotations

import atexit
import contextlib
import os
import platform
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..frame import FRAME_BYTES
from ..overlay.cache import (
    cached_bitfile,
    digest,
    machine_name,
    manifest_entries,
    this_board,
)
from ..overlay.design import load_boards
from .board import Board
from .errors import BoardError
from .process_lock import process_lock

if TYPE_CHECKING:
    from ..emulation import Emulation

KINDS = ("auto", "emulated", "hardware")
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
    fabric: str | None = None,
) -> Board:
    """Open a board; use it as a context manager, or close it.

    ``kind``: "hardware", "emulated", or "auto" (the real board if this runs on one, else the
    emulated one); None takes the environment variable ACTDMA_BOARD, else "auto". ``bitfile``: the
    overlay of a real board, with its .hwh beside it; None takes what ``actdma fetch`` put into the
    cache for this board. ``lanes`` (32-bit words per beat) and ``timed`` (count clock cycles) are
    the emulated board's, and so is ``fabric``: what runs its engines, "csim" or "rtl"
    (`actdma.emulation.install`); None takes the environment variable ACTDMA_FABRIC, else "csim".
    ``timeout``: seconds per frame, None for a default made from size and link
    rate. ``frame_bytes``: raw bytes of the largest frame that buffers are allocated for.

    A real board is this process's alone until it is closed. The lock lies in the folder that the
    environment variable ACTDMA_LOCKS names, else in /run/lock; containers on one machine must share
    it.

    ValueError for an unknown kind; `BoardError` with what is missing if the board cannot be opened.
    """
    given, kind = kind, kind or os.environ.get("ACTDMA_BOARD") or "auto"
    if kind not in KINDS:
        source = "" if given else " in ACTDMA_BOARD"
        raise ValueError(f"unknown kind of board {kind!r}{source}; known are {', '.join(KINDS)}")
    if kind == "auto":
        kind = "hardware" if bitfile or find_device()[0] is not None else "emulated"
    if kind == "hardware":
        return _open_hardware(bitfile, timeout, frame_bytes)
    from ..emulation import install

    try:
        # The driver's cache maintenance is tested with the cache model, which costs two copies.
        fabric = fabric or os.environ.get("ACTDMA_FABRIC") or "csim"
        emulation = install(lanes, timed, cache=False, activate=False, fabric=fabric)
    except ImportError as error:
        raise BoardError(str(error)) from error
    try:
        return open_on(
            emulation, timeout=timeout, frame_bytes=frame_bytes, on_close=emulation.close
        )
    except BaseException:
        emulation.close()
        raise


def open_on(emulation: Emulation, lock: str | None = None, **options: Any) -> Board:
    """A board on an emulation that is already installed; ``options`` are those of `Board`.
    ``lock``: keep other processes away, as from a real board of this name; None: each process has
    its own."""
    from pynq import Overlay

    board = emulation.design.board
    options = {
        "probe": emulation,
        "kind": "emulated",
        "title": board["title"],
        "part": board["part"],
        **options,
    }
    return _open(lock, lambda: Overlay(emulation.bitfile, device=emulation.device), **options)


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
    try:
        entries = manifest_entries(manifest.read_text("utf-8"))
    except ValueError as error:
        raise BoardError(f"{manifest}: {error}") from None
    for name, expected in entries.items():
        file = manifest.with_name(name)
        if not file.is_file() or digest(file) != expected:
            raise BoardError(f"{file} is not the file that {manifest} lists: copy the set again")


def _open_hardware(
    bitfile: str | os.PathLike[str] | None, timeout: float | None, frame_bytes: int
) -> Board:
    device, reason = find_device()
    if device is None:
        raise BoardError(
            f'no board: {reason}. open_board("emulated"), or --board emulated, works anywhere'
        )
    boards = load_boards()
    name = this_board(boards)
    path = _fetched(name) if bitfile is None else Path(bitfile).absolute()
    check_files(path)
    from pynq import Overlay

    def load() -> Overlay:
        overlay = Overlay(str(path), device=device)
        for ip in overlay.ip_dict.values():
            # The driver polls; pynq would want an event loop and /dev/uio for its interrupts.
            ip["interrupts"] = {}
        return overlay

    return _open(
        device.tag,
        load,
        kind="hardware",
        title=boards[name]["title"] if name else machine_name() or "unknown",
        part=boards[name]["part"] if name else "unknown",
        timeout=timeout,
        frame_bytes=frame_bytes,
    )


def _open(
    lock: str | None,
    load: Callable[[], Any],
    *,
    on_close: Callable[[], None] | None = None,
    **options: Any,
) -> Board:
    """The board of the overlay that ``load`` loads, no other process's as long as it is open."""
    at_end = contextlib.ExitStack()
    if lock is not None:
        at_end.enter_context(process_lock(lock))
    try:
        overlay = load()
        board = Board(overlay, clock_mhz=set_clock(overlay), on_close=at_end.close, **options)
    except BaseException:
        at_end.close()
        raise
    if on_close is not None:
        at_end.callback(on_close)
    return board


def _fetched(board: str | None) -> Path:
    """The cache's bitstream of this board; `BoardError` if there is none."""
    advice = "open_board(bitfile=...) takes one from anywhere"
    if board is None:
        raise BoardError(f"a real board needs an overlay, and this one is not known: {advice}")
    path = cached_bitfile(board)
    if not path.is_file():
        raise BoardError(
            f"a real board needs an overlay, and there is no {path}: run "
            f"actdma fetch --board {board} --from URL-or-folder as this user; {advice}"
        )
    return path


def set_clock(overlay: Any) -> float:
    """Give the PL clock the rate that the overlay's timing was met at; returns it in MHz.

    pynq sets the dividers found in the .hwh. Vivado chose those for the PLL of its own settings,
    but the PLL that runs is the one the image's boot loader has set.
    """
    from pynq import Clocks

    built = _built_mhz(overlay)
    if built and abs(_clock_mhz() - built) > 1e-3 * built:
        Clocks.fclk0_mhz = built
        if _clock_mhz() > 1.001 * built:
            raise BoardError(
                f"the PL clock runs at {_clock_mhz():.3f} MHz, and this overlay's timing is met up "
                f"to {built:.3f} MHz"
            )
    return _clock_mhz()


def _built_mhz(overlay: Any) -> float | None:
    """The rate of PL clock 0 in the .hwh, None if it has none."""
    names = {board["clock_parameters"]["mhz"].format(0) for board in load_boards().values()}
    for ip in overlay.ip_dict.values():
        for name in names & set(ip.get("parameters", {})):
            return float(ip["parameters"][name])
    return None


def _clock_mhz() -> float:
    """The PL clock as the overlay just loaded has set it."""
    from pynq import Clocks

    return float(Clocks.fclk0_mhz)

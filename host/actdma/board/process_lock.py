"""One process per board: the lock that the others find taken, and by whom."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

from .errors import BoardError

# A record lock belongs to the process: a forked child does not inherit it, and closing any file
# descriptor of the file gives it back. So there is one descriptor for each board, whoever uses it.
_held: dict[Path, tuple[int, int]] = {}
_process = os.getpid()
_guard = threading.RLock()  # a board nobody closed is given back by the garbage collector


@contextlib.contextmanager
def process_lock(board: str) -> Iterator[None]:
    """Keep other processes from the board called ``board`` (letters, digits and the like).

    `BoardError` that names the process that has it. Ends with the process at the latest, however
    that ends. Within a process it may be taken again: there the board opened last is the one that
    works.
    """
    path = lock_folder() / f"actdma-{board}.lock"
    with _guard:
        _take(path)
    try:
        yield
    finally:
        with _guard:
            _give_back(path)


def lock_folder() -> Path:
    """ACTDMA_LOCKS, else where the locks of all users lie until the next boot."""
    if os.environ.get("ACTDMA_LOCKS"):
        return Path(os.environ["ACTDMA_LOCKS"]).expanduser()
    run = Path("/run/lock")
    return run if os.access(run, os.W_OK) else Path(tempfile.gettempdir())


def _take(path: Path) -> None:
    if os.getpid() != _process:
        _forget()
    descriptor, users = _held.get(path, (-1, 0))
    if not users:
        descriptor = _open_locked(path)
    _held[path] = descriptor, users + 1


def _give_back(path: Path) -> None:
    if os.getpid() != _process:
        return
    descriptor, users = _held.pop(path)
    if users > 1:
        _held[path] = descriptor, users - 1
    else:
        os.close(descriptor)


def _open_locked(path: Path) -> int:
    import fcntl  # not on Windows, where there is no board either

    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise BoardError(f"the board's lock {path} cannot be opened: {error}") from None
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        owner = os.read(descriptor, 4096).decode(errors="replace").strip() or "another process"
        os.close(descriptor)
        raise BoardError(
            f"the board is in use by {owner}; close it there, or end that process ({path})"
        ) from None
    os.ftruncate(descriptor, 0)
    os.write(descriptor, f"process {os.getpid()}: {' '.join(sys.orig_argv)}\n".encode()[:4096])
    return descriptor


def _forget() -> None:
    """In a forked child: the locks are its parent's."""
    global _process
    for descriptor, _ in _held.values():
        os.close(descriptor)
    _held.clear()
    _process = os.getpid()

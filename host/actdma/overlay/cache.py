"""Bitstreams live outside of git: they are fetched, checked against their manifest, and cached.

A set is what ``make -C overlay`` leaves: ``actdma.bit``, ``actdma.hwh``, ``actdma.json`` and the
manifest ``actdma.sha256`` over them (as sha256sum writes it).
"""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import json
import os
import re
import shutil
import tempfile
import urllib.request
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

from .design import load_boards

NAME = "actdma"
MANIFEST = f"{NAME}.sha256"
_NEEDED = (f"{NAME}.bit", f"{NAME}.hwh")
_SUFFIXES = (".bit", ".hwh", ".json")
_MAX_TEXT = 1 << 20  # of files that are read as a whole: manifest and JSON
_MAX_FILE = 512 << 20
_TIMEOUT_SECONDS = 60
_DEVICE_TREE = Path("/proc/device-tree/chosen/pynq_board")


class FetchError(Exception):
    """A set of files cannot be had, or is not as its manifest says; the message says which."""


def cache_root() -> Path:
    """Where bitstreams are kept: ACTDMA_CACHE, else ``actdma`` in XDG_CACHE_HOME or ~/.cache."""
    if os.environ.get("ACTDMA_CACHE"):
        return Path(os.environ["ACTDMA_CACHE"]).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / NAME


def cached_bitfile(board: str) -> Path:
    """Where the bitstream of ``board`` is or would be."""
    return cache_root() / board / f"{NAME}.bit"


def machine_name() -> str:
    """What the board's image calls the machine, in lower case; empty on others."""
    with contextlib.suppress(OSError):
        return _DEVICE_TREE.read_text("ascii").strip("\0\n").lower()
    return os.environ.get("BOARD", "").lower()


def this_board(known: Iterable[str]) -> str | None:
    """Which of the ``known`` boards this machine is. Images append the variant: "AUP-ZU3-8GB"."""
    name = machine_name()
    return next((board for board in known if name.startswith(board)), None)


def fetch(board: str, source: str | os.PathLike[str]) -> Path:
    """Copy the set of files for ``board`` into the cache; returns the path of the bitstream.

    ``source``: a folder, or the http(s) URL of one, with the manifest in it. Nothing reaches the
    cache unless all of it is as the manifest says. `FetchError` says what is wrong.
    """
    boards = [name for name, entry in load_boards().items() if entry["part"] != "none"]
    if board not in boards:
        raise FetchError(f"there is no board {board!r}; known are {', '.join(boards)}")
    target = cache_root() / board
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{board}-") as folder:
            new = Path(folder, "new")
            new.mkdir()
            _copy_set(board, str(source), new)
            if target.exists():
                target.rename(Path(folder, "old"))
            new.rename(target)
    except OSError as error:
        raise FetchError(f"cannot write {target}: {error.strerror or error}") from error
    return target / f"{NAME}.bit"


def manifest_entries(text: str) -> dict[str, str]:
    """SHA-256 by file name, from a manifest; ValueError unless every line is a digest and a plain
    file name."""
    entries = {}
    for line in text.splitlines():
        match = re.fullmatch(r"([0-9a-f]{64}) [ *]([A-Za-z0-9_][A-Za-z0-9._-]*)", line.rstrip())
        if match is None:
            raise ValueError(f"{line[:100]!r} is not a SHA-256 and the name of a file beside it")
        entries[match[2]] = match[1]
    return entries


def digest(file: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    value = hashlib.sha256()
    with file.open("rb") as stream:
        while chunk := stream.read(1 << 20):
            value.update(chunk)
    return value.hexdigest()


def _copy_set(board: str, source: str, folder: Path) -> None:
    _copy(source, MANIFEST, folder, _MAX_TEXT)
    where = f"{MANIFEST} of {source}"
    try:
        entries = manifest_entries((folder / MANIFEST).read_text("utf-8"))
    except ValueError as error:
        raise FetchError(f"{where}: {error}") from None
    missing = [name for name in _NEEDED if name not in entries]
    if missing:
        raise FetchError(f"{where} lists no {' and no '.join(missing)}")
    for name, expected in entries.items():
        if not name.endswith(_SUFFIXES):
            raise FetchError(f"{where} lists {name}; allowed are {', '.join(_SUFFIXES)}")
        _copy(source, name, folder, _MAX_TEXT if name.endswith(".json") else _MAX_FILE)
        found = digest(folder / name)
        if found != expected:
            raise FetchError(f"{name} of {source} has SHA-256 {found}, not {expected} as listed")
    if f"{NAME}.json" in entries:
        built_for = _board_of(folder / f"{NAME}.json")
        if built_for != board:
            raise FetchError(f"the bitstream of {source} was built for {built_for}, not {board}")


def _board_of(file: Path) -> Any:
    try:
        return json.loads(file.read_text("utf-8"))["board"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise FetchError(
            f"{file} names no board: it is none that `make -C overlay` wrote"
        ) from None


def _copy(source: str, name: str, folder: Path, limit: int) -> None:
    """Copy one file of at most ``limit`` bytes."""
    try:
        with _open(source, name) as stream, (folder / name).open("wb") as out:
            shutil.copyfileobj(_Limited(stream, limit), out)
    except _TooLargeError:
        raise FetchError(f"{name} of {source} is larger than {limit} bytes") from None
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = getattr(error, "strerror", None) or error
        hint = ""
        if name == MANIFEST and Path(source).is_dir():
            hint = "; a folder must hold what `make -C overlay` leaves when all its gates pass"
        raise FetchError(f"cannot fetch {name} from {source}: {reason}{hint}") from error


def _open(source: str, name: str) -> Any:
    if re.match(r"https?://", source):
        url = f"{source.rstrip('/')}/{name}"
        return urllib.request.urlopen(url, timeout=_TIMEOUT_SECONDS)
    if "://" in source:
        raise ValueError("only folders, http:// and https:// will do")
    return Path(source, name).open("rb")


class _TooLargeError(Exception):
    pass


class _Limited:
    """Reads at most ``limit`` bytes from a stream."""

    def __init__(self, stream: IO[bytes], limit: int) -> None:
        self._stream = stream
        self._left = limit

    def read(self, size: int) -> bytes:
        chunk = self._stream.read(size)
        self._left -= len(chunk)
        if self._left < 0:
            raise _TooLargeError
        return chunk

"""Saved tensors as files: written by a backend on the way, read for a benchmark.

A dump is a folder of files, each the bytes of a tensor's frames (docs/format.md), which tell its
dtype. No file holds code; what is damaged is refused.
"""

from __future__ import annotations

import itertools
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..api import decompress
from ..arrays import to_bytes
from ..backend import Backend
from ..frame import LOSSLESS, DType, Frame

SUFFIX = ".actdma"
_LARGEST = 1 << 36
"""Raw bytes that a file may announce."""


class DumpError(Exception):
    """A dump cannot be read or written; the message is one sentence."""


class Dump:
    """A backend that writes what it compresses to ``folder``, a file per tensor in the order of
    compression, and leaves the work to ``inner``.

        with actdma.offload(model, backend=actdma.bench.Dump("saved", NativeBackend())):

    The folder is made; `DumpError` if it has a dump in it already.
    """

    def __init__(self, folder: str | Path, inner: Backend) -> None:
        self.name = inner.name
        self.folder = Path(folder)
        self._inner = inner
        self._numbers = itertools.count()
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DumpError(f"cannot write a dump to {folder}: {error.strerror}") from error
        if any(self.folder.glob(f"*{SUFFIX}")):
            raise DumpError(f"{folder} has a dump in it already")

    def compress(self, data: np.ndarray, dtype: DType, *how: Any) -> Frame:
        """As `Backend.compress`."""
        frame = self._inner.compress(data, dtype, *how)
        file = self.folder / f"{next(self._numbers):05}{SUFFIX}"
        file.write_bytes(bytes(frame))
        return frame

    def decompress(self, frame: Frame, out: np.ndarray) -> int | None:
        """As `Backend.decompress`."""
        return self._inner.decompress(frame, out)


def load(path: Path) -> Iterator[tuple[str, DType, np.ndarray]]:
    """Name, dtype and bytes (uint8, 1-D) of each tensor in a dump, or in a ``.npy`` or ``.npz``
    file of arrays. `DumpError` that names the file if one cannot be read."""
    if path.is_dir():
        files = sorted(path.glob(f"*{SUFFIX}"))
        if not files:
            raise DumpError(f"{path} has no {SUFFIX} files in it")
    elif path.is_file():
        files = [path]
    else:
        raise DumpError(f"there is no {path}")
    for file in files:
        try:
            yield from _frames(file) if file.suffix == SUFFIX else _arrays(file)
        except (OSError, ValueError, TypeError, EOFError, zipfile.BadZipFile) as error:
            raise DumpError(f"{file} cannot be read: {error}") from error


def _frames(file: Path) -> Iterator[tuple[str, DType, np.ndarray]]:
    frame = Frame.of(file.read_bytes(), _LARGEST)
    if frame.codec not in LOSSLESS:
        raise ValueError(f"codec {frame.codec.name.lower()} is lossy")
    yield file.stem, frame.dtype, to_bytes(decompress(frame, max_bytes=_LARGEST))[0]


def _arrays(file: Path) -> Iterator[tuple[str, DType, np.ndarray]]:
    loaded = np.load(file, allow_pickle=False)
    arrays = loaded.items() if isinstance(loaded, np.lib.npyio.NpzFile) else [(file.stem, loaded)]
    for name, array in arrays:
        data, layout = to_bytes(array)
        yield name, layout.dtype, data

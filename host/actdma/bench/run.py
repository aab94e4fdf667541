"""Ratio and speed of the codecs through a backend, on random data or on a dump."""

from __future__ import annotations

import dataclasses
import functools
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from ..api import codec_of
from ..backend import Backend, compress_bound
from ..codecs import takes
from ..frame import LOSSLESS, Codec, DType, Frame
from .dump import load
from .study import Published, Study
from .timing import aligned, aligned_ones, memcpy_seconds, timed

CODECS = tuple(codec.name.lower() for codec in LOSSLESS if codec != Codec.RAW)
DTYPES = ("float32", "bfloat16", "int8")
_OPERATIONS = ("compress", "decompress")
_FLOATS = {DType.float16: np.float16, DType.float32: np.float32, DType.float64: np.float64}


@dataclasses.dataclass(frozen=True)
class Data:
    """Tensors of one dtype; ``tensors``: their bytes (uint8, 1-D)."""

    name: str
    dtype: DType
    tensors: Sequence[np.ndarray]

    @property
    def nbytes(self) -> int:
        """Of all tensors."""
        return sum(tensor.size for tensor in self.tensors)


@dataclasses.dataclass(frozen=True)
class Row:
    """A codec on ``data``: raw bytes per stored byte, GB/s (1e9 raw bytes per second) and the same
    as a share of memcpy's, by operation. The share is None where time is modelled."""

    data: str
    dtype: str
    codec: str
    ratio: float
    gb_per_s: dict[str, float]
    of_memcpy: dict[str, float | None]


def random_data(dtype: DType, zeros: float, nbytes: int) -> Data:
    """About ``nbytes``: floating point is normally distributed, integers take all values alike, the
    fraction ``zeros`` of either is zero. ValueError for other dtypes, sizes and fractions."""
    if not 0 <= zeros <= 1:
        raise ValueError(f"zeros is {zeros}, allowed are fractions from 0 to 1")
    if nbytes < dtype.itemsize:
        raise ValueError(f"{nbytes} bytes hold no {dtype.name}")
    rng = np.random.default_rng(0)
    count = nbytes // dtype.itemsize
    if dtype in _FLOATS:
        values = rng.standard_normal(count, np.float32).astype(_FLOATS[dtype])
    elif dtype == DType.bfloat16:
        values = (rng.standard_normal(count, np.float32).view(np.uint32) >> 16).astype(np.uint16)
    elif "int" in dtype.name:
        limits = np.iinfo(dtype.name)
        values = rng.integers(limits.min, limits.max, count, dtype.name, endpoint=True)
    else:
        raise ValueError(f"no random data of {dtype.name}: take floating point or integers")
    values[rng.random(count, np.float32) < zeros] = 0
    return Data(f"random, {zeros:.0%} zeros", dtype, [aligned(values.view(np.uint8))])


def dumped(path: Path) -> list[Data]:
    """The tensors of a dump that are not empty, by dtype; see `load`."""
    found: dict[DType, list[np.ndarray]] = {}
    for _, dtype, data in load(path):
        if data.size:
            found.setdefault(dtype, []).append(aligned(data))
    return [Data(path.name, dtype, tensors) for dtype, tensors in found.items()]


def bench(
    backend: Backend, sets: Sequence[Data], codecs: Sequence[str], repeats: int, frame_bytes: int
) -> Iterator[Row]:
    """A row per codec that takes the dtype and that ``backend`` has, of every set of ``sets``.

    Medians over ``repeats`` passes, each followed by a memcpy of the same bytes; memory is warm.
    Where the backend models time, that of one pass. RuntimeError if other bits come back.
    """
    from tqdm import tqdm

    every = ((data, codec_of(name, data.dtype)) for data in sets for name in codecs)
    cases = [(data, codec) for data, codec in every if takes(codec, data.dtype)]
    for data, codec in tqdm(cases, backend.name, unit="row", file=sys.stderr, disable=None):
        yield _row(backend, data, codec, repeats, frame_bytes)


def published(backend: Backend, rows: Sequence[Row], what: str, repeats: int) -> Published:
    """The table of one backend's rows; ``what`` was compressed ``repeats`` times."""
    modelled = _models(backend)
    kind = "modelled" if modelled else "measured"
    threads = getattr(backend, "threads", 1)
    how = "one pass" if modelled else f"medians of {repeats}, threads: {threads}"
    title = f"Codecs, {'emulated board' if modelled else backend.name}"
    columns = ["data", "dtype", "codec", "ratio"]
    for operation in _OPERATIONS:
        columns += [f"{operation} GB/s"] + ([] if modelled else ["of memcpy"])
    cells = [
        [row.data, row.dtype, row.codec, f"{row.ratio:.2f}", *_rates(row, modelled)] for row in rows
    ]
    figures = [dataclasses.asdict(row) for row in rows]
    return Published(Study("bench", title, kind), columns, cells, figures, f"{kind}, {what}, {how}")


def _rates(row: Row, modelled: bool) -> Iterator[str]:
    for operation in _OPERATIONS:
        yield f"{row.gb_per_s[operation]:.2f}"
        if not modelled:
            yield f"{row.of_memcpy[operation]:.2f}x"


def _models(backend: Backend) -> bool:
    info = getattr(backend, "info", None)
    return bool(info and info()["modelled"])


def _row(backend: Backend, data: Data, codec: Codec, repeats: int, frame_bytes: int) -> Row:
    modelled = _models(backend)
    room = [compress_bound(raw.size, data.dtype, codec, frame_bytes) for raw in data.tensors]
    packed, back = (
        [aligned_ones(nbytes) for nbytes in sizes]
        for sizes in (room, [raw.size for raw in data.tensors])
    )
    frames: list[Frame] = []
    seconds: dict[str, list[float]] = {name: [] for name in (*_OPERATIONS, "memcpy")}

    def took(function: Callable[[], object]) -> float:
        measured = timed(function)
        return backend.modelled_time.seconds if modelled else measured

    def compress(raw: np.ndarray, into: np.ndarray) -> None:
        frames.append(backend.compress(raw, data.dtype, codec, frame_bytes, into))

    for _ in range(1 if modelled else repeats):
        frames.clear()
        pairs = list(zip(data.tensors, packed, strict=True))
        seconds["compress"].append(sum(took(functools.partial(compress, *pair)) for pair in pairs))
        pairs = list(zip(frames, back, strict=True))
        seconds["decompress"].append(
            sum(took(functools.partial(backend.decompress, *pair)) for pair in pairs)
        )
        if not all(map(np.array_equal, back, data.tensors)):
            raise RuntimeError(f"{codec.name.lower()} through {backend.name} gave other bits back")
        seconds["memcpy"].append(sum(map(memcpy_seconds, back, data.tensors)))
    nbytes = data.nbytes
    return Row(
        data.name,
        data.dtype.name,
        codec.name.lower(),
        nbytes / sum(frame.nbytes for frame in frames),
        {name: nbytes / statistics.median(seconds[name]) / 1e9 for name in _OPERATIONS},
        {name: None if modelled else _of_memcpy(seconds, name) for name in _OPERATIONS},
    )


def _of_memcpy(seconds: dict[str, list[float]], operation: str) -> float:
    pairs = zip(seconds["memcpy"], seconds[operation], strict=True)
    return statistics.median(copy / took for copy, took in pairs)

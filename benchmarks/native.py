"""Throughput of the CPU's codec, next to memcpy of the same data in the same run.

    python benchmarks/native.py [--mib 64] [--codec zve ...] [--json FILE] [--docs FILE]

Every figure is a median; every repeat of an operation is followed by one of memcpy, so that both
see the same machine. All buffers are warm: allocated and written before. One thread. Without CRC
only the blocks are coded (`_native.encode_blocks`), with CRC whole frames with both their CRCs.

Data: *random*, elements of random bits, a fraction of them zero. *normal*, 64 channels of 32 x 32
normally distributed numbers, each channel with its own scale (log-normal, sigma 0.7); *ReLU*, the
same with negative ones set to zero, or to 16 bits of precision. *pooling*, the int64 indices of a
2 x 2 max-pool of normal noise on maps of 56 x 56.

General-purpose compressors (zlib is Python's own; lz4 and zstandard where they are installed) are
given the same data in one piece; they make one copy more, into a new bytes object.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import statistics
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from common import memcpy_seconds, publish, random_data, timed

from actdma.codecs import parameters
from actdma.frame import Codec, Descriptor, DType, frame_bound
from actdma.native import _native

OPERATIONS = ("compress", "compress + CRC", "decompress", "decompress + CRC")
COLUMNS = ("codec", "data", "ISA", "ratio", *OPERATIONS, "memcpy")
CODECS = ("zvc", "rle", "zve", "ints")


@dataclasses.dataclass(frozen=True)
class Case:
    codec: Codec
    dtype: DType
    data: str
    make: Callable[[int], np.ndarray]  # from a number of bytes: about so many, uint8

    def __str__(self) -> str:
        return f"{self.dtype.name}, {self.data}"


def activations(nbytes: int, dtype: DType, relu: bool) -> np.ndarray:
    rng = np.random.default_rng(0)
    values = rng.standard_normal((nbytes // dtype.itemsize // (64 * 1024), 64, 1024), np.float32)
    values *= rng.lognormal(0, 0.7, (64, 1)).astype(np.float32)
    if relu:
        np.maximum(values, 0, out=values)
    if dtype == DType.bfloat16:
        return (values.view(np.uint32) >> 16).astype(np.uint16).reshape(-1).view(np.uint8)
    return values.astype(dtype.name).reshape(-1).view(np.uint8)


def pooling_indices(nbytes: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    windows = rng.random((nbytes // (8 * 28 * 28), 28, 28, 4), np.float32).argmax(-1)
    rows, columns = 2 * np.arange(28)[:, None], 2 * np.arange(28)
    indices = (rows + windows // 2) * 56 + columns + windows % 2
    return indices.astype(np.int64).reshape(-1).view(np.uint8)


def cases() -> Iterator[Case]:
    for dtype in (DType.int32, DType.int16, DType.int8):
        for zeros in (0.25, 0.5, 0.9):
            codecs = (Codec.ZVC, Codec.RLE) if zeros == 0.9 else (Codec.ZVC,)
            for codec in codecs:
                yield Case(
                    codec,
                    dtype,
                    f"random, {zeros:.0%} zeros",
                    lambda n, dtype=dtype, zeros=zeros: random_data(n, dtype.itemsize, zeros),
                )
    for dtype in (DType.float32, DType.bfloat16, DType.float16):
        for relu in (False, True):
            yield Case(
                Codec.ZVE,
                dtype,
                "ReLU" if relu else "normal",
                lambda n, dtype=dtype, relu=relu: activations(n, dtype, relu),
            )
    yield Case(Codec.INTS, DType.int64, "pooling", pooling_indices)


def compared(
    work: dict[str, Callable[[], object]], raw: np.ndarray, back: np.ndarray, repeats: int
) -> dict[str, dict[str, float]]:
    """Per operation raw GB/s, that of memcpy, and their ratio."""
    results = {}
    for name, function in work.items():
        pairs = [(timed(function), memcpy_seconds(back, raw)) for _ in range(repeats)]
        seconds, copy = (statistics.median(column) for column in zip(*pairs, strict=True))
        results[name] = {
            "gb_per_s": raw.size / seconds / 1e9,
            "memcpy_gb_per_s": raw.size / copy / 1e9,
            "ratio": statistics.median(copy / seconds for seconds, copy in pairs),
        }
    return results


def measure(case: Case, raw: np.ndarray, isa: str, repeats: int) -> tuple[float, dict]:
    """Compression ratio, and `compared`."""
    _native.set_isa(isa)
    back = np.ones_like(raw)
    blocks, packet = (
        np.ones(frame_bound(raw.size) + _native.ENCODE_SLACK, np.uint8) for _ in range(2)
    )
    words = parameters(case.codec, case.dtype)
    descriptor = Descriptor(
        codec=case.codec,
        element_bytes=case.dtype.element_bytes,
        raw_bytes=raw.size,
        dtype=case.dtype,
        parameters=words,
    ).pack()
    coded = (int(case.codec), case.dtype.element_bytes)
    parameter = {"parameter": words[0] if words else 0}
    length = _native.encode_blocks(raw, *coded, blocks, **parameter)
    payload = blocks[: length + _native.DECODE_SLACK]
    frame = packet[: _native.encode_frame(raw, descriptor, packet)[0]]
    work = (
        lambda: _native.encode_blocks(raw, *coded, blocks, **parameter),
        lambda: _native.encode_frame(raw, descriptor, packet),
        lambda: _native.decode_blocks(payload, *coded, back, True, **parameter),
        lambda: _native.decode_frame(frame, back, True),
    )
    results = compared(dict(zip(OPERATIONS, work, strict=True)), raw, back, repeats)
    back[:] = 1
    status = _native.decode_frame(frame, back)
    if status or not np.array_equal(back, raw):
        raise RuntimeError(f"{isa} does not give the data back (status {status})")
    return raw.size / frame.size, results


def rivals() -> Iterator[tuple[str, Callable, Callable]]:
    """(name, compress, decompress) of the general-purpose compressors that are installed."""
    yield "zlib 1", lambda raw: zlib.compress(raw, 1), zlib.decompress
    for package, name in (("lz4.frame", "lz4"), ("zstandard", "zstd 1")):
        try:
            module = importlib.import_module(package)
        except ImportError:
            continue
        if package == "zstandard":
            one, two = module.ZstdCompressor(level=1), module.ZstdDecompressor()
            yield name, one.compress, two.decompress
        else:
            yield name, module.compress, module.decompress


def measure_rival(
    compress: Callable, decompress: Callable, raw: np.ndarray, repeats: int
) -> tuple[float, dict]:
    packed = compress(raw)
    back = np.ones_like(raw)
    work = {"compress": lambda: compress(raw), "decompress": lambda: decompress(packed)}
    return raw.size / len(packed), compared(work, raw, back, repeats)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--mib", type=int, default=64, help="raw data, MiB")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--codec", nargs="+", default=CODECS, choices=CODECS)
    parser.add_argument("--isa", nargs="+", default=_native.isas(), choices=_native.isas())
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--docs", type=Path, help="write the table to this Markdown file")
    args = parser.parse_args()

    rows, figures = [], []

    def add(codec: str, case: Case, isa: str, ratio: float, results: dict) -> None:
        memcpy = statistics.median(r["memcpy_gb_per_s"] for r in results.values())
        cells = (results.get(operation) for operation in OPERATIONS)
        rates = (f"{r['gb_per_s']:.2g} ({r['ratio']:.2f}x)" if r else "" for r in cells)
        rows.append([codec, str(case), isa, f"{ratio:.2f}", *rates, f"{memcpy:.1f}"])
        figures.append(
            {"codec": codec, "data": str(case), "isa": isa, "ratio": ratio, "results": results}
        )

    for case in cases():
        codec = case.codec.name.lower()
        if codec not in args.codec:
            continue
        raw = case.make(args.mib << 20)
        for isa in args.isa:
            add(codec, case, isa, *measure(case, raw, isa, args.repeats))
        if case.codec in (Codec.ZVE, Codec.INTS):
            few = max(1, args.repeats // 5)  # they are slow
            for name, compress, decompress in rivals():
                add(name, case, "", *measure_rival(compress, decompress, raw, few))
    what = (
        f"GB/s of raw data (ratio to memcpy), measured, {args.mib} MiB, one thread, medians of "
        f"{args.repeats}"
    )
    publish("Native codec", COLUMNS, rows, figures, what, args)


if __name__ == "__main__":
    main()

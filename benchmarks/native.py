"""Throughput of the CPU's codec, next to memcpy of the same data in the same run.

    python benchmarks/native.py [--mib 64] [--codec zve ...] [--json FILE] [--docs FILE]

Every figure is a median; every repeat of an operation is followed by one of memcpy, so that both
see the same machine. All buffers are warm: allocated and written before. One thread. Without CRC
only the blocks are coded (`_native.encode_blocks`), with CRC whole frames with both their CRCs.

Data: *random*, elements of random bits, a fraction of them zero. *normal*, 64 channels of 32 x 32
normally distributed numbers, each channel with its own scale (log-normal, sigma 0.7); *ReLU*, the
same with negative ones set to zero. *pooling*, the int64 indices of a 2 x 2 max-pool of normal
noise on maps of 56 x 56. pool takes *normal* as maps, bsr as a matrix in blocks of which it keeps
half; these two have frames alone, and no code of an instruction set's own.
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
from common import Study, at_least_one, compared, publish, random_data

from actdma.bench.timing import aligned, aligned_ones
from actdma.codecs import parameters
from actdma.frame import Codec, Descriptor, DType, Norm, PoolKind
from actdma.native import _native

OPERATIONS = ("compress", "compress + CRC", "decompress", "decompress + CRC")
STUDY = Study("native", "Native codec", "measured")
COLUMNS = ("codec", "data", "ISA", "ratio", *OPERATIONS, "memcpy")
CODECS = ("zvc", "rle", "zve", "ints", "pool", "bsr")
LOSSY = (Codec.POOL, Codec.BSR)
MAP, BLOCK = 32, 8  # the sides of pool's maps, of bsr's blocks


@dataclasses.dataclass(frozen=True)
class Case:
    codec: Codec
    dtype: DType
    data: str
    make: Callable[[int], np.ndarray]  # from a number of bytes: about so many, uint8
    every_isa: bool = True  # or the fastest alone

    def __str__(self) -> str:
        return f"{self.dtype.name}, {self.data}"

    def parameters(self, raw: np.ndarray) -> tuple[int, ...]:
        """Of a frame that holds all of ``raw``."""
        if self.codec == Codec.POOL:
            return (2 | PoolKind.FP32 << 8, MAP, MAP, raw.size // (4 * MAP * MAP))
        if self.codec == Codec.BSR:
            norms = np.square(raw.view(np.float32).reshape(-1, BLOCK * BLOCK)).sum(1)
            return (BLOCK | Norm.L2 << 8, 512, int(np.median(norms).view(np.uint32)))
        return parameters(self.codec, self.dtype)


def activations(dtype: DType, relu: bool, nbytes: int) -> np.ndarray:
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
        yield Case(Codec.ZVC, dtype, "random, 50% zeros", partial(random_elements, dtype, 0.5))
    for codec in (Codec.ZVC, Codec.RLE):
        yield Case(
            codec,
            DType.int32,
            "random, 90% zeros",
            partial(random_elements, DType.int32, 0.9),
            every_isa=False,
        )
    for dtype in (DType.float32, DType.bfloat16):
        for relu in (False, True):
            name = "ReLU" if relu else "normal"
            yield Case(Codec.ZVE, dtype, name, partial(activations, dtype, relu))
    yield Case(Codec.INTS, DType.int64, "pooling", pooling_indices)
    normal = partial(activations, DType.float32, False)
    yield Case(Codec.POOL, DType.float32, "normal, 2 x 2", normal, every_isa=False)
    yield Case(Codec.BSR, DType.float32, "normal, 8 x 8", normal, every_isa=False)


def random_elements(dtype: DType, zeros: float, nbytes: int) -> np.ndarray:
    return random_data(nbytes, dtype.itemsize, zeros)


def measure(case: Case, raw: np.ndarray, isa: str, repeats: int) -> tuple[float, dict]:
    """Compression ratio, and `compared`."""
    _native.set_isa(isa)
    back, words = aligned_ones(raw.size), case.parameters(raw)
    descriptor = Descriptor(
        codec=case.codec,
        element_bytes=case.dtype.element_bytes,
        raw_bytes=raw.size,
        dtype=case.dtype,
        parameters=words,
    )
    packet = aligned_ones(descriptor.frame_bound + _native.ENCODE_SLACK)
    head = descriptor.pack()
    frame = packet[: _native.encode_frame(raw, head, packet)[0]]
    ratio = raw.size / frame.size
    work = {
        "compress + CRC": lambda: _native.encode_frame(raw, head, packet, True),
        "decompress + CRC": lambda: _native.decode_frame(frame, back, True),
    }
    if case.codec not in LOSSY:
        coded = (int(case.codec), case.dtype.element_bytes)
        parameter = {"past_caches": True, "parameter": words[0] if words else 0}
        blocks = aligned_ones(packet.size)
        length = _native.encode_blocks(raw, *coded, blocks, **parameter)
        payload = blocks[: length + _native.DECODE_SLACK]
        work["compress"] = lambda: _native.encode_blocks(raw, *coded, blocks, **parameter)
        work["decompress"] = lambda: _native.decode_blocks(payload, *coded, back, **parameter)
    results = compared(work, raw, back, repeats)
    back[:] = 1
    status = _native.decode_frame(frame, back)
    if status or not (case.codec in LOSSY or np.array_equal(back, raw)):
        raise RuntimeError(f"{isa} does not give the data back (status {status})")
    return ratio, results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--mib", type=at_least_one, default=64, help="raw data, MiB")
    parser.add_argument("--repeats", type=at_least_one, default=15)
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
        raw = aligned(case.make(args.mib << 20))
        for isa in args.isa if case.every_isa else args.isa[-1:]:
            add(codec, case, isa, *measure(case, raw, isa, args.repeats))
    what = (
        f"GB/s of raw data (ratio to memcpy), measured, {args.mib} MiB, one thread, medians of "
        f"{args.repeats}"
    )
    publish(STUDY, COLUMNS, rows, figures, what, args)


if __name__ == "__main__":
    main()

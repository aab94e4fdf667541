"""Throughput of the CPU's zvc codec, next to memcpy of the same data in the same run.

    python benchmarks/native_zvc.py [--mib 64] [--json FILE] [--docs docs/performance.md]

Every figure is a median; every repeat of an operation is followed by one of memcpy, so that both
see the same machine. All buffers are warm: allocated and written before. One thread. Without CRC
only the blocks are coded (`_native.encode_blocks`), with CRC whole frames with both their CRCs.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
from pathlib import Path

import numpy as np
from common import memcpy_seconds, publish, random_data, timed

from actdma.frame import Codec, Descriptor, frame_bound
from actdma.native import _native

OPERATIONS = ("compress", "compress + CRC", "decompress", "decompress + CRC")
COLUMNS = ("element", "zeros", "ISA", *OPERATIONS, "memcpy")


def measure(
    raw: np.ndarray, element_bytes: int, isa: str, repeats: int
) -> dict[str, dict[str, float]]:
    """Per operation raw GB/s, that of memcpy, and their ratio."""
    _native.set_isa(isa)
    back = np.ones_like(raw)
    blocks, packet = (
        np.ones(frame_bound(raw.size) + _native.ENCODE_SLACK, np.uint8) for _ in range(2)
    )
    descriptor = Descriptor(element_bytes=element_bytes, raw_bytes=raw.size).pack()
    zvc = (int(Codec.ZVC), element_bytes)
    payload = blocks[: _native.encode_blocks(raw, *zvc, blocks) + _native.DECODE_SLACK]
    frame = packet[: _native.encode_frame(raw, descriptor, packet)]
    work = (
        lambda: _native.encode_blocks(raw, *zvc, blocks),
        lambda: _native.encode_frame(raw, descriptor, packet),
        lambda: _native.decode_blocks(payload, *zvc, back, True),
        lambda: _native.decode_frame(frame, back, True),
    )
    results = {}
    for name, function in zip(OPERATIONS, work, strict=True):
        pairs = []
        for _ in range(repeats):
            seconds = timed(function)
            copy = memcpy_seconds(back, raw)
            pairs.append((seconds, copy))
        seconds, copy = (statistics.median(column) for column in zip(*pairs, strict=True))
        results[name] = {
            "gb_per_s": raw.size / seconds / 1e9,
            "memcpy_gb_per_s": raw.size / copy / 1e9,
            "ratio": statistics.median(copy / seconds for seconds, copy in pairs),
        }
    status = _native.decode_frame(frame, back)
    if status or not np.array_equal(back, raw):
        raise RuntimeError(f"{isa} does not give the data back (status {status})")
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--mib", type=int, default=64, help="raw data, MiB")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--zeros", type=float, nargs="+", default=[0.25, 0.5, 0.9])
    parser.add_argument("--element-bytes", type=int, nargs="+", default=[4, 2, 1])
    parser.add_argument("--isa", nargs="+", default=_native.isas(), choices=_native.isas())
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--docs", type=Path, help="write the table to this Markdown file")
    args = parser.parse_args()

    rows, figures = [], []
    for element_bytes, zeros in itertools.product(args.element_bytes, args.zeros):
        raw = random_data(args.mib << 20, element_bytes, zeros)
        for isa in args.isa:
            results = measure(raw, element_bytes, isa, args.repeats)
            memcpy = statistics.median(r["memcpy_gb_per_s"] for r in results.values())
            cells = (f"{r['gb_per_s']:.1f} ({r['ratio']:.2f}x)" for r in results.values())
            rows.append([f"{element_bytes} B", f"{zeros:.0%}", isa, *cells, f"{memcpy:.1f}"])
            figures.append(
                {"element_bytes": element_bytes, "zeros": zeros, "isa": isa, "results": results}
            )
    what = (
        f"GB/s of raw data (ratio to memcpy), measured, {args.mib} MiB, one thread, medians of "
        f"{args.repeats}"
    )
    publish("Native zvc", COLUMNS, rows, figures, what, args)


if __name__ == "__main__":
    main()

"""Throughput of the CPU's zvc codec on float32, next to memcpy of the same data in the same run.

    python benchmarks/native_zvc.py [--mib 64] [--json FILE] [--docs docs/performance.md]

Every figure is a median; every repeat of an operation is followed by one of memcpy, so that both
see the same machine. All buffers are warm: allocated and written before. One thread. Without CRC
only the blocks are coded (`_native.encode_blocks`), with CRC whole frames with both their CRCs.
"""

from __future__ import annotations

import argparse
import ctypes
import datetime
import json
import platform
import re
import shlex
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from actdma.frame import Codec, Descriptor, DType, frame_bound
from actdma.native import _native

OPERATIONS = ("compress", "compress + CRC", "decompress", "decompress + CRC")
SECTION = "## Native zvc"


def timed(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def measure(raw: np.ndarray, isa: str, repeats: int) -> dict[str, dict[str, float]]:
    """Per operation raw GB/s, that of memcpy, and their ratio."""
    _native.set_isa(isa)
    back = np.ones_like(raw)
    blocks, packet = (
        np.ones(frame_bound(raw.size) + _native.ENCODE_SLACK, np.uint8) for _ in range(2)
    )
    descriptor = Descriptor(raw_bytes=raw.size, dtype=DType.float32).pack()
    zvc = (int(Codec.ZVC), 4)
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
            copy = timed(lambda: ctypes.memmove(back.ctypes.data, raw.ctypes.data, raw.size))
            pairs.append((seconds, copy))
        seconds, copy = (statistics.median(column) for column in zip(*pairs, strict=True))
        results[name] = {
            "gb_per_s": raw.size / seconds / 1e9,
            "memcpy_gb_per_s": raw.size / copy / 1e9,
            "ratio": copy / seconds,
        }
    status = _native.decode_frame(frame, back)
    if status or not np.array_equal(back, raw):
        raise RuntimeError(f"{isa} does not give the data back (status {status})")
    return results


def random_data(nbytes: int, zeros: float) -> np.ndarray:
    """``nbytes`` of normal float32 values as uint8, the fraction ``zeros`` of them zero."""
    rng = np.random.default_rng(0)
    values = rng.standard_normal(nbytes // 4, np.float32)
    values[rng.random(values.size, np.float32) < zeros] = 0
    return values.view(np.uint8)


def processor() -> str:
    """The processor's name as the system gives it."""
    try:
        found = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    except OSError:
        found = None
    return found[1] if found else platform.processor() or platform.machine()


def cell(figures: dict[str, float]) -> str:
    return f"{figures['gb_per_s']:.1f} ({figures['ratio']:.2f}x)"


def update_section(path: Path, body: str) -> None:
    """Put ``body`` below the heading of this benchmark in ``path``, in place of what was there."""
    text = path.read_text() if path.exists() else "# Performance\n"
    before, _, after = text.partition(SECTION + "\n")
    following = re.search(r"^## ", after, re.MULTILINE)
    rest = after[following.start() :] if following else ""
    path.write_text(f"{before.rstrip()}\n\n{SECTION}\n\n{body}\n" + (f"\n{rest}" if rest else ""))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--mib", type=int, default=64, help="raw data, MiB")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--zeros", type=float, nargs="+", default=[0.0, 0.25, 0.5, 0.75, 0.95])
    parser.add_argument("--isa", nargs="+", default=_native.isas(), choices=_native.isas())
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--docs", type=Path, help="write the table to this Markdown file")
    args = parser.parse_args()

    caption = (
        f"measured on {processor()}, {datetime.date.today()}: GB/s of raw data (ratio to memcpy), "
        f"{args.mib} MiB float32, one thread, medians of {args.repeats}"
    )
    table = Table("ISA", "zeros", *OPERATIONS, "memcpy", title="Native zvc", caption=caption)
    records = []
    for zeros in args.zeros:
        raw = random_data(args.mib << 20, zeros)
        for isa in args.isa:
            results = measure(raw, isa, args.repeats)
            memcpy = statistics.median(r["memcpy_gb_per_s"] for r in results.values())
            row = [isa, f"{zeros:.0%}", *map(cell, results.values()), f"{memcpy:.1f}"]
            table.add_row(*row)
            records.append({"isa": isa, "zeros": zeros, "row": row, "results": results})
    Console().print(table)
    if args.json:
        figures = [{k: v for k, v in r.items() if k != "row"} for r in records]
        args.json.write_text(json.dumps({"caption": caption, "figures": figures}, indent=2) + "\n")
    if args.docs:
        head = ["ISA", "zeros", *OPERATIONS, "memcpy"]
        lines = [head, ["---"] * len(head), *(r["row"] for r in records)]
        rows = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        command = shlex.join(["python", *sys.argv])
        update_section(args.docs, f"{caption[0].upper()}{caption[1:]}.\n\n`{command}`\n\n{rows}")


if __name__ == "__main__":
    main()

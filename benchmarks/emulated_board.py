"""Speed of the emulated board, driver included, next to memcpy of the same data in the same run.

    python benchmarks/emulated_board.py [--mib 16] [--lanes 4] [--json FILE] [--docs FILE]

Two kinds of figures, in columns of their own: `measured` is how fast the emulation runs here on one
core (raw MB per second of processor time, with and without cycle timing), `modelled` is how fast
the fabric would be at the board's clock (beats per cycle, GB/s).
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import time
from pathlib import Path

import numpy as np
from common import Study, at_least_one, publish, random_data

import actdma
from actdma.bench.timing import memcpy_seconds
from actdma.board import Board
from actdma.frame import Codec, DType

STUDY = Study("emulated_board", "Emulated board", "measured")
COLUMNS = (
    "element",
    "zeros",
    "compress MB/s, measured",
    "decompress MB/s, measured",
    "timed compress MB/s, measured",
    "timed decompress MB/s, measured",
    "memcpy MB/s, measured",
    "compress beats/cycle, modelled",
    "decompress beats/cycle, modelled",
    "fabric GB/s in, modelled",
    "fabric GB/s out, modelled",
)
DTYPES = {4: DType.float32, 2: DType.bfloat16, 1: DType.uint8}


def measure(board: Board, raw: np.ndarray, dtype: DType, repeats: int) -> dict[str, float]:
    """MB/s of processor time and beats per cycle, each way; medians."""
    out = np.ones_like(raw)
    seconds, copies = [], []
    for _ in range(repeats):
        start = time.process_time()
        frame = board.compress(raw, dtype, Codec.ZVC)
        middle = time.process_time()
        cycles = board.decompress(frame, out)
        seconds.append((middle - start, time.process_time() - middle))
        copies.append(memcpy_seconds(out, raw))
    if not np.array_equal(out, raw):
        raise RuntimeError("the emulated board does not give the data back")
    there, back = (statistics.median(column) for column in zip(*seconds, strict=True))
    beats = raw.size / (4 * board.info()["lanes"])
    return {
        "compress_mb_per_s": raw.size / there / 1e6,
        "decompress_mb_per_s": raw.size / back / 1e6,
        "memcpy_mb_per_s": raw.size / statistics.median(copies) / 1e6,
        "compress_beats_per_cycle": beats / frame.cycles if frame.cycles else 0.0,
        "decompress_beats_per_cycle": beats / cycles if cycles else 0.0,
    }


def row(element: int, zeros: float, plain: dict, timed: dict, beat_gb: float) -> list[str]:
    """One line of the table; ``beat_gb``: GB/s at one beat per cycle."""
    there, back = timed["compress_beats_per_cycle"], timed["decompress_beats_per_cycle"]
    return [
        f"{element} B",
        f"{zeros:.0%}",
        *(
            f"{r[f'{way}_mb_per_s']:.0f}"
            for r in (plain, timed)
            for way in ("compress", "decompress")
        ),
        f"{plain['memcpy_mb_per_s']:.0f}",
        f"{there:.3f}",
        f"{back:.3f}",
        f"{there * beat_gb:.2f}",
        f"{back * beat_gb:.2f}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--mib", type=at_least_one, default=16, help="raw data, MiB")
    parser.add_argument("--lanes", type=int, default=4, choices=(2, 4, 8, 16))
    parser.add_argument("--repeats", type=at_least_one, default=5)
    parser.add_argument("--zeros", type=float, nargs="+", default=[0.0, 0.5, 0.9, 1.0])
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--docs", type=Path, help="write the table to this Markdown file")
    args = parser.parse_args()
    rows, figures = [], []
    options = {"kind": "emulated", "lanes": args.lanes}
    with (
        actdma.open_board(**options, timed=False) as plain,
        actdma.open_board(**options, timed=True) as timed,
    ):
        beat_gb = 4 * args.lanes * timed.info()["clock_mhz"] / 1e3
        for (element, dtype), zeros in itertools.product(DTYPES.items(), args.zeros):
            raw = random_data(args.mib << 20, element, zeros)
            results = [measure(board, raw, dtype, args.repeats) for board in (plain, timed)]
            rows.append(row(element, zeros, *results, beat_gb))
            figures.append(
                {
                    "element_bytes": element,
                    "zeros": zeros,
                    "untimed": results[0],
                    "timed": results[1],
                }
            )
    what = f"{args.mib} MiB, {args.lanes} lanes, one core, medians of {args.repeats}"
    publish(STUDY, COLUMNS, rows, figures, what, args)


if __name__ == "__main__":
    main()

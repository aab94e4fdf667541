"""Modelled time of long streams of frames through a board, driver included.

    python benchmarks/board_stream.py [--frames 64] [--lanes 4] [--json FILE] [--docs FILE]

The emulated board counts the fabric's cycles; what the processor does beside it is modelled with
the costs in docs/performance.md. Everything is `modelled`, and the same on every machine.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from common import Study, at_least_one, publish, random_data

import actdma
from actdma.board import Board
from actdma.frame import Codec, DType

STUDY = Study("board_stream", "Board with its driver", "modelled")
COLUMNS = (
    "frame",
    "way",
    "copy-in ms",
    "DMA and fabric ms",
    "copy-out ms",
    "stream ms",
    "slowest stage / stream",
    "GB/s fabric alone",
    "GB/s with driver",
)


def measure(board: Board, frame_bytes: int, frames: int) -> list[dict]:
    """What a stream of ``frames`` frames takes: one entry for each way."""
    raw = random_data(frames * frame_bytes, 4, 0.5)
    out = np.empty_like(raw)
    clock = 1e6 * board.info()["clock_mhz"]
    entries = []

    def add(way: str, cycles: int) -> None:
        seconds, stages = board.modelled_time
        entries.append(
            {
                "frame_bytes": frame_bytes,
                "way": way,
                "stages_s": list(stages),
                "stream_s": seconds,
                "slowest_over_stream": max(stages) / seconds,
                "fabric_gb_per_s": raw.size * clock / cycles / 1e9,
                "gb_per_s": raw.size / seconds / 1e9,
            }
        )

    frame = board.compress(raw, DType.float32, Codec.ZVC, frame_bytes)
    add("compress", frame.cycles)
    add("decompress", board.decompress(frame, out))
    if not np.array_equal(out, raw):
        raise RuntimeError("the emulated board does not give the data back")
    return entries


def row(entry: dict) -> list[str]:
    """One line of the table."""
    return [
        f"{entry['frame_bytes'] >> 10} KiB",
        entry["way"],
        *(f"{1e3 * seconds:.1f}" for seconds in (*entry["stages_s"], entry["stream_s"])),
        f"{entry['slowest_over_stream']:.3f}",
        f"{entry['fabric_gb_per_s']:.2f}",
        f"{entry['gb_per_s']:.2f}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--frames", type=at_least_one, default=64)
    parser.add_argument("--lanes", type=int, default=4, choices=(2, 4, 8, 16))
    parser.add_argument("--kib", type=at_least_one, nargs="+", default=[64, 256, 1024, 4096])
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--docs", type=Path, help="write the table to this Markdown file")
    args = parser.parse_args()
    with actdma.open_board("emulated", lanes=args.lanes) as board:
        figures = [e for kib in args.kib for e in measure(board, kib << 10, args.frames)]
        what = (
            f"modelled, {args.frames} frames of zvc, fp32, half zeros, {args.lanes} lanes at "
            f"{board.info()['clock_mhz']:.0f} MHz, one thread; break-even with the processor's own "
            f"codec at {board.break_even_bytes >> 10} KiB"
        )
    publish(STUDY, COLUMNS, [row(e) for e in figures], figures, what, args)


if __name__ == "__main__":
    main()

"""Random frames through the emulated board while it does everything wrong that a board can.

    python benchmarks/soak.py [--frames 20000] [--seed 0] [--threads 1] [--processes 1]

Each frame has a random codec, dtype, size and content. A result must be what the CPU's codec makes,
or an error, after which the same frame is tried again until it comes through. At the end no buffer,
thread or file may be left, and the memory in use must not have grown. An assertion fails otherwise.
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import contextlib
import dataclasses
import functools
import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from common import at_least_one
from rich.console import Console
from rich.table import Table
from tqdm import tqdm

import actdma
from actdma.arrays import to_bytes
from actdma.board import Board, BoardError, open_on
from actdma.codecs import Bsr, Coding, Pool, parameters
from actdma.emulation import Emulation, Fault
from actdma.emulation.faults import (
    BOARD_FAULTS,
    CACHE_FAULTS,
    CHANNELS,
    DMA_FAULTS,
    IDENTITY_FAULTS,
    STREAM_FAULTS,
)
from actdma.frame import LOSSLESS, Codec, DType, Frame
from actdma.native import NativeBackend

# How likely a fault is at each of its opportunities; of streams, transfers and the cache, this is
# the sum over the faults.
RATE = 0.03
RARE = {
    Fault.RESET_HANGS: 0.02,
    Fault.RELOADED: 3e-5,
    Fault.EXHAUSTED: 0.03,
    **dict.fromkeys(IDENTITY_FAULTS, 0.05),
}
FAULTS = [fault for fault in Fault if fault in BOARD_FAULTS]
LARGEST_FRAME = 1 << 20
TRIES = 50
MAX_GROWTH = 24 << 20
"""Bytes by which the resident memory may differ after the first tenth of the frames: what the
allocator keeps."""
# A lossy frame has no checksum of the raw data: nobody can tell that the compressor read other
# data than was sent, or the decompressor another frame with the same descriptor.
UNSEEN_WHERE_LOSSY = CACHE_FAULTS | {Fault.FLIPPED_PAYLOAD, Fault.FLIPPED_TRAILER, Fault.REPEATED}


def takes(codec: Codec, dtype: DType) -> bool:
    try:
        parameters(codec, dtype)
    except (TypeError, ValueError):
        return False
    return True


DTYPES = {codec: [dtype for dtype in DType if takes(codec, dtype)] for codec in LOSSLESS}


@dataclasses.dataclass
class Result:
    """What happened. ``frames``: frames that went both ways, ``bytes``: raw data in them,
    ``faults``: how often each happened, ``errors``: those of the driver, by type; ``rss``: resident
    bytes of the process after a tenth of the frames and at the end, the most of all processes."""

    frames: int = 0
    bytes: int = 0
    seconds: float = 0.0
    faults: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    errors: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    rss: tuple[int, int] = (0, 0)

    def add(self, other: Result) -> None:
        self.frames += other.frames
        self.bytes += other.bytes
        self.seconds = max(self.seconds, other.seconds)
        self.faults += other.faults
        self.errors += other.errors
        self.rss = max(self.rss, other.rss)


Tensor = tuple[np.ndarray, DType, "Codec | Coding", int]


def lossless_tensor(rng: np.random.Generator) -> Tensor:
    """Raw bytes, dtype, codec and frame size."""
    codec = sorted(LOSSLESS)[rng.integers(len(LOSSLESS))]
    dtype = DTYPES[codec][rng.integers(len(DTYPES[codec]))]
    largest = 4e6 if rng.random() < 0.002 else 3e5
    count = max(1, int(np.exp(rng.uniform(0, np.log(largest)))) // dtype.itemsize)
    words = -(-count * dtype.itemsize // 4)
    # From constant over smooth to noise, with zeros.
    data = rng.integers(0, 1 << int(rng.integers(1, 33)), words, np.uint64).astype(np.uint32)
    data[rng.random(words) < rng.random()] = 0
    frame_bytes = min(LARGEST_FRAME, 8192 << int(rng.integers(2, 9)))
    return data.view(np.uint8)[: count * dtype.itemsize], dtype, codec, frame_bytes


def lossy_tensor(rng: np.random.Generator) -> Tensor:
    """The same for pool or bsr."""
    shape = tuple(rng.integers(1, (20, 40, 40)))
    x = rng.standard_normal(shape).astype(rng.choice(["f2", "f4"]))
    codec = rng.choice([Pool(int(rng.choice([2, 4, 8]))), Bsr(int(rng.choice([4, 16])), "l1", 9.0)])
    data, layout = to_bytes(x)
    data, coding = codec.prepare(data, layout)
    return data, layout.dtype, coding, LARGEST_FRAME


class Soak:
    """A board that fails, shared by threads, opened anew where it must be."""

    def __init__(self, seed: int, lossy: bool) -> None:
        self.result = Result()
        self._tensor = lossy_tensor if lossy else lossless_tensor
        self._native = NativeBackend()
        self._lock = threading.Lock()
        self._emulation = actdma.emulation.install(
            timed=False, activate=False, memory_bytes=48 << 20
        )
        self._inject(seed, UNSEEN_WHERE_LOSSY if lossy else frozenset())
        # The memory that the system has not given yet is no leak when it does.
        self._emulation.memory.dram[:] = self._emulation.memory.cached[:] = 0
        self._board = self._open()

    def close(self) -> None:
        self._close(self._board)
        memory = self._emulation.memory
        assert memory.live == 0, f"{memory.live} buffers are left, {memory.used} bytes"
        self.result.faults.update(
            {fault.value: count for fault, count in self._emulation.faults.counts.items()}
        )
        self._emulation.close()

    def work(self, seed: tuple[int, ...], frames: int, progress: Callable[[int], Any]) -> None:
        """Send ``frames`` frames both ways, or a few more."""
        rng = np.random.default_rng(seed)
        done = 0
        while done < frames:
            data, frame = self._both_ways(*self._tensor(rng))
            with self._lock:
                self.result.frames += len(frame.offsets) - 1
                self.result.bytes += data.size
            done += len(frame.offsets) - 1
            progress(len(frame.offsets) - 1)

    def _both_ways(
        self, data: np.ndarray, dtype: DType, codec: Codec | Coding, frame_bytes: int
    ) -> tuple[np.ndarray, Frame]:
        expected = self._native.compress(data, dtype, codec, frame_bytes)
        back = np.empty_like(data)
        self._native.decompress(expected, back)
        frame = self._insist(lambda board: board.compress(data, dtype, codec, frame_bytes))
        assert bytes(frame) == bytes(expected), f"another frame: {frame}"

        def decompress(board: Board) -> np.ndarray:
            out = np.full_like(data, 0xA5)
            board.decompress(frame, out)
            return out

        assert np.array_equal(self._insist(decompress), back), f"other data: {frame}"
        return data, frame

    def _insist(self, work: Callable[[Board], Any]) -> Any:
        """What ``work`` returns, after as many errors as it takes; a board that fails twice in a
        row is opened anew."""
        for number in range(TRIES):
            board = self._board
            try:
                return work(board)
            except (BoardError, MemoryError) as error:
                with self._lock:
                    self.result.errors[type(error).__name__] += 1
                    if number and board is self._board:
                        self._close(board)
                        self._board = self._open()
        raise AssertionError(f"lost: {TRIES} tries failed")

    def _open(self) -> Board:
        for _ in range(TRIES):
            try:
                return open_on(self._emulation, frame_bytes=1 << 18)
            except (BoardError, MemoryError) as error:
                self.result.errors[type(error).__name__] += 1
        raise AssertionError(f"no board: {TRIES} tries failed")

    def _close(self, board: Board) -> None:
        with contextlib.suppress(BoardError):  # a reset may hang here, too
            board.close()

    def _inject(self, seed: int, left_out: frozenset[Fault]) -> None:
        share = RATE / len(STREAM_FAULTS | CACHE_FAULTS)
        cases = [(f, *place) for f in FAULTS for place in places(self._emulation, f)]
        for number, (fault, dma, channel) in enumerate(cases):
            if fault not in left_out:
                self._emulation.inject(
                    fault,
                    dma,
                    channel,
                    times=None,
                    probability=RARE.get(fault, share),
                    seed=len(cases) * seed + number,
                )


def places(emulation: Emulation, fault: Fault) -> Iterator[tuple[str | None, str | None]]:
    """Where a fault can happen: (DMA, channel)."""
    for dma in emulation.dmas if fault in DMA_FAULTS else (None,):
        for channel in CHANNELS if fault in STREAM_FAULTS else (None,):
            yield dma, channel


def soak(
    frames: int, seed: int = 0, threads: int = 1, progress: Callable[[int], Any] = lambda _: None
) -> Result:
    """Run in this process: an eighth of the frames lossy, then the others."""
    result = Result()
    before = open_things()
    for lossy, share in ((True, frames // 8), (False, frames - frames // 8)):
        run = Soak(seed, lossy)
        begun, start = run.result, time.perf_counter()
        counts = [share // 10, share - share // 10]
        rss = []
        with concurrent.futures.ThreadPoolExecutor(threads) as pool:
            for part, count in enumerate(counts):
                jobs = [
                    pool.submit(run.work, (seed, lossy, part, t), -(-count // threads), progress)
                    for t in range(threads)
                ]
                for job in jobs:
                    job.result()
                rss.append(resident())
        run.close()
        begun.seconds, begun.rss = time.perf_counter() - start, (rss[0], rss[1])
        assert rss[1] - rss[0] < MAX_GROWTH, f"resident memory grew from {rss[0]} to {rss[1]}"
        begun.seconds += result.seconds
        result.add(begun)
    after = open_things()
    assert after == before, f"threads and files before {before}, after {after}"
    return result


def open_things() -> tuple[int, int]:
    """Threads and open files of this process."""
    return threading.active_count(), len(os.listdir("/proc/self/fd"))


def resident() -> int:
    """Bytes of this process in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def soak_in_processes(frames: int, seed: int, threads: int, processes: int) -> Result:
    """Run ``processes`` at once, each with a board and a seed of its own."""
    total = Result()
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(processes, context) as pool:
        run = functools.partial(soak, frames // processes, threads=threads)
        for result in pool.map(run, range(seed, seed + processes)):
            total.add(result)
    return total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--frames", type=at_least_one, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--threads", type=at_least_one, default=1, help="threads that share a board"
    )
    parser.add_argument(
        "--processes", type=at_least_one, default=1, help="each with a board of its own"
    )
    args = parser.parse_args()
    if args.processes > 1:
        result = soak_in_processes(args.frames, args.seed, args.threads, args.processes)
    else:
        with tqdm(total=args.frames, unit="frame", smoothing=0) as bar:
            result = soak(args.frames, args.seed, args.threads, bar.update)
    table = Table("fault", "times", title="Faults that happened", title_justify="left")
    for name, count in result.faults.most_common():
        table.add_row(name, str(count))
    console = Console()
    console.print(table)
    begin, end = (f"{rss / 2**20:.0f} MiB" for rss in result.rss)
    console.print(
        f"{result.frames} frames, {result.bytes / 1e6:.0f} MB both ways in {result.seconds:.0f} s, "
        f"{result.faults.total()} faults, errors of the driver {dict(result.errors)}; "
        f"nothing lost, nothing left; resident memory {begin}, at the end {end} (all measured)"
    )


if __name__ == "__main__":
    main()

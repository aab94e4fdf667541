"""What the fabric would move: every codec, element type, stream width and board, all modelled.

    python benchmarks/fabric.py [--kib 4096] [--json FILE] [--docs FILE]

Beats per cycle are counted by the emulated engine's timed FIFOs; times width and clock they are the
fabric's GB/s on the raw side. The memory port and the AXI DMA carry at most width x clock x the
DMA's efficiency, 99 % MM2S and 75 % S2MM (AMD PG021, Performance: 99.76 % and 74.64 %), the raw
data on one channel and the frame on the other: the link's GB/s, again on the raw side. What is left
is the lower of the two. The driver, the DMA's set-up and contention for memory come on top.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from actdma.emulation._fabric import Engine
from common import Study, at_least_one, publish

from actdma.arrays import Layout
from actdma.codecs import Bsr, Pool, parameters, takes
from actdma.frame import (
    LOSSLESS,
    Codec,
    Descriptor,
    DType,
    Status,
    Trailer,
    answer_bytes,
    padded,
)
from actdma.overlay.design import load_boards
from actdma.simulate.hardware import MM2S, S2MM

DTYPES = (DType.float32, DType.bfloat16, DType.int64, DType.uint8)
LANES = (2, 4, 8, 16)
STUDY = Study("fabric", "Every codec on every board", "modelled")
COLUMNS = (
    "codec",
    "elements",
    "stream",
    "boards",
    "ratio",
    "compress beats/cycle, modelled",
    "fabric GB/s in, modelled",
    "link GB/s in, modelled",
    "GB/s in, modelled",
    "decompress beats/cycle, modelled",
    "fabric GB/s out, modelled",
    "link GB/s out, modelled",
    "GB/s out, modelled",
)


@dataclass(frozen=True)
class Case:
    """Raw data and how it is to be compressed."""

    elements: str
    descriptor: Descriptor
    raw: np.ndarray


@dataclass(frozen=True)
class Rate:
    """Beats of raw data per cycle each way; raw bytes per byte of the frame."""

    compress: float
    decompress: float
    ratio: float


def activations(dtype: DType, nbytes: int) -> np.ndarray:
    """What a ReLU leaves, half zeros, or small integers: uint8."""
    rng = np.random.default_rng(0)
    count = nbytes // dtype.element_bytes
    if dtype in (DType.float32, DType.bfloat16):
        values = np.maximum(rng.standard_normal(count, np.float32), 0).view(np.uint32)
        if dtype == DType.bfloat16:
            values = (values >> 16).astype(np.uint16)
    else:
        values = rng.integers(0, 100, count) * rng.integers(0, 2, count)
        values = values.astype(f"u{dtype.element_bytes}")
    return values.view(np.uint8)


def block_cases(codec: Codec, nbytes: int) -> Iterator[Case]:
    """A codec of the block engine: every element type that it takes."""
    for dtype in DTYPES:
        if takes(codec, dtype):
            words = parameters(codec, dtype)
            descriptor = Descriptor(
                codec, dtype.element_bytes, nbytes, dtype=dtype, parameters=words
            )
            yield Case(dtype.name, descriptor, activations(dtype, nbytes))


def pool_cases(codec: Codec, nbytes: int) -> Iterator[Case]:
    """2 x 2 means of maps as wide as those of a network's first and later layers."""
    for dtype, size in itertools.product((DType.float32, DType.bfloat16, DType.int8), (56, 14)):
        shape = (nbytes // (size * size * dtype.itemsize), size, size)
        whole = shape[0] * size * size * dtype.itemsize
        parameters = Pool(2).coding(dtype, shape).parameters
        descriptor = Descriptor(codec, dtype.itemsize, whole, dtype=dtype, parameters=parameters)
        yield Case(f"{dtype.name}, {size} x {size}", descriptor, activations(dtype, whole))


def bsr_cases(codec: Codec, nbytes: int) -> Iterator[Case]:
    """Half of a matrix' blocks kept by their L2 norms: the smallest blocks and the largest."""
    for dtype, block in itertools.product((DType.float32, DType.bfloat16), (4, 32)):
        shape = (nbytes // (2048 * dtype.itemsize), 2048)
        data = activations(dtype, nbytes)
        raw, coding = Bsr(block, density=0.5).prepare(data, Layout(dtype, shape))
        descriptor = Descriptor(
            codec, dtype.itemsize, raw.size, dtype=dtype, parameters=coding.parameters
        )
        yield Case(f"{dtype.name}, {block} x {block}", descriptor, raw)


# How a codec is tried: one with parameters of its own has an entry of its own.
CASES: dict[Codec, Callable[[Codec, int], Iterator[Case]]] = {
    **dict.fromkeys(LOSSLESS, block_cases),
    Codec.POOL: pool_cases,
    Codec.BSR: bsr_cases,
}


def exchange(engine: Engine, packet: np.ndarray, room: int) -> np.ndarray:
    """One packet through an engine."""
    out = np.zeros(room, np.uint8)
    engine.receive(out)
    engine.send(packet)
    engine.run()
    if engine.sending or engine.receiving or engine.overrun:
        raise RuntimeError(f"the engine stopped: {', '.join(engine.waiting)}")
    answer = out[: engine.received]
    if (status := Trailer.unpack(answer).status) != Status.GOOD:
        raise RuntimeError(f"the engine answers {Status(status).name}")
    return answer


def model(case: Case, lanes: int) -> Rate:
    """A case through both engines of a width."""
    request = np.zeros(64 + padded(case.raw.size), np.uint8)
    request[:64] = np.frombuffer(case.descriptor.pack(), np.uint8)
    request[64 : 64 + case.raw.size] = case.raw
    compressor, decompressor = Engine("compress", lanes), Engine("decompress", lanes)
    frame = exchange(compressor, request, case.descriptor.frame_bound)
    exchange(decompressor, frame, answer_bytes(case.raw.size))
    beats = case.raw.size / (4 * lanes)
    ratio = case.raw.size / frame.size
    return Rate(beats / compressor.cycles, beats / decompressor.cycles, ratio)


def places(codec: Codec) -> Iterator[tuple[int, int | None, str]]:
    """Lanes, clock in MHz and names of the boards that hold a codec; boards alike together. Widths
    that no board has come without a clock."""
    groups: dict[tuple[int, int], list[str]] = {}
    for name, board in load_boards().items():
        if codec.name.lower() in board["codecs"]:
            groups.setdefault((board["stream_bits"] // 32, board["clock_mhz"]), []).append(name)
    for (lanes, clock), names in groups.items():
        yield lanes, clock, ", ".join(names)
    for lanes in sorted(set(LANES) - {lanes for lanes, _ in groups}):
        yield lanes, None, "none"


def rates(rate: Rate, lanes: int, clock_mhz: int) -> dict[str, float]:
    """GB/s on the raw side: the fabric's, the link's and the lower of them, each way."""
    port = 4 * lanes * clock_mhz / 1e3
    figures = {
        "fabric_in": rate.compress * port,
        "link_in": min(MM2S * port, S2MM * port * rate.ratio),
        "fabric_out": rate.decompress * port,
        "link_out": min(MM2S * port * rate.ratio, S2MM * port),
    }
    for way in ("in", "out"):
        figures[way] = min(figures[f"fabric_{way}"], figures[f"link_{way}"])
    return figures


def row(codec: Codec, case: Case, lanes: int, clock: int | None, boards: str, rate: Rate) -> list:
    """One line of the table."""
    gbytes = rates(rate, lanes, clock) if clock else {}
    stream = f"{32 * lanes} bit" + (f", {clock} MHz" if clock else "")
    line = [codec.name.lower(), case.elements, stream, boards, f"{rate.ratio:.2f}"]
    for way, beats in (("in", rate.compress), ("out", rate.decompress)):
        names = (f"fabric_{way}", f"link_{way}", way)
        line += [f"{beats:.3f}", *(f"{gbytes[name]:.2f}" if clock else "" for name in names)]
    return line


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kib", type=at_least_one, default=4096, help="raw data, KiB")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--docs", type=Path, help="write the table to this Markdown file")
    args = parser.parse_args()
    rows, figures = [], []
    for codec in Codec:
        cases = CASES[codec](codec, args.kib << 10)
        for case, (lanes, clock, boards) in itertools.product(cases, places(codec)):
            rate = model(case, lanes)
            rows.append(row(codec, case, lanes, clock, boards, rate))
            figures.append(
                {
                    "codec": codec.name.lower(),
                    "elements": case.elements,
                    "lanes": lanes,
                    "clock_mhz": clock,
                    "boards": boards,
                    **vars(rate),
                    "gb_per_s": rates(rate, lanes, clock) if clock else None,
                }
            )
    what = f"all modelled, {args.kib} KiB of raw data per frame, half zeros"
    publish(STUDY, COLUMNS, rows, figures, what, args)


if __name__ == "__main__":
    main()

"""Fuzzer of what Python does with frames from outside: parsing them, and both decoders on the CPU.

Options as of the other fuzzers: -runs=N, -max_total_time=SECONDS, -seed=N, or files to run.
"""

from __future__ import annotations

import random
import struct
import sys
import time
from pathlib import Path

import numpy as np

import actdma
from actdma.codecs import Bsr, Pool, bsr, reference
from actdma.frame import (
    HEADER_BYTES,
    Codec,
    Descriptor,
    Frame,
    FrameError,
    Operation,
    Status,
    crc,
    padded,
)
from actdma.native import _native

MOST_RAW = 1 << 17  # bytes of data that the inputs' receiver expects
WORD = struct.Struct("<I")
WORDS = HEADER_BYTES // 4


class VerdictError(Exception):
    """What a fuzzer is looking for."""


def test_one_input(data: bytes) -> None:
    """Raises anything but `FrameError` where the parser or the decoders are wrong."""
    compare_decoders(data)
    try:
        frame = Frame.parse(data, MOST_RAW)
    except FrameError:
        return
    if frame.raw_nbytes > MOST_RAW or frame.offsets[-1] != len(data):
        raise VerdictError(f"parsed to {frame!r}")
    try:
        x = actdma.decompress(frame, max_bytes=MOST_RAW)
    except FrameError:
        return
    if x.nbytes != frame.raw_nbytes:
        raise VerdictError(f"{x.nbytes} bytes of {frame!r}")
    if frame.codec == Codec.BSR:
        compare_parts(frame, x)


def compare_decoders(packet: bytes) -> None:
    """The NumPy reference and the native decoder have the same verdict and data."""
    try:
        descriptor = Descriptor.unpack(packet)
    except FrameError:
        return
    if descriptor.operation != Operation.TRANSFER or descriptor.raw_bytes > MOST_RAW:
        return
    out = np.empty(descriptor.raw_bytes, np.uint8)
    native = _native.decode_frame(packet, out)
    try:
        raw = reference.decode_frame(np.frombuffer(packet, np.uint8))[1]
        status = Status.GOOD
    except FrameError as error:
        raw, status = out, error.status
    if status != native or (status == Status.GOOD and not np.array_equal(raw, out)):
        raise VerdictError(f"reference {status!r}, native {Status(native)!r}")


def compare_parts(frame: Frame, x: np.ndarray) -> None:
    """A bsr frame's blocks, by themselves, make the same matrix."""
    parts = bsr.parts(frame)
    block = parts.values.shape[1]
    dense = np.zeros((parts.size[0] // block, parts.size[1] // block, block, block), x.dtype)
    rows = np.repeat(np.arange(len(dense)), np.diff(parts.crow_indices))
    dense[rows, parts.col_indices] = parts.values
    if bsr.unstage(dense, parts.size).tobytes() != x.tobytes():
        raise VerdictError(f"parts of {frame!r} differ")
    bsr.Statistics.of(frame)


def good_frames(rng: np.random.Generator) -> list[bytes]:
    """Frames of every codec and element size; a few are several frames of one tensor."""
    frames = []
    for size in (0, 1, 40, 300, 2000, 9000):
        for density in (0.0, 0.5, 1.0):
            for dtype in ("u1", "i2", "f2", "f4", "i8", "c8"):
                x = rng.integers(-100, 100, size)
                x = (x * (rng.random(size) < density)).astype(dtype)
                codecs = ["zvc", "rle", "raw", "ints" if x.dtype.kind in "ui" else "zve"]
                if size:
                    codecs += lossy(x)
                for codec in codecs:
                    shaped = x if isinstance(codec, str) else x.reshape(-1, min(20, size))
                    frames.append(bytes(actdma.compress(shaped, codec, frame_bytes=8192)))
    return frames


def lossy(x: np.ndarray) -> list[Pool | Bsr]:
    """The lossy codecs that take the elements of ``x``."""
    pool = [Pool(k=2), Pool(k=8)] if x.dtype in ("f2", "f4") else []
    pruned = [Bsr(block=4, density=0.5), Bsr(block=16, threshold=1)] if pool else []
    return pool + pruned


class Mutator:
    """Good frames, damaged, with checksums that mostly fit again."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.seeds = good_frames(np.random.default_rng(seed))

    def next(self) -> bytes:
        """Another input."""
        return self.mutate(self.random.choice(self.seeds))

    def mutate(self, data: bytes) -> bytes:
        """``data`` damaged once or several times."""
        packet = bytearray(data)
        for _ in range(self.random.randint(1, 3)):
            self._damage(packet)
        if self.random.random() < 0.9:
            self._seal(packet)
        return bytes(packet)

    def _damage(self, packet: bytearray) -> None:
        rnd = self.random
        words = len(packet) // 4
        what = rnd.randrange(10)
        if what == 0 or words < 2 * WORDS:  # another length
            size = rnd.randrange(len(packet) + 200)
            size = size if rnd.random() < 0.3 else padded(size)
            packet[size:] = bytes(max(0, size - len(packet)))
        elif what == 1:  # a bit anywhere
            packet[rnd.randrange(len(packet))] ^= 1 << rnd.randrange(8)
        elif what == 2:  # a byte of the descriptor
            packet[rnd.randrange(HEADER_BYTES)] = rnd.choice((0, 1, 2, 5, 255, rnd.randrange(256)))
        elif what == 3:  # the beginning of another frame, or its end
            other = rnd.choice(self.seeds)
            cut = 4 * rnd.randrange(len(other) // 4 + 1)
            if rnd.random() < 0.5:
                packet[:cut] = other[:cut]
            else:
                packet[4 * rnd.randrange(words) :] = other[cut:]
        elif what == 4:  # words taken out, or put in
            at = 4 * rnd.randrange(WORDS, words + 1)
            if rnd.random() < 0.5:
                del packet[at : at + 4 * rnd.randrange(1, 20)]
            else:
                packet[at:at] = bytes([rnd.choice((0, 1, 255))]) * 4 * rnd.randrange(1, 20)
        elif what == 5:  # a word of descriptor or trailer
            at = rnd.randrange(2 * WORDS)
            self._change(packet, at if at < WORDS else words - 1 - at + WORDS)
        else:  # a word of the payload, often a mode word, a mask or a header
            most = words - 2 * WORDS + 1
            at = rnd.choice((0, rnd.randrange(min(most, 20)), rnd.randrange(most)))
            self._change(packet, WORDS + at)

    def _change(self, packet: bytearray, word: int) -> None:
        rnd = self.random
        (before,) = WORD.unpack_from(packet, 4 * word)
        changed = (
            rnd.choice((0, 1, 0xFFFFFFFF, 1 << 30, rnd.randrange(64), rnd.getrandbits(32))),
            before + rnd.choice((1, -1, 1 << 16, -1 << 16)),
            before ^ 1 << rnd.randrange(32),
        )
        WORD.pack_into(packet, 4 * word, rnd.choice(changed) & 0xFFFFFFFF)

    def _seal(self, packet: bytearray) -> None:
        """As if the packet was one frame."""
        if len(packet) < 2 * HEADER_BYTES:
            return
        rnd = self.random
        trailer = len(packet) - HEADER_BYTES
        WORD.pack_into(packet, HEADER_BYTES - 4, crc(packet[: HEADER_BYTES - 4]))
        if rnd.random() < 0.8:
            packet[trailer + 8 : trailer + 12] = packet[8:12]
            packet[trailer + 12 : trailer + 16] = packet[60:64]
            packet[trailer + 16 : trailer + 24] = packet[16:24]
        if rnd.random() < 0.9:
            WORD.pack_into(packet, len(packet) - 4, crc(packet[:-4]))


def fuzz(runs: float, seconds: float, seed: int) -> None:
    """Run that many inputs, or for so long, whichever ends first."""
    mutator, start, count, report = Mutator(seed), time.monotonic(), 0, 1
    while count < runs and time.monotonic() - start < seconds:
        data = mutator.next()
        try:
            test_one_input(data)
        except BaseException:
            Path("crash").write_bytes(data)
            print("input written to ./crash", file=sys.stderr)
            raise
        count += 1
        if count == 1024 * report:
            print(f"{count} inputs, {time.monotonic() - start:.0f} s", flush=True)
            report *= 2
    print(f"done: {count} inputs, {time.monotonic() - start:.0f} s")


def main(arguments: list[str]) -> None:
    """The command line."""
    options = dict(a[1:].split("=", 1) for a in arguments if a.startswith("-"))
    files = [a for a in arguments if not a.startswith("-")]
    unknown = options.keys() - {"runs", "max_total_time", "seed"}
    if unknown:
        sys.exit(f"unknown options {unknown}; there are -runs, -max_total_time, -seed")
    for file in files:
        test_one_input(Path(file).read_bytes())
    if not files:
        forever = float("inf")
        runs, seconds = options.get("runs", forever), options.get("max_total_time", forever)
        fuzz(float(runs), float(seconds), int(options.get("seed", 1)))


if __name__ == "__main__":
    main(sys.argv[1:])

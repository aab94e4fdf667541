"""The native codec built for 64-bit ARM, in an emulator, against the reference and this machine's.

An emulator shows that the instructions are right, not how fast they are.
"""

from __future__ import annotations

import dataclasses
import itertools
import shutil
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from actdma.arrays import to_bytes
from actdma.backend import descriptors
from actdma.codecs import Bsr, Pool, parameters, reference
from actdma.frame import Codec, Descriptor, Status, crc
from actdma.native import _native
from test_native import CASES, ROOT, compiled, sealed

COMPILER, EMULATOR = "aarch64-linux-gnu-g++", "qemu-aarch64"
OPTIONS = ("-O2", "-ffp-contract=off", "-static")
ENCODE, DECODE = 0, 1
SIZES = (0, 1, 63, 65, 8191, 8192, 12345)


@dataclasses.dataclass(frozen=True)
class Vector:
    """Something to do (see neon/driver.cpp), and what is to come out."""

    what: str
    kind: int
    raw_bytes: int
    given: bytes
    outcome: int  # elements with a bit set, or the status
    result: bytes

    def pack(self) -> bytes:
        return struct.pack("<3I", self.kind, self.raw_bytes, len(self.given)) + self.given


def special_bits(item: int, rng: np.random.Generator, count: int) -> np.ndarray:
    """Zeros of both signs, denormals, infinities, NaNs with payloads; of one byte the extremes."""
    bits = {
        1: [0, 0x80, 1, 0x7F, 0xFF],
        2: [0, 0x8000, 1, 0x8001, 0x3FF, 0x7F, 0x7C00, 0xFC01, 0x7F80, 0xFF81, 0x7E5A, 0x7FD5],
        4: [0, 1 << 31, 1, 0x807FFFFF, 0x7F800000, 0xFF800000, 0x7FC00001, 0x7F8ABCDE, 0xFFFFFFFF],
    }
    return rng.choice(np.array(bits[item], f"<u{item}"), count)


def patterns(item: int, count: int) -> Iterator[tuple[str, np.ndarray]]:
    """``count`` elements of ``item`` bytes each, of every kind that a codec tells apart."""
    rng = np.random.default_rng(count)
    dense = rng.integers(1, 1 << 8 * item, count, np.uint64).astype(f"<u{item}")
    half = np.where(rng.random(count) < 0.5, dense, 0).astype(dense.dtype)
    normal = rng.standard_normal(count).astype(np.float32)
    if item == 1:
        like_activations = (32 * normal).astype(np.int8).view(np.uint8)
    elif item == 2:
        like_activations = normal.astype(np.float16).view(np.uint16)
    else:
        like_activations = normal.view(np.uint32)
    yield "zeros", np.zeros_like(dense)
    yield "dense", dense
    yield "half", half
    yield "normal", like_activations
    yield "relu", np.where(normal > 0, like_activations, 0).astype(dense.dtype)
    yield "special", special_bits(item, rng, count)
    yield "narrow", dense[:1].repeat(count) + rng.integers(0, 5, count).astype(dense.dtype)
    yield "runs", np.where(np.arange(count) // 200 % 2, half, dense * 0)


def good(what: str, raw: np.ndarray, descriptor: Descriptor) -> tuple[Vector, Vector]:
    """There and back again, by the reference."""
    packet = reference.encode_frame(raw, descriptor)
    counted = descriptor.codec not in (Codec.RAW, Codec.POOL, Codec.BSR)
    item = min(descriptor.element_bytes, 4)
    elements = np.append(raw, np.zeros(-raw.size % item, np.uint8)).view(f"<u{item}")
    nonzero = np.count_nonzero(elements) if counted else 0
    back = reference.decode_frame(packet)[1].tobytes()
    return (
        Vector(what, ENCODE, raw.size, descriptor.pack() + raw.tobytes(), nonzero, bytes(packet)),
        Vector(what, DECODE, raw.size, bytes(packet), Status.GOOD, back),
    )


def lossless() -> Iterator[tuple[Vector, Vector]]:
    for (codec, dtype), size in itertools.product(CASES, SIZES):
        item = min(dtype.element_bytes, 4)
        for name, elements in patterns(item, -(-size // item)):
            raw = elements.view(np.uint8)[:size]
            descriptor = Descriptor(
                codec, dtype.element_bytes, size, dtype=dtype, parameters=parameters(codec, dtype)
            )
            yield good(f"{codec.name} {dtype.name} {name}, {size} bytes", raw, descriptor)


def lossy() -> Iterator[tuple[Vector, Vector]]:
    """Sums and products of floating point: means of pool, norms of bsr."""
    rng = np.random.default_rng(5)
    normal = rng.standard_normal((3, 21, 19)).astype(np.float32)
    special = special_bits(4, rng, normal.size).view(np.float32).reshape(normal.shape)
    codecs = [Pool(k) for k in (2, 4, 8)]
    codecs += [Bsr(block, norm, 2.5) for block in (4, 32) for norm in ("l1", "l2", "max")]
    for codec, (name, maps) in itertools.product(
        codecs, (("normal", normal), ("special", special))
    ):
        for values in (maps, maps.view(np.uint32).astype(np.uint16).view(np.float16)):
            data, layout = to_bytes(values)
            raw, coding = codec.prepare(data, layout)
            descriptor = next(descriptors(raw.size, layout.dtype, coding))
            yield good(f"{codec} {values.dtype} {name}", raw, descriptor)


def verdict(packet: bytes, raw_bytes: int) -> tuple[int, bytes]:
    """This machine's: status, and the data where it is good."""
    out = np.empty(raw_bytes, np.uint8)
    status = _native.decode_frame(packet, out)
    return status, out.tobytes() if status == Status.GOOD else b""


def hostile(frames: list[Vector], count: int) -> Iterator[Vector]:
    """Frames with bits flipped or words replaced, with their CRCs as they were, that of the
    frame or all of them made to fit; some cut off or extended."""
    rng = np.random.default_rng(6)
    frames = [frame for frame in frames if frame.raw_bytes]
    for number in range(count):
        frame = frames[rng.integers(len(frames))]
        packet = np.frombuffer(frame.given, np.uint8).copy()
        # Often the first words: of the descriptor, a mode word and a mask.
        end = packet.size if number % 2 else min(packet.size, 128)
        start = 64 if number % 3 else 0
        for at in rng.integers(start, end, rng.integers(1, 4)):
            packet[at] = packet[at] ^ 1 << rng.integers(8) if number % 5 else rng.integers(256)
        if number % 4 == 1:
            packet[-4:] = np.frombuffer(struct.pack("<I", crc(packet[:-4])), np.uint8)
        elif number % 4:
            packet = sealed(packet)
        if number % 11 == 0:
            packet = np.resize(packet, packet.size + 64 * rng.integers(-2, 2))
        given = packet.tobytes()
        what = f"damaged ({number}) {frame.what}"
        yield Vector(what, DECODE, frame.raw_bytes, given, *verdict(given, frame.raw_bytes))


def built(folder: Path) -> Path:
    """The driver of the codec for ARM."""
    program = folder / "driver"
    result = compiled(COMPILER, ROOT / "tests/neon/driver.cpp", program, *OPTIONS)
    assert result.returncode == 0, result.stderr
    assert not result.stderr
    return program


def results(program: Path, vectors: list[Vector], folder: Path) -> dict[str, list]:
    """Outcome and bytes of every vector, by instruction set."""
    given, answers = folder / "vectors", folder / "results"
    given.write_bytes(b"".join(vector.pack() for vector in vectors))
    command = [EMULATOR, program, given, answers]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr
    data, at, by_set = answers.read_bytes(), 0, {}
    for name in ran.stdout.split():
        by_set[name] = []
        for _ in vectors:
            outcome, length = struct.unpack_from("<2I", data, at)
            at += 8 + length
            by_set[name].append((outcome, data[at - length : at]))
    assert at == len(data)
    return by_set


@pytest.mark.skipif(
    not (shutil.which(COMPILER) and shutil.which(EMULATOR)), reason=f"needs {COMPILER}, {EMULATOR}"
)
def test_arm_computes_the_same(tmp_path: Path):
    pairs = list(lossless())
    damaged = list(hostile([frame for _, frame in pairs], 600))
    statuses = {vector.outcome for vector in damaged}
    assert {Status.GOOD, Status.FRAME_CRC, Status.RAW_CRC, Status.LENGTH} < statuses
    assert len(statuses) > 8, "the damage is not of many kinds"
    vectors = [*itertools.chain(*pairs, *lossy()), *damaged]
    by_set = results(built(tmp_path), vectors, tmp_path)
    assert list(by_set) == ["portable", "neon"]
    for name, answers in by_set.items():
        for vector, answer in zip(vectors, answers, strict=True):
            assert answer == (vector.outcome, vector.result), f"{name}: {vector.what}"

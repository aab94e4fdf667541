"""Average pooling: reference, CPU and fabric against each other and a plain writing of the format;
hostile frames; cycles per row."""

from __future__ import annotations

import dataclasses
import math
import re
import subprocess
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import torch
from actdma.emulation._fabric import Engine
from hypothesis import given, settings
from hypothesis import strategies as st

import actdma
from actdma.backend import descriptors
from actdma.board import open_on
from actdma.codecs import Coding, Pool, reference
from actdma.frame import (
    FRAME_BYTES,
    LOSSLESS,
    MAX_RAW_BYTES,
    POOL_ROW_BYTES,
    Codec,
    Descriptor,
    DType,
    Frame,
    FrameError,
    PoolShape,
    Status,
    Trailer,
    answer_bytes,
    crc,
    frame_bound,
)
from actdma.native import _native
from actdma.overlay.design import load_design
from test_hls import LANES, exchange, request, reseal, tampered

ROOT = Path(__file__).parents[1]
KINDS = (DType.float32, DType.bfloat16, DType.float16, DType.int8)
KS = (2, 4, 8)
ENGINES = {lanes: (Engine("compress", lanes), Engine("decompress", lanes)) for lanes in LANES}


def describe(dtype, k, shape):
    """The descriptor of one frame with all maps of ``shape``."""
    size = math.prod(shape) * dtype.itemsize
    coding = Pool(k).coding(dtype, shape)
    (descriptor,) = descriptors(size, dtype, coding, -(-max(size, 1) // 8192) * 8192)
    return descriptor


def random_maps(rng, dtype, shape):
    """Bytes of ``shape``: any bits, or numbers of like size with some zeros and specials."""
    count = math.prod(shape)
    if rng.random() < 0.4:
        return rng.integers(0, 256, count * dtype.itemsize).astype(np.uint8)
    if dtype == DType.int8:
        return rng.choice([-128, -127, -1, 0, 1, 3, 127], count).astype(np.int8).view(np.uint8)
    x = rng.normal(size=count) * 10.0 ** rng.integers(-6, 6)
    with np.errstate(over="ignore"):
        bits = x.astype(np.float16 if dtype == DType.float16 else np.float32)
    if dtype == DType.bfloat16:
        bits = (bits.view(np.uint32) >> 16).astype(np.uint16)
    special = special_bits(dtype)
    bits = bits.view(special.dtype)
    some = rng.random(count) < 0.2
    bits[some] = rng.choice(special, np.count_nonzero(some))
    return bits.view(np.uint8)


def special_bits(dtype):
    """NaN of several kinds, infinities, the largest and the smallest numbers, both zeros."""
    if dtype == DType.int8:
        return np.array([-128, -127, -1, 0, 1, 127], np.int8)
    exponent, mantissa = {DType.float32: (8, 23), DType.bfloat16: (8, 7), DType.float16: (5, 10)}[
        dtype
    ]
    infinity = ((1 << exponent) - 1) << mantissa
    positive = [0, 1, 2, (1 << mantissa) - 1, 1 << mantissa, infinity - 1, infinity, infinity + 1]
    positive += [infinity | 1 << (mantissa - 1), (1 << (exponent + mantissa)) - 1]
    both = positive + [bits | 1 << (exponent + mantissa) for bits in positive]
    return np.array(both, f"u{dtype.itemsize}")


def check_everywhere(raw, descriptor, lanes):
    """Reference, CPU and fabric make the same frame and the same data of it; returns the data."""
    frame = reference.encode_frame(raw, descriptor)
    assert frame.size <= frame_bound(raw.size)
    out = np.empty(frame_bound(raw.size) + _native.ENCODE_SLACK, np.uint8)
    length = _native.encode_frame(raw, descriptor.pack(), out)
    assert out[:length].tobytes() == frame.tobytes()
    compressor, decompressor = ENGINES[lanes]
    answer = exchange(compressor, request(descriptor, raw), frame_bound(raw.size))
    assert answer.tobytes() == frame.tobytes()
    data = reference.decode_frame(frame)[1]
    back = np.empty(raw.size, np.uint8)
    assert _native.decode_frame(frame, back) == Status.GOOD
    assert back.tobytes() == data.tobytes()
    answer = exchange(decompressor, frame, answer_bytes(raw.size))
    assert answer.size == answer_bytes(raw.size)
    assert answer[: raw.size].tobytes() == data.tobytes()
    trailer = Trailer.unpack(answer)
    assert (trailer.status, trailer.raw_crc) == (Status.GOOD, crc(answer[:-64]))
    return data


def plain_mean(window, dtype):
    """docs/format.md read aloud for one window: rows of lists, as bits."""
    rows = [[widen(bits, dtype) for bits in row] for row in window]
    k, count = len(window[0]), sum(len([v for v in row if v is not None]) for row in rows)
    total = None
    for row in rows:
        values = row
        while len(values) > 1:
            values = [plus(values[i], values[i + 1]) for i in range(0, len(values), 2)]
        total = plus(total, values[0])
    assert k in KS
    if dtype == DType.int8:
        return int(math.copysign(math.floor(abs(total) / count + 0.5), total))
    return narrow(total * np.float32(1 / count), dtype)


def plus(a, b):
    """The sum, where None is what is not there."""
    return b if a is None else a if b is None else a + b


def widen(bits, dtype):
    if bits is None or dtype == DType.int8:
        return None if bits is None else int(bits)
    if dtype == DType.float16:
        return np.float32(np.uint16(bits).view(np.float16))
    return np.uint32(int(bits) << (16 if dtype == DType.bfloat16 else 0)).view(np.float32)


def narrow(value, dtype):
    if dtype == DType.bfloat16:
        # PyTorch's own rounding, as a second opinion.
        bits = torch.tensor(float(value)).to(torch.bfloat16).view(torch.int16).item() & 0xFFFF
        return 0x7FC0 if math.isnan(value) else bits
    if dtype == DType.float16:
        return 0x7E00 if math.isnan(value) else int(np.float16(value).view(np.uint16))
    return 0x7FC00000 if math.isnan(value) else int(np.float32(value).view(np.uint32))


@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value")
@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("k", KS)
def test_means_are_those_of_the_format(dtype, k):
    rng = np.random.default_rng(k)
    stored = np.int8 if dtype == DType.int8 else f"u{dtype.itemsize}"
    for shape in ((1, 1, 1), (2, 3, 5), (1, 8, 8), (3, 9, 17), (1, 23, 3)):
        raw = random_maps(rng, dtype, shape)
        frame = reference.encode_frame(raw, describe(dtype, k, shape))
        payload = Trailer.unpack(frame).payload_bytes
        found = frame[64 : 64 + payload].view(stored)
        maps = raw.view(stored).reshape(shape)
        expected = []
        for one in maps:
            for y in range(0, shape[1], k):
                for x in range(0, shape[2], k):
                    rows = [list(row[x : x + k]) for row in one[y : y + k]]
                    expected.append(plain_mean([r + [None] * (k - len(r)) for r in rows], dtype))
        assert found[: len(expected)].tolist() == expected
        assert not found[len(expected) :].any()


@settings(max_examples=300, deadline=None)
@given(
    dtype=st.sampled_from(KINDS),
    k=st.sampled_from(KS),
    lanes=st.sampled_from(LANES),
    shape=st.tuples(st.integers(0, 4), st.integers(1, 20), st.integers(1, 90)),
    seed=st.integers(0, 1 << 20),
)
def test_reference_cpu_and_fabric_agree(dtype, k, lanes, shape, seed):
    raw = random_maps(np.random.default_rng(seed), dtype, shape)
    data = check_everywhere(raw, describe(dtype, k, shape), lanes)
    # Every element of a window is its mean.
    stored = data.view(f"u{dtype.itemsize}").reshape(shape)
    assert (
        stored == stored[:, ::k, ::k].repeat(k, 1).repeat(k, 2)[:, : shape[1], : shape[2]]
    ).all()


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("k", KS)
def test_widths_around_every_border(lanes, dtype, k):
    rng = np.random.default_rng(lanes)
    for width in (1, k - 1, k, k + 1, 15, 16, 17, 31, 33, 64, 65, 129, 257):
        for shape in ((1, 1, width), (2, k + 1, width)):
            check_everywhere(random_maps(rng, dtype, shape), describe(dtype, k, shape), lanes)


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("dtype", KINDS)
def test_longest_rows(lanes, dtype):
    width = POOL_ROW_BYTES // dtype.itemsize
    rng = np.random.default_rng(0)
    for k in KS:
        for shape in ((1, k + 1, width), (1, 3, width - 1)):
            check_everywhere(random_maps(rng, dtype, shape), describe(dtype, k, shape), lanes)


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("k", KS)
def test_special_values(dtype, k):
    """Every pair of specials beside each other, and above each other."""
    special = special_bits(dtype)
    pairs = np.array(np.meshgrid(special, special)).reshape(2, -1)
    for maps in (pairs.T.reshape(1, 1, -1), np.repeat(pairs, k, 1).reshape(1, 2, -1)):
        raw = np.ascontiguousarray(maps).view(np.uint8).reshape(-1)
        check_everywhere(raw, describe(dtype, k, maps.shape), 4)


def test_zeros_keep_their_sign_and_constants_their_value():
    for value in (-0.0, 1.0, 2.0**-149, -3.0):
        x = np.full((2, 6, 10), value, np.float32)
        assert actdma.decompress(actdma.compress(x, Pool(2))).tobytes() == x.tobytes()
    x = np.full((1, 3, 3), -7, np.int8)
    assert (actdma.decompress(actdma.compress(x, Pool(8))) == x).all()


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("k", KS)
def test_what_lies_beyond_the_edge_leaves_minus_zero_alone(lanes, k):
    for dtype in (DType.float32, DType.bfloat16, DType.float16):
        for shape in ((2, 1, 1), (1, k + 1, k + 1), (1, 2 * k - 1, 3 * k - 1)):
            bits = np.full(shape, 1 << (8 * dtype.itemsize - 1), f"u{dtype.itemsize}")
            raw = bits.view(np.uint8).reshape(-1)
            assert (check_everywhere(raw, describe(dtype, k, shape), lanes) == raw).all()


def test_flushed_denormals_and_other_roundings_of_the_caller_change_nothing():
    raw = random_maps(np.random.default_rng(0), DType.float32, (2, 16, 16))
    raw.view(np.uint32)[:] &= 0x80FFFFFF  # mostly denormals
    descriptor = describe(DType.float32, 2, (2, 16, 16))
    expected = reference.encode_frame(raw, descriptor)
    out = np.empty(frame_bound(raw.size) + _native.ENCODE_SLACK, np.uint8)
    flushes = torch.set_flush_denormal(True)
    try:
        length = _native.encode_frame(raw, descriptor.pack(), out)
        again = reference.encode_frame(raw, descriptor)
        assert (torch.tensor(1e-40) * 1).item() == 0  # as before
    finally:
        torch.set_flush_denormal(False)
    assert flushes
    assert again.tobytes() == expected.tobytes()
    assert out[:length].tobytes() == expected.tobytes()


@pytest.mark.parametrize("lanes", LANES)
def test_frames_of_other_codecs_before_and_after(lanes):
    rng = np.random.default_rng(lanes)
    compressor, decompressor = ENGINES[lanes]
    for number in range(30):
        shape = (int(rng.integers(1, 4)), int(rng.integers(1, 12)), int(rng.integers(1, 200)))
        raw = random_maps(rng, DType.float32, shape)
        check_everywhere(raw, describe(DType.float32, int(rng.choice(KS)), shape), lanes)
        plain = Descriptor(Codec.ZVC, 4, raw.size, sequence=number, dtype=DType.float32)
        frame = exchange(compressor, request(plain, raw), frame_bound(raw.size))
        assert frame.tobytes() == reference.encode_frame(raw, plain).tobytes()
        answer = exchange(decompressor, frame, answer_bytes(raw.size))
        assert answer[: raw.size].tobytes() == raw.tobytes()


def verdicts(packet, raw_bytes, lanes):
    """Status of a frame by reference, CPU and fabric."""
    try:
        reference.decode_frame(packet)
        first = Status.GOOD
    except FrameError as error:
        first = error.status
    second = _native.decode_frame(packet, np.empty(raw_bytes, np.uint8))
    answer = exchange(ENGINES[lanes][1], packet, 1 << 17)
    trailer = Trailer.unpack(answer)
    assert trailer.frame_crc == crc(answer[:-4])
    return first, Status(second), Status(trailer.status)


@pytest.mark.parametrize("lanes", LANES)
def test_hostile_frames_get_the_same_verdict(lanes):
    rng = np.random.default_rng(lanes)
    seen = set()
    for number in range(1500):
        dtype, k = KINDS[number % 4], int(rng.choice(KS))
        shape = (int(rng.integers(1, 4)), int(rng.integers(1, 12)), int(rng.integers(1, 200)))
        raw = random_maps(rng, dtype, shape)
        packet = reference.encode_frame(raw, describe(dtype, k, shape))
        packet = tampered(rng, packet)
        told = int(packet[16:24].view("<u8")[0])
        first, second, third = verdicts(packet, raw.size, lanes)
        assert third == first
        if told == raw.size:
            assert second == first
        seen.add(first)
    assert len(seen) > 7


INTERESTING = (0, 1, 2, 3, 4, 7, 8, 9, 16, 255, 4096, 16384, 16385, 1 << 16, 1 << 30, (1 << 32) - 1)


@pytest.mark.parametrize("kind", ["compress", "decompress"])
def test_hostile_parameters_get_the_same_verdict(kind):
    rng = np.random.default_rng(1)
    shape = (2, 4, 8)
    raw = random_maps(rng, DType.float32, shape)
    packets = {"compress": request, "decompress": lambda d, r: reference.encode_frame(r, d).copy()}
    seen = set()
    for _ in range(3000):
        packet = packets[kind](describe(DType.float32, 2, shape), raw)
        words = packet.view("<u4")
        for _ in range(rng.integers(1, 4)):
            word = int(rng.choice([1, 4, 6, 7, 8, 9, 10, 13]))
            words[word] = rng.choice([words[word] ^ (1 << rng.integers(0, 32)), *INTERESTING])
        words[1] = words[1] & 0xFF00FFFF | Codec.POOL << 16
        reseal(packet)
        try:
            Descriptor.unpack(packet)
            expected = Status.GOOD
        except FrameError as error:
            expected = error.status
        engine = ENGINES[int(rng.choice(LANES))][kind == "decompress"]
        trailer = Trailer.unpack(exchange(engine, packet, 1 << 16))
        if expected != Status.GOOD:
            assert trailer.status == expected
            assert _native.decode_frame(packet, np.empty(raw.size, np.uint8)) == expected
        seen.add(expected)
    assert {Status.ELEMENT, Status.RESERVED, Status.RAW_BYTES} <= seen


@pytest.mark.parametrize("lanes", LANES)
def test_extents_are_multiplied_without_overflow(lanes):
    """Products that wrap around 2^32 and 2^64 to the announced length."""
    for height, width, maps, raw in (
        (1 << 16, 1, 1 << 16, 0),
        (1 << 30, 4, 1 << 30, 64),
        ((1 << 32) - 1, 1, (1 << 32) - 1, 4),
        (1 << 30, 1, 0, 0),
        (1 << 28, 1, 0, 0),
    ):
        parameters = PoolShape(2, 0, height, width, maps).parameters
        packet = np.zeros(64, np.uint8)
        descriptor = Descriptor(Codec.POOL, 4, raw, parameters=parameters)
        packet[:] = np.frombuffer(descriptor.pack(), np.uint8)
        good = height == 1 << 28  # 2^30 bytes in a map, and no map
        expected = Status.GOOD if good else Status.RAW_BYTES
        trailer = Trailer.unpack(exchange(ENGINES[lanes][0], packet, 1 << 12))
        assert trailer.status == expected
        if good:
            Descriptor.unpack(packet)
        else:
            with pytest.raises(FrameError) as error:
                Descriptor.unpack(packet)
            assert error.value.status == expected


@pytest.mark.parametrize("lanes", LANES)
def test_requests_of_a_wrong_length(lanes):
    shape = (3, 7, 33)
    raw = random_maps(np.random.default_rng(0), DType.float32, shape)
    descriptor = describe(DType.float32, 4, shape)
    whole = request(descriptor, raw)
    long = np.concatenate([whole, np.zeros(128, np.uint8)])
    for packet in (whole[:64], whole[:128], whole[:1024], whole[:-64], long):
        answer = exchange(ENGINES[lanes][0], packet, 1 << 14)
        assert Trailer.unpack(answer).status == Status.LENGTH
        check_everywhere(raw, descriptor, lanes)


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("k", KS)
@pytest.mark.parametrize("row_bytes", [12, 64, 100, 128, 132, 224, 1024])
def test_cycles_per_row(lanes, dtype, k, row_bytes):
    """ceil(row bytes / 16), at least 8 per row; where the port has 64 bits, 8 bytes a cycle.

    The frame's constant: descriptor, extents, pipeline and trailer.
    """
    window = min(16, 4 * lanes)
    shape = (40, 24, row_bytes // dtype.itemsize)
    raw = np.zeros(math.prod(shape) * dtype.itemsize, np.uint8)
    descriptor = describe(dtype, k, shape)
    compressor, decompressor = ENGINES[lanes]
    frame = exchange(compressor, request(descriptor, raw), frame_bound(raw.size))
    exchange(decompressor, frame, answer_bytes(raw.size))
    stated = shape[0] * shape[1] * max(8, -(-row_bytes // window))
    for cycles in (compressor.cycles, decompressor.cycles):
        assert cycles >= stated
        assert cycles <= stated + 200


# The public functions.


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.int8])
def test_tensors_come_back_pooled(backend, dtype):
    x = (torch.randn(2, 3, 9, 14, generator=torch.Generator().manual_seed(0)) * 20).to(dtype)
    frame = actdma.compress(x.transpose(0, 1), Pool(4), backend)
    y = actdma.decompress(frame, backend)
    assert (y.dtype, y.shape, frame.codec) == (dtype, (3, 2, 9, 14), Codec.POOL)
    mean = torch.nn.functional.avg_pool2d(x.transpose(0, 1).float(), 4, ceil_mode=True)
    up = mean.repeat_interleave(4, 2).repeat_interleave(4, 3)[:, :, :9, :14]
    step = {torch.int8: 0.51, torch.bfloat16: 0.1, torch.float16: 0.02}.get(dtype, 1e-5)
    torch.testing.assert_close(y.float(), up, rtol=0, atol=step)
    flat = actdma.decompress(bytes(frame), backend)
    assert flat.tobytes() == y.contiguous().view(torch.uint8).numpy().tobytes()


@pytest.mark.parametrize(
    "shape", [(5, 7), (3, 1, 1), (2, 2, 2, 3, 4), (0, 3, 4), (2, 0, 4), (2, 4, 0)]
)
def test_every_shape_with_two_dimensions_and_more(backend, shape):
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    frame = actdma.compress(x, "pool", backend)
    assert bytes(frame) == bytes(actdma.compress(x, Pool(2), "reference"))
    y = actdma.decompress(frame, backend)
    assert (y.shape, y.dtype) == (shape, np.float32)


def test_a_frame_holds_whole_maps(backend):
    x = np.random.default_rng(0).normal(size=(23, 30, 17)).astype(np.float32)
    frame = actdma.compress(x, Pool(2), backend, frame_bytes=8192)
    assert bytes(frame) == bytes(actdma.compress(x, Pool(2), "reference", frame_bytes=8192))
    maps = [PoolShape.of(Descriptor.unpack(p).parameters).maps for p in frame.packets()]
    assert maps == [4] * 5 + [3]
    whole = actdma.compress(x, Pool(2), backend)
    a, b = actdma.decompress(frame, backend), actdma.decompress(whole, backend)
    assert a.tobytes() == b.tobytes()
    large = actdma.compress(x[:2].repeat(9, 1), Pool(2), backend, frame_bytes=8192)
    assert [Descriptor.unpack(p).raw_bytes for p in large.packets()] == [9 * 2040, 9 * 2040]
    assert Frame.parse(bytes(large)).offsets == large.offsets


def test_frames_of_other_maps_do_not_pass_as_the_tensors():
    x = np.zeros((2, 64, 32), np.float32)
    packets = [
        bytes(next(actdma.compress(y, Pool(k), "reference", frame_bytes=8192).packets()))
        for y, k in ((x, 2), (x.reshape(2, 32, 64), 2), (x, 4))
    ]
    whole = actdma.compress(x, Pool(2), "reference", frame_bytes=8192)
    second = bytes(list(whole.packets())[1])
    assert actdma.decompress(packets[0] + second).size == x.size
    for other in packets[1:]:
        with pytest.raises(FrameError, match="different tensors"):
            actdma.decompress(other + second)


@pytest.mark.parametrize("dtype", KINDS)
def test_a_dtype_that_is_not_the_kinds_is_refused(dtype):
    raw = np.zeros(8 * dtype.itemsize, np.uint8)
    for told in (d for d in DType if d.element_bytes == dtype.itemsize):
        descriptor = dataclasses.replace(describe(dtype, 2, (1, 2, 4)), dtype=told)
        packet = bytes(reference.encode_frame(raw, descriptor))
        if told == dtype:
            assert actdma.decompress(packet).size == 8
            continue
        with pytest.raises(FrameError, match=f"{dtype.name} by its kind, {told.name} by its dtyp"):
            actdma.decompress(packet)


def test_decoding_makes_no_more_than_the_maps():
    """Maps of one element, a window of 64 elements around each."""
    raw = np.ones(1 << 20, np.uint8)
    packet = reference.encode_frame(raw, describe(DType.int8, 8, (raw.size, 1, 1)))
    tracemalloc.start()
    try:
        data = reference.decode_frame(packet)[1]
        assert tracemalloc.get_traced_memory()[1] < 8 * raw.size
    finally:
        tracemalloc.stop()
    np.testing.assert_array_equal(data, raw)


def test_a_board_says_what_its_transfers_hold():
    design = load_design(length_bits=20)
    with (
        actdma.emulation.install(timed=False, activate=False, design=design) as emulation,
        open_on(emulation, frame_bytes=65536) as board,
    ):
        x = np.zeros((1, 1 << 13, 1 << 12), np.int8)
        with pytest.raises(
            ValueError, match=f"a map has {1 << 25} bytes; through this board's DMA"
        ):
            board.compress(
                x.view(np.uint8).ravel(), DType.int8, Pool(2).coding(DType.int8, x.shape)
            )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: actdma.compress(x, Pool(3)), "k is 3, allowed are 2, 4 and 8"),
        (
            lambda x: actdma.compress(x[0, 0], "pool"),
            "pools maps (..., H, W); the tensor has shape",
        ),
        (
            lambda x: actdma.compress(x.astype(np.float64), "pool"),
            "codec pool does not take float64; it takes float32, bfloat16, float16, int8",
        ),
        (
            lambda x: actdma.compress(np.zeros((1, 4097), np.float32), "pool"),
            "a row of 4097 float32 has 16388 bytes; the engines' line buffer holds 16384",
        ),
        (
            lambda x: Pool().coding(DType.int8, (1 << 17, 1 << 14)),
            f"has {1 << 31} bytes; a frame holds {MAX_RAW_BYTES}",
        ),
        (lambda x: Pool(2.0), "k is 2.0, allowed are 2, 4 and 8"),
        (lambda x: actdma.compress(x, 4), "expected a codec or its name, got int"),
        (lambda x: actdma.compress(x, "pol"), "unknown codec 'pol'; known are"),
        (
            lambda x: actdma.offload(codec="pool"),
            "codec 'pool' is lossy; lossless are 'raw', 'zvc'",
        ),
        (lambda x: actdma.compress(x, "pool", frame_bytes=100), "frame_bytes is 100, allowed are"),
    ],
)
def test_bad_input_names_what_was_given_and_what_is_allowed(call, message):
    with pytest.raises((ValueError, TypeError), match=re.escape(message)):
        call(np.zeros((2, 3, 4), np.float32))


def test_lossless_codings_are_cut_as_before():
    for size in (0, 1, 8192, 8193, 100_000):
        cut = list(Coding(Codec.ZVC).cut(size, 16384))
        assert [n for n, _ in cut] == ([min(16384, size - i) for i in range(0, size, 16384)] or [0])
    assert Codec.POOL not in LOSSLESS
    assert FRAME_BYTES % 8192 == 0


CHECK_MEANS = """
#include "actdma/pool.hpp"
extern "C" int c_mean(int sum, int rows, int columns) {
  return int8_t(actdma::mean_int8(uint32_t(sum), actdma::divisor(rows, columns)));
}
extern "C" uint32_t c_reciprocal(int rows, int columns) {
  return actdma::divisor(rows, columns).fp32;
}
"""


def test_every_integer_mean_is_exact(tmp_path):
    import ctypes

    (tmp_path / "means.cpp").write_text(CHECK_MEANS)
    command = ["g++", "-std=c++17", "-O1", "-shared", "-fPIC", "-Wno-unknown-pragmas"]
    command += [f"-I{ROOT}/hls/include", f"{tmp_path}/means.cpp", "-o", f"{tmp_path}/means.so"]
    subprocess.run(command, check=True)
    functions = ctypes.CDLL(f"{tmp_path}/means.so")
    functions.c_reciprocal.restype = ctypes.c_uint32
    for rows in range(1, 9):
        for columns in range(1, 9):
            n = rows * columns
            expected = np.float32(1) / np.float32(n)
            assert functions.c_reciprocal(rows, columns) == expected.view(np.uint32)
            for total in range(-128 * n, 127 * n + 1):
                mean = (2 * abs(total) + n) // (2 * n)
                found = functions.c_mean(total, rows, columns)
                assert found == (mean if total >= 0 else -mean), (total, n)

"""Block magnitude pruning: reference, CPU and fabric against each other and a plain writing of the
format; Block Sparse Row as PyTorch takes it; thresholds."""

from __future__ import annotations

import dataclasses
import itertools
import math
import struct

import numpy as np
import pytest
import torch
from actdma.emulation._fabric import Engine
from hypothesis import given, settings
from hypothesis import strategies as st

import actdma
from actdma.arrays import Layout
from actdma.backend import ReferenceBackend, descriptors
from actdma.codecs import Bsr, bsr, reference
from actdma.frame import (
    BsrShape,
    Codec,
    Descriptor,
    DType,
    Frame,
    FrameError,
    Norm,
    Status,
    Trailer,
    answer_bytes,
    crc,
    padded,
)
from actdma.native import NativeBackend, _native
from test_hls import LANES, exchange, request, reseal, sparse

BLOCKS = BsrShape.BLOCKS
NORMS = tuple(Norm)
KINDS = range(3)
INFINITY = 0x7F800000


def single(x):
    """``x`` rounded to float32."""
    try:
        return struct.unpack("<f", struct.pack("<f", x))[0]
    except OverflowError:
        return math.inf


def value(bits, kind):
    """A magnitude from an element's bits."""
    if kind == 0:
        return abs(struct.unpack("<f", struct.pack("<I", bits))[0])
    if kind == 1:
        return abs(struct.unpack("<f", struct.pack("<I", bits << 16))[0])
    return abs(struct.unpack("<e", struct.pack("<H", bits))[0])


def plain_norm(block, shape):
    """docs/format.md read aloud: squares, then sums of pairs, each rounded."""
    values = [value(int(bits), shape.kind) for bits in block]
    if shape.norm == Norm.MAX:
        return math.nan if any(map(math.isnan, values)) else max(values)
    if shape.norm == Norm.L2:
        values = [single(v * v) for v in values]
    while len(values) > 1:
        values = [single(a + b) for a, b in zip(values[::2], values[1::2], strict=True)]
    return values[0]


def plain_frame(raw, descriptor):
    shape = BsrShape.of(descriptor.parameters)
    threshold = struct.unpack("<f", struct.pack("<I", shape.threshold))[0]
    blocks = raw.view("<u4" if shape.kind == 0 else "<u2").reshape(-1, shape.block**2)
    group = {16: 32, 32: 32, 8: 32, 64: 16, 128: 8, 256: 4, 512: 2, 1024: 1}[shape.block_bytes // 4]
    payload, counts = b"", [0] * 64
    for row in range(0, len(blocks), shape.columns):
        in_row = blocks[row : row + shape.columns]
        for start in range(0, len(in_row), group):
            mask, kept = 0, b""
            for place, block in enumerate(in_row[start : start + group]):
                norm = plain_norm(block, shape)
                exponent = 255 if not norm < math.inf else struct.pack("<f", norm)[3] << 1
                exponent += struct.pack("<f", norm)[2] >> 7 if norm < math.inf else 0
                counts[min(max(exponent - 95, 0), 63)] += 1
                if not norm < threshold:
                    mask |= 1 << place
                    kept += block.tobytes()
            payload += struct.pack("<I", mask) + kept
    head = descriptor.pack()
    body = head + payload + bytes(padded(len(payload)) - len(payload))
    body += struct.pack("<64I", *counts)
    trailer = Trailer(
        descriptor_crc=int.from_bytes(head[-4:], "little"),
        raw_bytes=raw.size,
        payload_bytes=len(payload),
    )
    return body + trailer.pack(crc(body))


def matrix(rng, kind, rows, columns, spread=3.0, special=0.0):
    """Random elements of widely spread size; the share ``special`` is NaN, infinity, -0.0 and
    denormals."""
    values = rng.standard_normal((rows, columns)) * np.exp(
        spread * rng.standard_normal((rows, columns))
    )
    if kind == 2:
        bits = values.clip(-6e4, 6e4).astype("<f2").view("<u2")
        odd = [0x7C00, 0xFC00, 0x7E01, 0xFC01, 0x8000, 1, 0x83FF]
    else:
        bits = values.astype("<f4").view("<u4")
        odd = [INFINITY, 0xFF800000, 0x7FC01234, 0xFF800001, 1 << 31, 1, 0x807FFFFF]
        if kind == 1:
            bits = (bits >> 16).astype("<u2")
            odd = [INFINITY >> 16, 0xFF80, 0x7FC1, 0xFF81, 0x8000, 1, 0x807F]
    where = rng.random(bits.shape) < special
    bits[where] = rng.choice(odd, int(where.sum()))
    return bits


def coded(bits, block, norm, kind, share=0.5):
    """Data in block order and a descriptor whose threshold drops about ``share`` of the blocks."""
    blocks = bsr.stage(bits, block)
    raw = blocks.reshape(-1).view(np.uint8)
    shape = BsrShape(block, norm, kind, blocks.shape[1], 0)
    norms = np.sort(bsr.norms(raw, shape).view(np.uint32))
    threshold = min(INFINITY, int(norms[int(share * (norms.size - 1))])) if share else 0
    shape = BsrShape(block, norm, kind, blocks.shape[1], threshold)
    dtype = BsrShape.KINDS[kind]
    return raw, Descriptor(
        Codec.BSR, dtype.itemsize, raw.size, dtype=dtype, parameters=shape.parameters
    )


def native_frame(raw, descriptor):
    out = np.empty(descriptor.frame_bound + _native.ENCODE_SLACK, np.uint8)
    return out[: _native.encode_frame(raw, descriptor.pack(), out)[0]]


def native_status(packet):
    """Status and data; a descriptor that is not good says no length."""
    try:
        size = Descriptor.unpack(packet).raw_bytes
    except FrameError:
        size = 0
    out = np.empty(size, np.uint8)
    return _native.decode_frame(packet, out), out


def reference_status(packet):
    try:
        return Status.GOOD, reference.decode_frame(packet)[1]
    except FrameError as error:
        return error.status, None


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("block", BLOCKS)
def test_reference_and_cpu_write_what_the_document_says(block, norm, kind):
    rng = np.random.default_rng(block)
    for rows, columns in ((1, 1), (block, 40 * block), (2 * block + 1, 3 * block - 1)):
        for special in (0, 0.001, 0.3):
            bits = matrix(rng, kind, rows, columns, special=special)
            raw, descriptor = coded(bits, block, norm, kind)
            frame = reference.encode_frame(raw, descriptor)
            assert frame.tobytes() == plain_frame(raw, descriptor)
            assert native_frame(raw, descriptor).tobytes() == frame.tobytes()
            status, data = native_status(frame)
            assert status == Status.GOOD
            assert data.tobytes() == reference.decode_frame(frame)[1].tobytes()


@given(st.data())
@settings(deadline=None)
def test_any_bits_any_shape(data):
    block, kind = data.draw(st.sampled_from(BLOCKS)), data.draw(st.sampled_from(KINDS))
    norm = data.draw(st.sampled_from(NORMS))
    rows, columns = (data.draw(st.integers(1, 3 * block)) for _ in range(2))
    size = BsrShape.KINDS[kind].itemsize
    rng = np.random.default_rng(data.draw(st.integers(0, 1 << 32)))
    bits = rng.integers(0, 1 << 8 * size, (rows, columns)).astype(f"<u{size}")
    raw, descriptor = coded(bits, block, norm, kind)
    shape = BsrShape.of(descriptor.parameters)
    shape = BsrShape(block, norm, kind, shape.columns, data.draw(st.integers(0, INFINITY)))
    descriptor = Descriptor(
        Codec.BSR, size, raw.size, dtype=descriptor.dtype, parameters=shape.parameters
    )
    frame = reference.encode_frame(raw, descriptor)
    assert frame.tobytes() == native_frame(raw, descriptor).tobytes()
    assert frame.size <= descriptor.frame_bound
    blocks = bsr.stage(bits, block)
    kept = reference.decode_frame(frame)[1].view(bits.dtype).reshape(blocks.shape)
    same = (kept == blocks).all(axis=(2, 3))
    assert (same | (kept == 0).all(axis=(2, 3))).all()


def test_norms_of_the_cpu_are_those_of_the_reference_whatever_the_caller_set():
    rng = np.random.default_rng(0)
    for kind in KINDS:
        for norm in NORMS:
            bits = matrix(rng, kind, 32, 64, spread=0)
            if kind != 2:  # denormals alone
                bits &= np.array(0x7FFFFF if kind == 0 else 0x7F, bits.dtype)
            raw, descriptor = coded(bits, 8, norm, kind)
            expected = reference.encode_frame(raw, descriptor).tobytes()
            try:
                assert torch.set_flush_denormal(True)
                frame = native_frame(raw, descriptor).tobytes()
                again = reference.encode_frame(raw, descriptor).tobytes()
            finally:
                torch.set_flush_denormal(False)
            assert frame == again == expected


ISAS = _native.isas()


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_cpu_reads_a_matrix_where_it_lies(isa, kind):
    """Norms, zeros and frames of a matrix in its own order are those of its blocks in theirs."""
    rng = np.random.default_rng(kind)
    dtype = BsrShape.KINDS[kind]
    _native.set_isa(isa)
    try:
        for norm, block in itertools.product(("l1", "l2", "max"), BLOCKS):
            for rows, columns in ((1, 1), (2 * block, 3 * block), (5 * block + 1, 7 * block - 3)):
                bits = matrix(rng, kind, rows, columns, special=0.05)
                bits[:, ::3] = 0
                layout = Layout(dtype, bits.shape)
                data = bits.reshape(-1).view(np.uint8)
                codec = Bsr(block, norm, density=0.4)
                raw, coding = codec.prepare(data, layout)
                for threads in (1, 3):
                    backend = NativeBackend(threads)
                    measured, found = backend.prepare(codec, data, layout)
                    assert found == coding
                    assert measured.size == raw.size
                    assert measured.zeros == np.count_nonzero(raw.view(bits.dtype) == 0)
                    expected = bsr.norms(raw, BsrShape.of(coding.parameters))
                    np.testing.assert_array_equal(measured.norms, expected)
                    for frame_bytes in (8192, 1 << 22):
                        frame = backend.compress(measured, dtype, coding, frame_bytes)
                        same = ReferenceBackend().compress(raw, dtype, coding, frame_bytes)
                        assert bytes(frame) == bytes(same)
                        assert frame.zeros == measured.zeros
    finally:
        _native.set_isa(ISAS[-1])


def test_a_matrix_that_does_not_fit_is_refused():
    x = np.ones((20, 24), np.float32)
    codec, layout = Bsr(8, threshold=1), Layout(DType.float32, x.shape)
    backend, data = NativeBackend(), x.reshape(-1).view(np.uint8)
    measured, coding = backend.prepare(codec, data, layout)
    parameter = coding.parameters[0]

    def measure(rows=20, columns=24, parameter=parameter, blocks=9):
        norms = np.empty(blocks, np.float32)
        _native.measure_blocks(data, rows, columns, parameter, norms)

    measure()
    for wrong in (
        {"rows": 21},
        {"columns": 2**62},
        {"rows": 0, "columns": 0},
        {"parameter": parameter + 1},
        {"parameter": parameter | 3 << 16},
        {"parameter": parameter | 1 << 24},
        {"blocks": 8},
    ):
        with pytest.raises(ValueError):  # noqa: PT011
            measure(**wrong)

    def heads(**changes):
        shape = dataclasses.replace(BsrShape.of(coding.parameters), **changes)
        own = dataclasses.replace(coding, parameters=shape.parameters)
        return b"".join(d.pack() for d in descriptors(measured.size, DType.float32, own, 8192))

    zvc = Descriptor(Codec.ZVC, 4, measured.size, dtype=DType.float32).pack()
    out = np.empty(1 << 14, np.uint8)
    good = (data, 20, 24, measured.norms, heads(), out)
    (length,) = _native.encode_matrix(*good)
    assert out[:length].tobytes() == bytes(backend.compress(measured, DType.float32, coding))
    for place, wrong in (
        (0, data[:-4]),
        (1, 25),
        (2, 16),
        (3, measured.norms[:-1]),
        (4, heads(columns=4)),
        (4, heads(block=16)),
        (4, heads() * 2),
        (4, heads()[:-1]),
        (4, b""),
        (4, zvc),
        (5, out[:512]),
    ):
        with pytest.raises(ValueError):  # noqa: PT011
            _native.encode_matrix(*good[:place], wrong, *good[place + 1 :])


def gathered(frame):
    """By the reference and by the CPU: the parts, or the status."""

    def read(gather):
        try:
            return bsr.parts(frame, gather)
        except FrameError as error:
            return error.status

    return read(None), read(NativeBackend.kept_blocks)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("block", BLOCKS)
def test_the_cpu_gathers_the_parts_of_the_reference(block, kind):
    rng = np.random.default_rng(block)
    for rows, columns, share in ((1, 1, 1), (5 * block, 37 * block, 0.3), (70, 45, 0)):
        bits = matrix(rng, kind, rows, columns)
        raw, coding = Bsr(block, density=share).prepare(
            bits.reshape(-1).view(np.uint8), Layout(BsrShape.KINDS[kind], bits.shape)
        )
        frame = NativeBackend().compress(raw, BsrShape.KINDS[kind], coding, 8192)
        reference, cpu = gathered(frame)
        for one, other in zip(reference, cpu, strict=True):
            np.testing.assert_array_equal(one, other)
        assert cpu.values.dtype == reference.values.dtype


def test_the_cpu_gathers_no_more_than_a_frame_holds():
    """Hostile frames: the verdicts are the reference's, and there is no room for more blocks."""
    rng = np.random.default_rng(0)
    seen = set()
    for _ in range(1000):
        block, kind = int(rng.choice(BLOCKS)), int(rng.integers(0, 3))
        bits = matrix(rng, kind, int(rng.integers(1, 2 * block)), int(rng.integers(1, 5 * block)))
        raw, descriptor = coded(bits, block, Norm.L1, kind, rng.choice([0, 0.3, 0.9]))
        packet = tampered(rng, reference.encode_frame(raw, descriptor))
        offsets = (0, packet.size)
        frame = Frame(packet, offsets, raw.size, BsrShape.KINDS[kind], Codec.BSR)
        one, other = gathered(frame)
        if isinstance(one, Status):
            assert one == other
            seen.add(one)
            continue
        for expected, found in zip(one, other, strict=True):
            np.testing.assert_array_equal(expected, found)
    assert {Status.RESERVED, Status.BLOCK, Status.LENGTH, Status.FRAME_CRC} <= seen

    raw, descriptor = coded(np.ones((16, 16), np.uint32), 8, Norm.L1, 0, 0)
    packet = reference.encode_frame(raw, descriptor)

    def gather(columns=2, block_bytes=256, rows=2, col=4, room=4 * 256):
        crow = np.empty(rows + 1, np.int64)
        arrays = crow, np.empty(col, np.int64), np.empty(room, np.uint8)
        return _native.kept_blocks(packet, (0, packet.size), columns, block_bytes, *arrays)

    assert gather() == (Status.GOOD, 4)
    assert gather(rows=1)[0] == Status.LENGTH
    assert gather(rows=3)[0] == Status.RAW_BYTES
    assert gather(col=3, room=3 * 256)[0] == Status.LENGTH
    assert gather(columns=4)[0] == Status.RESERVED
    assert gather(block_bytes=128, room=4 * 128)[0] == Status.RESERVED
    for wrong in ({"rows": -1}, {"room": 4 * 256 - 1}, {"col": 3}):
        with pytest.raises(ValueError):  # noqa: PT011
            gather(**wrong)


@pytest.mark.parametrize("choice", [{"threshold": 1e-39}, {"density": 0.5}])
def test_flushed_denormals_of_the_caller_change_no_threshold(choice):
    x = torch.randn(32, 64, generator=torch.Generator().manual_seed(0)) * 1e-39
    codec = Bsr(4, norm="max", **choice)
    expected = bytes(actdma.compress(x, codec))
    try:
        assert torch.set_flush_denormal(True)
        found = bytes(actdma.compress(x, codec))
    finally:
        torch.set_flush_denormal(False)
    assert found == expected


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("kind", KINDS)
def test_engines_write_the_reference_bytes_between_frames_of_others(lanes, kind):
    rng = np.random.default_rng(lanes)
    compressor, decompressor = Engine("compress", lanes), Engine("decompress", lanes)
    for block in BLOCKS:
        for norm in NORMS:
            for rows, columns in ((1, 1), (block + 1, 37 * block), (3 * block, 2 * block)):
                bits = matrix(rng, kind, rows, columns, special=0.01)
                share = rng.choice([0, 0.3, 0.9])
                cases = [coded(bits, block, norm, kind, share)]
                raw = sparse(rng, 5000, 4, 0.5)
                cases.append((raw, Descriptor(Codec.ZVC, 4, raw.size, dtype=DType.float32)))
                for raw, descriptor in cases:
                    expected = reference.encode_frame(raw, descriptor)
                    packet = request(descriptor, raw)
                    frame = exchange(compressor, packet, descriptor.frame_bound)
                    assert frame.tobytes() == expected.tobytes()
                    answer = exchange(decompressor, frame, answer_bytes(raw.size))
                    assert Trailer.unpack(answer).status == Status.GOOD
                    data = reference.decode_frame(frame)[1]
                    assert answer[: raw.size].tobytes() == data.tobytes()
                    assert not answer[raw.size : -64].any()
                    assert Trailer.unpack(answer).raw_crc == crc(answer[:-64])


def tampered(rng, packet):
    """A frame with something wrong, mostly sealed again as an attacker would."""
    packet = packet.copy()
    position = int(rng.integers(0, packet.size))
    cut = max(64, position // 64 * 64)
    match rng.integers(0, 7):
        case 0:
            packet[position] ^= rng.integers(1, 256)
            return packet
        case 1:
            return packet[:cut].copy()
        case 2:
            more = np.zeros(64 * rng.integers(1, 5), np.uint8)
            packet = np.concatenate([packet[:-64], more, packet[-64:]])
        case 3:
            packet[position] ^= rng.integers(1, 256)
        case 4:  # the first mask
            packet[64:68].view("<u4")[0] ^= np.uint32(1 << int(rng.integers(0, 32)))
        case 5:  # the descriptor's parameters and length
            packet[int(rng.choice([*range(16, 20), *range(24, 40)]))] ^= rng.integers(1, 256)
        case 6:
            packet = np.concatenate([packet[:cut], packet[-64:]])
    reseal(packet)
    return packet


@pytest.mark.parametrize("lanes", LANES)
def test_hostile_frames_get_one_verdict(lanes):
    rng = np.random.default_rng(lanes)
    engine = Engine("decompress", lanes)
    seen = set()
    for _ in range(1000):
        block, kind = int(rng.choice(BLOCKS)), int(rng.integers(0, 3))
        rows, columns = int(rng.integers(1, 2 * block)), int(rng.integers(1, 5 * block))
        bits = matrix(rng, kind, rows, columns)
        raw, descriptor = coded(
            bits, block, int(rng.integers(0, 3)), kind, rng.choice([0, 0.3, 0.9])
        )
        packet = tampered(rng, reference.encode_frame(raw, descriptor))
        expected, data = reference_status(packet)
        status, native_data = native_status(packet)
        answer = exchange(engine, packet, 1 << 24)
        assert status == expected
        assert Trailer.unpack(answer).status == expected
        assert Trailer.unpack(answer).frame_crc == crc(answer[:-4])
        if data is not None:
            assert native_data.tobytes() == data.tobytes()
            assert answer[: data.size].tobytes() == data.tobytes()
        seen.add(expected)
    assert {Status.GOOD, Status.RESERVED, Status.BLOCK, Status.LENGTH, Status.FRAME_CRC} <= seen


@pytest.mark.parametrize("lanes", LANES)
def test_hostile_requests_leave_the_engine_well(lanes):
    rng = np.random.default_rng(lanes)
    engine = Engine("compress", lanes)
    for number in range(200):
        block, kind = int(rng.choice(BLOCKS)), int(rng.integers(0, 3))
        bits = matrix(rng, kind, int(rng.integers(1, 2 * block)), int(rng.integers(1, 5 * block)))
        raw, descriptor = coded(bits, block, number % 3, kind)
        good = request(descriptor, raw)
        packet, expected = good.copy(), Status.LENGTH
        if number % 3 == 0:
            packet = packet[: 64 * int(rng.integers(1, good.size // 64))]
        elif number % 3 == 1:
            packet = np.concatenate([packet, np.zeros(64, np.uint8)])
        else:
            packet[int(rng.integers(24, 56))] ^= rng.integers(1, 256)
            packet[60:64] = np.frombuffer(crc(packet[:60]).to_bytes(4, "little"), np.uint8)
            try:
                Descriptor.unpack(packet)
                expected = Status.GOOD
            except FrameError as error:
                expected = error.status
        answer = exchange(engine, packet, 1 << 18)
        assert Trailer.unpack(answer).status == expected
        assert answer.size % 64 == 0
        frame = exchange(engine, good, descriptor.frame_bound)
        assert frame.tobytes() == reference.encode_frame(raw, descriptor).tobytes()


@pytest.mark.parametrize("lanes", [2, 4, 8])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("share", [0, 0.5, 1])
def test_fabric_moves_0_95_beats_per_cycle_each_way(lanes, kind, block, share):
    bits = matrix(np.random.default_rng(0), kind, 256, 2048)
    raw, descriptor = coded(bits, block, Norm.L2, kind, share)
    beats = raw.size / (4 * lanes)
    compressor, decompressor = Engine("compress", lanes), Engine("decompress", lanes)
    frame = exchange(compressor, request(descriptor, raw), descriptor.frame_bound)
    exchange(decompressor, frame, answer_bytes(raw.size))
    assert beats / compressor.cycles >= 0.95
    assert beats / decompressor.cycles >= 0.95


@pytest.mark.parametrize(
    ("field", "bits", "status"),
    [
        ("block", 5, Status.RESERVED),
        ("norm", 3, Status.RESERVED),
        ("kind", 3, Status.RESERVED),
        ("kind", 1, Status.RESERVED),
        ("columns", 0, Status.RESERVED),
        ("threshold", INFINITY + 1, Status.RESERVED),
        ("threshold", 0x80000000, Status.RESERVED),
        ("block", 32, Status.RAW_BYTES),
    ],
)
def test_parameters_that_are_not_allowed(field, bits, status):
    words = {"block": 4, "norm": 1, "kind": 0, "columns": 3, "threshold": 0, field: bits}
    descriptor = Descriptor(Codec.BSR, 4, 192, parameters=BsrShape(**words).parameters)
    packet = request(descriptor, np.zeros(192, np.uint8))
    for kind in ("compress", "decompress"):
        assert Trailer.unpack(exchange(Engine(kind), packet, 1024)).status == status
    assert native_status(packet)[0] == status
    with pytest.raises(FrameError) as error:
        Descriptor.unpack(packet)
    assert error.value.status == status


@pytest.fixture(scope="module")
def backends():
    with (
        actdma.open_board("emulated", timed=False) as board,
        actdma.open_alveo("emulated", timed=False) as card,
    ):
        yield "reference", "native", board, card


TENSORS = [
    torch.randn(70, 90),
    torch.randn(3, 5, 64).bfloat16(),
    torch.randn(129, 33).half().T,
    torch.zeros(0, 5),
    torch.zeros(5, 0),
    np.random.default_rng(0).standard_normal((50, 40)).astype(np.float16),
]
CODECS = [
    Bsr(density=0.3),
    Bsr(block=4, norm="max", threshold=1.5),
    Bsr(8, "l1", threshold=0),
    Bsr(32, "l2", density=1),
]


@pytest.mark.parametrize("codec", CODECS, ids=repr)
@pytest.mark.parametrize("x", TENSORS, ids=lambda x: f"{tuple(x.shape)} {x.dtype}")
def test_every_backend_gives_the_same(backends, x, codec):
    frames = [actdma.compress(x, codec, backend) for backend in backends]
    assert len({bytes(frame) for frame in frames}) == 1
    for backend in backends:
        y = actdma.decompress(frames[0], backend)
        assert (type(y), y.shape, y.dtype) == (type(x), x.shape, x.dtype)
        assert bool(((y == x) | (y == 0)).all())
        if codec.threshold == 0 or codec.density == 1:
            assert bool((y == x).all())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("block", BLOCKS)
def test_parts_are_what_torch_takes(block, dtype):
    x = torch.randn(6 * block, 5 * block).to(dtype)
    x[:block] = 0  # a block row without blocks
    frame = actdma.compress(x, Bsr(block, density=0.4), frame_bytes=8192)
    parts = bsr.parts(frame)
    y = torch.sparse_bsr_tensor(*parts, check_invariants=True)
    assert torch.equal(y.to_dense(), actdma.decompress(frame))
    assert parts.crow_indices[1] == 0
    assert len(parts.values) == parts.crow_indices[-1] == round(0.4 * 30)
    again = bsr.parts(bytes(frame))
    for a, b in zip(parts[:2], again[:2], strict=True):
        assert a.tolist() == b.tolist()
    assert again.values.tobytes() == parts.values.view(torch.uint8).numpy().tobytes()
    assert again.size == parts.size


def test_parts_of_padded_edges_are_cropped_by_the_caller():
    x = torch.randn(2, 9, 21)
    frame = actdma.compress(x, Bsr(8, density=0.5))
    parts = bsr.parts(frame)
    assert parts.size == (24, 24)
    dense = torch.sparse_bsr_tensor(*parts).to_dense()[:18, :21]
    assert torch.equal(dense.reshape(x.shape), actdma.decompress(frame))
    flat = actdma.decompress(bytes(frame))
    assert flat.shape == (24, 24)
    assert np.array_equal(flat[:18, :21], dense.numpy())


def test_parts_check_what_they_read():
    frame = actdma.compress(torch.randn(64, 64), Bsr(16, density=0.5))
    with pytest.raises(ValueError, match="expected a frame of codec bsr, got one of zvc"):
        bsr.parts(actdma.compress(np.zeros(4)))
    bad = frame.data.copy()
    bad[200] ^= 1
    with pytest.raises(FrameError) as error:
        bsr.parts(Frame(bad, frame.offsets, frame.raw_nbytes, frame.dtype, frame.codec))
    assert error.value.status == Status.FRAME_CRC


@pytest.mark.parametrize("kind", KINDS)
def test_a_dtype_that_is_not_the_kinds_is_refused(kind):
    raw, descriptor = coded(matrix(np.random.default_rng(0), kind, 4, 12), 4, Norm.L1, kind)
    own = BsrShape.KINDS[kind]
    for told in (d for d in DType if d.element_bytes == own.itemsize):
        packet = bytes(reference.encode_frame(raw, dataclasses.replace(descriptor, dtype=told)))
        if told == own:
            assert actdma.decompress(packet).shape == (4, 12)
            continue
        for read in (actdma.decompress, bsr.parts):
            with pytest.raises(FrameError, match=f"{own.name} by its kind, {told.name} by its dt"):
                read(packet)


def test_a_block_row_may_go_on_in_the_next_frame():
    raw, whole = coded(matrix(np.random.default_rng(0), 0, 8, 12), 4, Norm.L1, 0)

    def cut_at(*stops):
        parts = np.split(raw, stops)
        return b"".join(
            reference.encode_frame(
                part,
                dataclasses.replace(
                    whole, raw_bytes=part.size, sequence=i, last=i == len(parts) - 1
                ),
            ).tobytes()
            for i, part in enumerate(parts)
        )

    within_a_row = cut_at(raw.size // 3)  # two of six blocks, three make a row
    np.testing.assert_array_equal(actdma.decompress(within_a_row), actdma.decompress(cut_at()))
    for one, other in zip(bsr.parts(within_a_row), bsr.parts(cut_at()), strict=True):
        np.testing.assert_array_equal(one, other)


def test_frames_of_different_matrices_do_not_pass_as_one():
    x = torch.randn(64, 64)
    frames = [actdma.compress(x, Bsr(16, threshold=t), frame_bytes=8192) for t in (0, 1)]
    packets = [next(frames[0].packets()), [*frames[1].packets()][1]]
    data = np.concatenate(packets)
    for read in (bsr.parts, actdma.decompress):
        with pytest.raises(FrameError, match="frames of different tensors follow each other"):
            read(data.tobytes())


def test_a_tensor_is_cut_at_block_rows():
    x = torch.randn(100, 1000)
    frame = actdma.compress(x, Bsr(16, threshold=0), frame_bytes=3 * 8192 * 8)
    rows = [Descriptor.unpack(p).raw_bytes / (63 * 16 * 16 * 4) for p in frame.packets()]
    assert rows == [3, 3, 1]
    assert torch.equal(actdma.decompress(frame), x)
    wide = actdma.compress(x, Bsr(16, threshold=0), frame_bytes=8192)
    assert len(wide.offsets) - 1 == 7
    assert Frame.parse(bytes(wide)).offsets == wide.offsets


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("columns", [1, 31, 32, 33])
def test_the_bound_is_reached_where_every_block_is_kept(block, kind, columns):
    bits = matrix(np.random.default_rng(0), kind, 2 * block, columns * block)
    raw, descriptor = coded(bits, block, Norm.L1, kind, share=0)
    assert reference.encode_frame(raw, descriptor).size == descriptor.frame_bound
    raw, descriptor = coded(bits, block, Norm.L1, kind, share=1)
    assert reference.encode_frame(raw, descriptor).size < descriptor.frame_bound or columns == 1


def test_density_is_exact_and_ties_stay_together():
    x = torch.zeros(32, 32)
    for place, number in enumerate([1, 2, 2, 3, 0, 0, math.nan, math.inf]):
        x[0, 4 * place] = number
    kept = {}
    for count in range(65):
        frame = actdma.compress(x, Bsr(4, "l1", density=count / 64))
        kept[count] = bsr.parts(frame).col_indices.tolist()
    assert kept[0] == kept[1] == kept[2] == [6, 7]  # NaN always, and infinity is the limit
    assert kept[3] == [3, 6, 7]
    assert kept[4] == kept[5] == [1, 2, 3, 6, 7]
    assert kept[6] == kept[64] == [0, 1, 2, 3, 6, 7]  # never a block of zeros


@pytest.mark.parametrize("norm", ["l1", "l2", "max"])
def test_density_keeps_the_largest(norm):
    x = torch.randn(160, 160)
    blocks = x.reshape(20, 8, 20, 8).permute(0, 2, 1, 3).reshape(400, 64)
    order = {"l1": 1, "l2": 2, "max": math.inf}[norm]
    largest = blocks.norm(order, dim=1).topk(100).indices.sort().values
    parts = bsr.parts(actdma.compress(x, Bsr(8, norm, density=0.25)))
    rows = torch.repeat_interleave(torch.arange(20), parts.crow_indices.diff())
    assert torch.equal(rows * 20 + parts.col_indices, largest)


def test_special_values():
    tiny = float(np.float32(1e-45))
    x = torch.zeros(4, 24)
    x[0, 0], x[0, 4], x[0, 8], x[0, 12] = -0.0, tiny, math.nan, -math.inf
    x[0, 16] = 1e-30  # its square is below float32
    kept = lambda codec: bsr.parts(actdma.compress(x, codec)).col_indices.tolist()  # noqa: E731
    assert kept(Bsr(4, "max", threshold=tiny)) == [1, 2, 3, 4]
    assert kept(Bsr(4, "l1", threshold=2 * tiny)) == [2, 3, 4]
    assert kept(Bsr(4, "l2", threshold=1e-20)) == [2, 3]
    assert kept(Bsr(4, "l2", threshold=math.inf)) == [2, 3]
    assert kept(Bsr(4, "l2", threshold=1e30)) == [2, 3]  # the square is infinity
    for codec in (Bsr(4, threshold=0), Bsr(4, "l1", threshold=-0.0)):
        y = actdma.decompress(actdma.compress(x, codec))
        assert torch.equal(y.view(torch.int32), x.view(torch.int32))


@pytest.mark.parametrize("norm", ["l1", "l2", "max"])
@pytest.mark.parametrize("spread", [0.02, 0.3, 2.0])
def test_histograms_lead_to_the_density_wanted(norm, spread):
    rng = np.random.default_rng(0)
    threshold, history = 0.0, []
    for _ in range(8):
        sizes = np.exp(spread * rng.standard_normal((64, 40)))
        x = rng.standard_normal((1024, 640)) * np.kron(sizes, np.ones((16, 16)))
        frame = actdma.compress(x.astype(np.float32), Bsr(norm=norm, threshold=threshold))
        history.append(bsr.Statistics.of(frame))
        threshold = bsr.next_threshold(history[-2:], 0.3)
    assert history[0].density == 1
    assert all(abs(s.density - 0.3) < 0.05 for s in history[-3:])


def test_histogram_counts_every_norm_by_its_exponent():
    x = torch.zeros(4, 24)
    x[0, ::4] = torch.tensor([0, 2.0**-32, 2.0**-31, 1.5, math.inf, math.nan])
    counts = bsr.Statistics.of(actdma.compress(x, Bsr(4, "max", threshold=1))).counts
    assert counts.nonzero()[0].tolist() == [0, 1, 32, 63]
    assert counts[[0, 1, 32, 63]].tolist() == [2, 1, 1, 2]


def test_thresholds_of_nothing_and_everything():
    empty = bsr.Statistics.of(actdma.compress(torch.zeros(0, 8), Bsr(4, threshold=1)))
    assert bsr.next_threshold([empty], 0.5) >= 0
    full = bsr.Statistics.of(actdma.compress(torch.ones(16, 16), Bsr(4, threshold=0)))
    for density, kept in ((0, 0), (1, 16)):
        codec = Bsr(4, threshold=bsr.next_threshold([full], density))
        assert bsr.Statistics.of(actdma.compress(torch.ones(16, 16), codec)).kept == kept


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"block": 5, "density": 1}, "block is 5, allowed are 4, 8, 16 and 32"),
        ({"norm": "l3", "density": 1}, "norm is 'l3', allowed are 'l1', 'l2' and 'max'"),
        ({}, "needs either a threshold or a density, none was given"),
        ({"threshold": 1, "density": 1}, "needs either a threshold or a density, both were given"),
        ({"threshold": -1}, "threshold is -1, allowed are 0 and above"),
        ({"threshold": math.nan}, "threshold is nan"),
        ({"density": 1.5}, "density is 1.5, allowed are 0 to 1"),
        ({"block": 16.0, "density": 1}, "block is 16.0, allowed are 4, 8, 16 and 32"),
        ({"norm": ["l1"], "density": 1}, r"norm is \['l1'\], allowed are 'l1', 'l2' and 'max'"),
        ({"threshold": "1"}, "threshold is '1', allowed are 0 and above"),
        ({"density": np.ones(1)}, r"density is array\(\[1.\]\), allowed are 0 to 1"),
    ],
)
def test_choices_are_checked(arguments, message):
    with pytest.raises(ValueError, match=message):
        Bsr(**arguments)


def test_inputs_are_checked():
    with pytest.raises(TypeError, match="codec bsr does not take int32; it takes float32, bfl"):
        actdma.compress(torch.zeros(4, 4, dtype=torch.int32), Bsr(density=1))
    with pytest.raises(ValueError, match=r"codec bsr takes matrices; the tensor has shape \(4,\)"):
        actdma.compress(torch.zeros(4), Bsr(density=1))
    with pytest.raises(ValueError, match="needs either a threshold or a density"):
        actdma.compress(torch.zeros(4, 4), "bsr")


def test_a_board_says_what_fits_its_dma():
    x = np.zeros((1, 9 << 20), np.float16)
    with (
        actdma.open_board("emulated", timed=False) as board,
        pytest.raises(ValueError, match="a row of blocks has 75497472 bytes; through"),
    ):
        actdma.compress(x, Bsr(4, threshold=1), board)

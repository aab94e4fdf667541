"""The HLS engines: csim's benches, and the vectors of the NumPy reference at every width."""

import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from actdma.emulation._fabric import Engine

from actdma.codecs import parameters, reference, takes
from actdma.frame import (
    ALLOWED_MODES,
    LOSSLESS,
    BsrShape,
    Codec,
    Descriptor,
    DType,
    FrameError,
    Mode,
    Status,
    Trailer,
    answer_bytes,
    crc,
    frame_bound,
    padded,
)

ROOT = Path(__file__).parents[1]
LANES = (2, 4, 8, 16)
DTYPES = (
    DType.uint8,
    DType.int8,
    DType.float16,
    DType.bfloat16,
    DType.int16,
    DType.float32,
    DType.uint32,
    DType.int64,
)


def describe(codec, dtype, size, sequence=0):
    words = parameters(codec, dtype)
    return Descriptor(codec, dtype.element_bytes, size, sequence, dtype=dtype, parameters=words)


def narrow(rng, size, dtype, density):
    """Elements that differ little in what counts: exponents of floats, all but the lowest bits of
    integers, which lie around 0 or somewhere else."""
    items = rng.integers(0, 256, (-(-size // dtype.element_bytes), dtype.element_bytes))
    if takes(Codec.ZVE, dtype):
        items[:, -1] = rng.choice([0, 1, 0x3F, 0xBF]) ^ rng.integers(0, 4, len(items))
    else:
        start = rng.choice([0, 7, 255]) if dtype.element_bytes > 1 else 7
        items[:, 0] = start ^ rng.integers(0, 8, len(items))
        items[:, 1:] = rng.choice([0, 255]) if start == 255 else 0
    run = rng.choice([1, 100])  # zeros and others in runs: there a mask has words of one kind
    items[np.repeat(rng.random(-(-len(items) // run)) >= density, run)[: len(items)]] = 0
    return items.astype(np.uint8).ravel()[:size]


def exchange(engine, packet, room):
    """One packet in, one packet out, nothing left over."""
    out = np.zeros(room, np.uint8)
    engine.receive(out)
    engine.send(packet)
    engine.run()
    assert not engine.sending
    assert not engine.receiving
    assert not engine.overrun
    assert all("waits for data on" in line for line in engine.waiting)
    return out[: engine.received]


def request(descriptor, raw):
    packet = np.zeros(64 + padded(raw.size), np.uint8)
    packet[:64] = np.frombuffer(descriptor.pack(), np.uint8)
    packet[64 : 64 + raw.size] = raw
    return packet


def sparse(rng, size, element, density):
    raw = rng.integers(1, 256, size).astype(np.uint8)
    raw[np.repeat(rng.random(-(-size // element)) >= density, element)[:size]] = 0
    return raw


def specials(dtype):
    """NaN payloads, infinities, denormals, both zeros, the largest and the least numbers."""
    exponent_bits = 5 if dtype == DType.float16 else 8
    mantissa_bits = 8 * dtype.itemsize - 1 - exponent_bits
    ones = (1 << exponent_bits) - 1
    exponents, mantissas = [0, 1, ones // 2, ones - 1, ones], [0, 1, 2, (1 << mantissa_bits) - 1]
    items = [e << mantissa_bits | m for e in exponents for m in mantissas]
    both = np.array(items + [x | 1 << 8 * dtype.itemsize - 1 for x in items])
    return both.astype(f"<u{dtype.itemsize}").view(np.uint8)


def reseal(packet):
    """Make the CRCs of a tampered frame good again, as an attacker would."""
    packet[60:64] = np.frombuffer(crc(packet[:60]).to_bytes(4, "little"), np.uint8)
    packet[-52:-48] = packet[60:64]
    packet[-4:] = np.frombuffer(crc(packet[:-4]).to_bytes(4, "little"), np.uint8)


@pytest.mark.slow
@pytest.mark.parametrize("sanitize", ["", "-fsanitize=address,undefined -fno-sanitize-recover=all"])
def test_csim_benches_pass(tmp_path, sanitize):
    command = ["make", "-C", ROOT / "hls", "csim", f"BUILD={tmp_path}", f"PYTHON={sys.executable}"]
    if sanitize:
        # The tops are left out: the vendor's integers are not clean themselves.
        command += [f"SANITIZE={sanitize}", "LANES="]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.count("engines,") == 4
    assert result.stdout.count("tops,") == (0 if sanitize else 4)
    assert result.stdout.count("memory ports,") == 4
    assert "runtime error" not in result.stderr


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.name)
def test_engines_and_reference_write_the_same_bytes(lanes, dtype):
    rng = np.random.default_rng(lanes)
    compressor, decompressor = Engine("compress", lanes), Engine("decompress", lanes)
    modes = set()
    for size in (1, 63, 64, 65, 4096, 8191, 8192, 8193, 8256, 30000):
        for density in (0, 0.02, 0.5, 0.9, 1):
            for codec in (c for c in LOSSLESS if takes(c, dtype)):
                make = rng.choice([sparse, narrow])
                raw = make(rng, size, dtype.element_bytes if make is sparse else dtype, density)
                descriptor = describe(codec, dtype, size, sequence=3)
                expected = reference.encode_frame(raw, descriptor)
                frame = exchange(compressor, request(descriptor, raw), frame_bound(size))
                assert frame.tobytes() == expected.tobytes()
                answer = exchange(decompressor, frame, answer_bytes(size))
                assert answer.size == answer_bytes(size)
                assert answer[:size].tobytes() == raw.tobytes()
                trailer = Trailer.unpack(answer)
                assert trailer.status == Status.GOOD
                assert trailer.frame_crc == crc(answer[:-4])
                assert trailer.raw_crc == crc(answer[:-64])
                modes.add(frame[64] & 15 if size else Mode.RAW)
    assert modes == {m for c in LOSSLESS if takes(c, dtype) for m in ALLOWED_MODES[c]}


@pytest.mark.parametrize(
    "dtype", [DType.float32, DType.float16, DType.bfloat16], ids=lambda d: d.name
)
def test_specials_pass_through_zve_in_fabric(dtype):
    rng = np.random.default_rng(5)
    raw = specials(dtype)
    raw = np.concatenate(
        [raw, np.frombuffer(rng.permutation(raw.view(f"V{dtype.itemsize}")), "u1")]
    )
    descriptor = describe(Codec.ZVE, dtype, raw.size)
    frame = exchange(Engine("compress"), request(descriptor, raw), frame_bound(raw.size))
    assert frame.tobytes() == reference.encode_frame(raw, descriptor).tobytes()
    answer = exchange(Engine("decompress"), frame, answer_bytes(raw.size))
    assert answer[: raw.size].tobytes() == raw.tobytes()


@pytest.mark.parametrize("kind", ["compress", "decompress"])
@pytest.mark.parametrize("lanes", LANES)
def test_identify_answers_version_kind_lanes_and_codecs(kind, lanes):
    packet = np.frombuffer(Descriptor.identify(sequence=9).pack(), np.uint8)
    trailer = Trailer.unpack(exchange(Engine(kind, lanes), packet, 64))
    assert (trailer.status, trailer.sequence) == (Status.GOOD, 9)
    assert (trailer.version, trailer.lanes) == (1, lanes)
    assert trailer.engine == (1 if kind == "compress" else 2)
    assert trailer.codecs == sum(1 << codec for codec in Codec)


def tampered(rng, packet):
    """A frame with something wrong in one of the ways a test has a name for, mostly re-sealed."""
    packet = packet.copy()
    position = int(rng.integers(0, packet.size))
    match rng.integers(0, 7):
        case 0:
            packet[position] ^= rng.integers(1, 256)
        case 1:
            packet = packet[: max(64, position // 64 * 64)].copy()
        case 2:
            packet = np.concatenate([packet, np.zeros(64 * rng.integers(1, 4), np.uint8)])
        case 3:
            packet[position] ^= rng.integers(1, 256)
            reseal(packet)
        case 4:
            w0 = packet[64:68].view("<u4")
            w0[0] = rng.choice([rng.integers(0, 1 << 32), w0[0] ^ (1 << rng.integers(0, 32))])
            reseal(packet)
        case 6:  # two blocks' worth of trouble: the first disagrees, the second is cut off
            packet[64 + 4 : 64 + 12] ^= 0x55
            packet = np.concatenate([packet[: packet.size // 128 * 64], packet[-64:]])
            reseal(packet)
        case 5:
            start = int(rng.integers(64, packet.size))
            packet[start : start + 8] = rng.integers(0, 256, min(8, packet.size - start))
            reseal(packet)
    return packet


@pytest.mark.parametrize("lanes", LANES)
def test_hostile_frames_get_the_reference_verdict(lanes):
    rng = np.random.default_rng(lanes)
    engine = Engine("decompress", lanes)
    seen = set()
    for number in range(3000):
        dtype, size = DTYPES[number % len(DTYPES)], int(rng.choice([64, 65, 640, 8200, 20000]))
        codec = rng.choice([c for c in LOSSLESS if takes(c, dtype)])
        raw = narrow(rng, size, dtype, rng.choice([0, 0.1, 0.5, 0.9, 1]))
        descriptor = describe(Codec(codec), dtype, size, sequence=number)
        packet = tampered(rng, reference.encode_frame(raw, descriptor))
        answer = exchange(engine, packet, 1 << 17)
        trailer = Trailer.unpack(answer)
        assert trailer.frame_crc == crc(answer[:-4])
        try:
            data, expected = reference.decode_frame(packet)[1], Status.GOOD
        except FrameError as error:
            data, expected = None, error.status
        assert trailer.status == expected
        if data is not None:
            assert answer[: data.size].tobytes() == data.tobytes()
        seen.add(expected)
    assert len(seen) > 8  # the search reaches most of the statuses


def test_reset_in_mid_frame_forgets_the_frame():
    raw = sparse(np.random.default_rng(0), 100_000, 4, 0.5)
    descriptor = Descriptor(raw_bytes=raw.size)
    engine = Engine("compress")
    engine.send(request(descriptor, raw))
    engine.run()  # nobody receives: it stops when its FIFOs are full
    assert engine.sending
    assert any("waits for room on" in line for line in engine.waiting)
    engine.reset()
    frame = exchange(engine, request(descriptor, raw), frame_bound(raw.size))
    assert frame.tobytes() == reference.encode_frame(raw, descriptor).tobytes()


@pytest.mark.parametrize("kind", ["compress", "decompress"])
@pytest.mark.parametrize("left_out", [1, 4, 60])
def test_a_packet_that_is_not_a_multiple_of_64_bytes_is_refused(kind, left_out):
    raw = sparse(np.random.default_rng(0), 640, 4, 0.5)
    descriptor = Descriptor(raw_bytes=raw.size)
    packet = request(descriptor, raw)
    if kind == "decompress":
        packet = reference.encode_frame(raw, descriptor)
    answer = exchange(Engine(kind), packet[:-left_out], 1 << 12)
    assert Trailer.unpack(answer).status == Status.LENGTH


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("size", [1, 20, 60, 63, 129, 192 - 4, 192 + 16, 192 + 32])
def test_a_length_off_64_bytes_hides_what_is_wrong_inside(lanes, size):
    raw = sparse(np.random.default_rng(0), 640, 4, 0.5)
    packet = reference.encode_frame(raw, Descriptor(raw_bytes=raw.size))[:size].copy()
    if size > 64:
        packet[64] |= 15  # the first block's mode
    with pytest.raises(FrameError) as found:
        reference.decode_frame(packet)
    answer = exchange(Engine("decompress", lanes), packet, 1 << 12)
    assert Trailer.unpack(answer).status == found.value.status == Status.LENGTH
    assert answer.size % 64 == 0


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize(("dtype", "size"), [(DType.float32, 64), (DType.bfloat16, 32)])
def test_bsr_answers_are_whole_lines_also_when_a_block_is_bad(lanes, dtype, size):
    words = BsrShape(4, 0, BsrShape.KINDS.index(dtype), 3, 0).parameters
    descriptor = Descriptor(Codec.BSR, dtype.itemsize, 9 * size, dtype=dtype, parameters=words)
    raw = sparse(np.random.default_rng(0), 9 * size, dtype.itemsize, 0.9)
    good = reference.encode_frame(raw, descriptor)
    bad_mask = good.copy()
    bad_mask[64 + 4 + 3 * size] |= 8  # of the second row: a fourth block
    cut_off = np.concatenate([good[:256], good[-64:]])
    for packet, status in ((bad_mask, Status.BLOCK), (cut_off, Status.LENGTH)):
        answer = exchange(Engine("decompress", lanes), packet, 1 << 12)
        assert answer.size % 64 == 0
        assert Trailer.unpack(answer).status == status


def test_threads_take_turns_with_an_engine():
    raw = sparse(np.random.default_rng(0), 100_000, 4, 0.5)
    descriptor = Descriptor(raw_bytes=raw.size)
    engine = Engine("compress")
    out = np.zeros(frame_bound(raw.size), np.uint8)
    engine.receive(out)
    engine.send(request(descriptor, raw))
    threads = [threading.Thread(target=engine.run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    frame = out[: engine.received].tobytes()
    assert frame == reference.encode_frame(raw, descriptor).tobytes()


@pytest.mark.parametrize("lanes", [4, 16])
@pytest.mark.parametrize(
    ("codec", "dtype"),
    [
        (Codec.ZVC, DType.float32),
        (Codec.ZVE, DType.float32),
        (Codec.ZVE, DType.bfloat16),
        (Codec.INTS, DType.uint8),
        (Codec.INTS, DType.int64),
    ],
    ids=lambda x: x.name.lower(),
)
@pytest.mark.parametrize("density", [0, 0.1, 0.5, 0.9, 1])
def test_fabric_moves_0_95_beats_per_cycle_each_way(lanes, codec, dtype, density):
    size = 1 << 20
    raw = narrow(np.random.default_rng(1), size, dtype, density)
    descriptor = describe(codec, dtype, size)
    beats = size / (4 * lanes)
    compressor, decompressor = Engine("compress", lanes), Engine("decompress", lanes)
    frame = exchange(compressor, request(descriptor, raw), frame_bound(size))
    exchange(decompressor, frame, answer_bytes(size))
    assert beats / compressor.cycles >= 0.95
    assert beats / decompressor.cycles >= 0.95


def test_timing_changes_no_byte():
    raw = sparse(np.random.default_rng(2), 50_000, 2, 0.4)
    descriptor = Descriptor(element_bytes=2, raw_bytes=raw.size)
    frames = []
    for timed in (True, False):
        engine = Engine("compress", timed=timed)
        frames.append(exchange(engine, request(descriptor, raw), frame_bound(raw.size)).tobytes())
        assert (engine.cycles > 0) == timed
    assert frames[0] == frames[1]


@pytest.mark.parametrize(
    ("kind", "lanes", "message"),
    [("zip", 4, "allowed are 'compress' and 'decompress'"), ("compress", 3, "allowed are 2, 4, 8")],
)
def test_unknown_engines_are_refused(kind, lanes, message):
    with pytest.raises(ValueError, match=message):
        Engine(kind, lanes)


def test_missing_vendor_headers_are_one_sentence(tmp_path):
    python = tmp_path / "python3"
    python.write_text("#!/bin/sh\n")
    python.chmod(0o755)
    command = [
        "make",
        "-C",
        ROOT / "hls",
        f"BUILD={tmp_path}",
        f"PYTHON={python}",
        "LANES=4",
    ]
    result = subprocess.run([*command, f"{tmp_path}/tb_tops_4"], capture_output=True, text=True)
    assert result.returncode != 0
    assert "hls4ml is missing: pip install" in result.stderr

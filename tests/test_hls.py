"""The HLS engines: csim's benches, and the vectors of the NumPy reference at every width."""

import shutil
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from actdma.emulation._fabric import Engine

from actdma.codecs import reference
from actdma.frame import (
    Codec,
    Descriptor,
    DType,
    FrameError,
    Status,
    Trailer,
    answer_bytes,
    crc,
    frame_bound,
    padded,
)

ROOT = Path(__file__).parents[1]
LANES = (2, 4, 8, 16)
DTYPES = (DType.uint8, DType.bfloat16, DType.float32, DType.int64)


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
    for size in (1, 63, 64, 65, 4096, 8191, 8192, 8193, 8256, 30000):
        for density in (0, 0.02, 0.5, 0.9, 1):
            for codec in Codec:
                raw = sparse(rng, size, dtype.element_bytes, density)
                descriptor = Descriptor(codec, dtype.element_bytes, size, sequence=3, dtype=dtype)
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
    match rng.integers(0, 6):
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
    for number in range(1500):
        element, size = int(rng.choice([1, 2, 4, 8])), int(rng.choice([64, 65, 640, 8200, 20000]))
        raw = sparse(rng, size, element, rng.choice([0, 0.1, 0.5, 0.9, 1]))
        descriptor = Descriptor(int(rng.integers(0, 2)), element, size, sequence=number)
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
@pytest.mark.parametrize("dtype", [DType.float32, DType.bfloat16], ids=lambda d: d.name)
@pytest.mark.parametrize("density", [0, 0.1, 0.5, 0.9, 1])
def test_fabric_moves_0_95_beats_per_cycle_each_way(lanes, dtype, density):
    size = 1 << 20
    raw = sparse(np.random.default_rng(1), size, dtype.element_bytes, density)
    descriptor = Descriptor(element_bytes=dtype.element_bytes, raw_bytes=size, dtype=dtype)
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
        "csim",
        f"BUILD={tmp_path}",
        f"PYTHON={python}",
        "LANES=4",
    ]
    result = subprocess.run([*command, f"{tmp_path}/tb_tops_4"], capture_output=True, text=True)
    assert result.returncode != 0
    assert "hls4ml is missing: pip install" in result.stderr


@pytest.mark.skipif(shutil.which("v++") is not None, reason="Vitis is installed")
def test_missing_vitis_is_one_sentence(tmp_path):
    command = ["make", "-C", ROOT / "hls", "ip", f"BUILD={tmp_path}"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode != 0
    assert "v++ is missing: source Vitis' settings64.sh first" in result.stderr

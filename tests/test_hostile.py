"""What frames from outside may cost: no more memory than is expected, time by their length."""

import dataclasses
import time
import tracemalloc

import numpy as np
import pytest

import actdma
from actdma.backend import ReferenceBackend
from actdma.codecs import Bsr, bsr, parameters, reference
from actdma.frame import (
    HEADER_BYTES,
    LOSSLESS,
    MAX_EXPANSION,
    MAX_RAW_BYTES,
    BsrShape,
    Codec,
    Descriptor,
    DType,
    Frame,
    FrameError,
    PoolShape,
    Trailer,
    crc,
    padded,
)

MIB = 1 << 20


def forged(descriptor: Descriptor, payload: bytes, trailer_payload: int | None = None) -> bytes:
    """A frame with these contents whose checksums, but for the raw CRC, are good."""
    length = len(payload) if trailer_payload is None else trailer_payload
    extension = bytes(BsrShape.HISTOGRAM_BYTES if descriptor.codec == Codec.BSR else 0)
    head = descriptor.pack()
    body = head + payload + bytes(padded(len(payload)) - len(payload)) + extension
    trailer = Trailer(
        sequence=descriptor.sequence,
        descriptor_crc=int.from_bytes(head[-4:], "little"),
        raw_bytes=descriptor.raw_bytes,
        payload_bytes=length,
    )
    return body + trailer.pack(crc(body))


def claims() -> dict[str, bytes]:
    """Short frames that announce as much as a frame can, of every codec."""
    frames = {}
    for codec in LOSSLESS:
        dtype = DType.int32 if codec == Codec.INTS else DType.float32
        words = parameters(codec, dtype)
        head = Descriptor(codec, 4, MAX_RAW_BYTES, dtype=dtype, parameters=words)
        frames[codec.name] = forged(head, (1).to_bytes(4, "little") * 16)
    maps = PoolShape(8, 3, 1 << 16, 1 << 14, 1)
    head = Descriptor(Codec.POOL, 1, MAX_RAW_BYTES, dtype=DType.int8, parameters=maps.parameters)
    frames["POOL"] = forged(head, bytes(64), maps.payload_bytes)
    shape = BsrShape(32, 0, 0, 1 << 18, 0)
    head = Descriptor(Codec.BSR, 4, MAX_RAW_BYTES, dtype=DType.float32, parameters=shape.parameters)
    frames["BSR"] = forged(head, bytes(64))
    return frames


def peak_bytes(call, *arguments) -> int:
    """Memory that a call which raises `FrameError` has asked for at most."""
    tracemalloc.start()
    try:
        with pytest.raises(FrameError):
            call(*arguments)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", claims())
def test_a_short_frame_that_announces_a_gigabyte_costs_nothing(name):
    frame = claims()[name]
    assert peak_bytes(actdma.decompress, frame) < MIB
    assert peak_bytes(lambda: actdma.decompress(frame, max_bytes=1000)) < MIB
    assert peak_bytes(reference.decode_frame, np.frombuffer(frame, np.uint8)) < MIB
    descriptor = Descriptor.unpack(frame)
    with pytest.raises(FrameError, match="bytes of data in"):
        Frame(
            np.frombuffer(frame, np.uint8),
            (0, len(frame)),
            descriptor.raw_bytes,
            DType(descriptor.dtype),
            Codec(descriptor.codec),
        )


def test_a_frame_object_cannot_announce_more_than_its_bytes_hold():
    frame = actdma.compress(np.zeros(MIB, np.uint8))
    assert frame.raw_nbytes <= MAX_EXPANSION * frame.nbytes
    with pytest.raises(FrameError, match="1125899906842624 bytes of data in 640 bytes"):
        dataclasses.replace(frame, raw_nbytes=1 << 50)
    lying = dataclasses.replace(frame, raw_nbytes=frame.raw_nbytes + 1)
    for backend in ("reference", "native"):
        with pytest.raises(FrameError, match="1048577 are expected"):
            actdma.decompress(lying, backend)


@pytest.mark.parametrize("codec", [c.name.lower() for c in LOSSLESS] + ["pool", "bsr"])
def test_no_codec_expands_further(codec):
    """`MAX_EXPANSION` bounds the best case of each."""
    x = np.zeros((512, 4096), np.int32 if codec == "ints" else np.float32)
    lossy = {"pool": actdma.codecs.Pool(k=8), "bsr": Bsr(block=32, threshold=1)}
    frame = actdma.compress(x, lossy.get(codec, codec), frame_bytes=x.nbytes)
    assert frame.raw_nbytes <= MAX_EXPANSION * (frame.nbytes - 2 * HEADER_BYTES)


def empty_frames(count: int) -> bytes:
    """As many frames as a length allows: without data."""
    nothing = np.zeros(0, np.uint8)
    heads = (Descriptor(element_bytes=1, sequence=i, last=i == count - 1) for i in range(count))
    return b"".join(reference.encode_frame(nothing, d).tobytes() for d in heads)


@pytest.mark.parametrize(
    ("what", "make"),
    [
        ("empty frames", empty_frames),
        ("zero blocks", lambda n: bytes(actdma.compress(np.zeros(8192 * n, np.uint8)))),
    ],
)
def test_parsing_takes_time_in_proportion_to_the_length(what, make):
    def seconds(stream: bytes) -> float:
        times = []
        for _ in range(3):
            began = time.process_time()
            Frame.parse(stream)
            times.append(time.process_time() - began)
        return min(times)

    short, long = seconds(make(2000)), seconds(make(16000))
    assert long < 8 * short * 3, what
    # About 7 microseconds a frame and 0.3 a block on one core; slow machines and sanitizers count.
    assert long < 16000 * 200e-6, what


@pytest.mark.parametrize("max_bytes", ["1", 1.5, -1, b"1"])
def test_a_bound_that_is_no_size_is_refused(max_bytes):
    frame = actdma.compress(np.zeros(10, np.uint8))
    for given in (frame, bytes(frame)):
        with pytest.raises(ValueError, match=r"max_bytes is .*, allowed are None and integers"):
            actdma.decompress(given, max_bytes=max_bytes)


@pytest.mark.parametrize("max_bytes", [10, np.int64(10), 11, None])
def test_a_bound_that_is_met(max_bytes):
    frame = actdma.compress(np.arange(10, dtype=np.uint8))
    for given in (frame, bytes(frame)):
        assert (actdma.decompress(given, max_bytes=max_bytes) == np.arange(10)).all()
    with pytest.raises(FrameError, match="more than 9 bytes"):
        actdma.decompress(frame, max_bytes=9)


@pytest.mark.parametrize("given", [3, None, "frame", [1, 2]])
def test_what_is_no_frame(given):
    for call in (actdma.decompress, bsr.parts, bsr.Statistics.of):
        with pytest.raises(TypeError, match=f"or its bytes, got {type(given).__name__}"):
            call(given)


def test_next_threshold_wants_a_history():
    frame = actdma.compress(np.ones((8, 8), np.float32), Bsr(block=4, threshold=1))
    statistics = bsr.Statistics.of(frame)
    for history in ([], statistics, [1], None):
        with pytest.raises(ValueError, match=r"expected a list of Statistics, at least one"):
            bsr.next_threshold(history, 0.5)
    for density in (-0.1, 1.5, "half", None):
        with pytest.raises(ValueError, match=r"density is .*, allowed are 0 to 1"):
            bsr.next_threshold([statistics], density)


@pytest.mark.parametrize("norm", ["l1", "l2", "max"])
@pytest.mark.parametrize("threshold", [10**400, float("inf"), 1.7e308])
def test_a_threshold_beyond_float32_drops_everything(norm, threshold):
    x = np.full((8, 8), 3e38, np.float32)
    if norm != "max":
        x /= 1e30  # sums and squares of it are finite
    back = actdma.decompress(actdma.compress(x, Bsr(block=4, norm=norm, threshold=threshold)))
    assert not back.any()


def test_frames_are_equal_whoever_parses_them():
    frame = actdma.compress(np.arange(30000), frame_bytes=8192)
    again = Frame.of(bytes(frame))
    assert again.offsets == frame.offsets
    assert Frame.of(frame) is frame
    out = np.empty(frame.raw_nbytes, np.uint8)
    ReferenceBackend().decompress(again, out)
    assert (out.view(np.int64) == np.arange(30000)).all()

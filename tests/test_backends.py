"""What every backend must do, held against the NumPy reference."""

from __future__ import annotations

import numpy as np
import pytest

import actdma
from actdma.backend import Backend, ReferenceBackend, compress_bound
from actdma.codecs import takes
from actdma.frame import Codec, DType, Frame, FrameError, Status

SIZES = (0, 1, 63, 64, 65, 2047, 2048, 2049, 20_000)


def values(dtype, size, density, seed=0):
    """Bytes of ``size`` items of ``dtype``, each nonzero with probability ``density``."""
    rng = np.random.default_rng(seed)
    items = rng.integers(1, 256, (size, dtype.itemsize), np.uint8)
    items[rng.random(size) >= density] = 0
    return items.reshape(-1)


def codecs_of(dtype):
    return [codec for codec in Codec if takes(codec, dtype)]


def check(backend, data, dtype, codec, frame_bytes=65536):
    """Same bytes as the reference; the data back; nothing said or kept of the input."""
    before = data.copy()
    frame = backend.compress(data, dtype, codec, frame_bytes)
    expected = ReferenceBackend().compress(data, dtype, codec, frame_bytes)
    assert bytes(frame) == bytes(expected)
    assert (frame.offsets, frame.raw_nbytes, frame.dtype, frame.codec) == (
        expected.offsets,
        data.size,
        dtype,
        codec,
    )
    out = np.full(data.size, 0xA5, np.uint8)
    backend.decompress(frame, out)
    np.testing.assert_array_equal(out, before)
    np.testing.assert_array_equal(data, before)
    assert not np.shares_memory(frame.data, data)


def test_is_a_backend(backend):
    assert isinstance(backend, Backend)


@pytest.mark.parametrize("dtype", DType)
def test_every_dtype(backend, dtype):
    for size in SIZES:
        for codec in codecs_of(dtype):
            check(backend, values(dtype, size, 0.4, size), dtype, codec)


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("density", [0, 0.03, 0.5, 0.97, 1])
def test_densities(backend, codec, density):
    for dtype in (DType.uint8, DType.float16, DType.float32, DType.int64):
        if takes(codec, dtype):
            check(backend, values(dtype, 9000, density), dtype, codec)


def test_a_dtype_that_the_codec_does_not_take_is_refused(backend):
    with pytest.raises(ValueError, match="codec zve does not take int64; ints does"):
        backend.compress(values(DType.int64, 100, 1), DType.int64, Codec.ZVE)
    with pytest.raises(ValueError, match="codec ints does not take float64; zvc does"):
        backend.compress(values(DType.float64, 100, 1), DType.float64, Codec.INTS)


def test_mixed_blocks(backend):
    """Zero, sparse and dense stretches that begin and end off block borders."""
    parts = [
        values(DType.float32, n, d, n) for n, d in ((5000, 0), (3001, 0.2), (7000, 1), (99, 0))
    ]
    for codec in codecs_of(DType.float32):
        check(backend, np.concatenate(parts), DType.float32, codec)


def test_special_values_keep_their_bits(backend):
    bits = np.array([0x80000000, 0x7F800001, 0xFFC12345, 0x7F800000, 1, 0], np.uint32)
    for codec in codecs_of(DType.float32):
        check(backend, np.tile(bits, 700).view(np.uint8), DType.float32, codec)


@pytest.mark.parametrize("frame_bytes", [8192, 16384, 1 << 20])
def test_cut_into_frames(backend, frame_bytes):
    for codec in codecs_of(DType.bfloat16):
        check(backend, values(DType.bfloat16, 30_000, 0.6), DType.bfloat16, codec, frame_bytes)


@pytest.mark.parametrize("frame_bytes", [0, -8192, 100])
def test_frame_bytes_checked(backend, frame_bytes):
    with pytest.raises(ValueError, match="frame_bytes"):
        backend.compress(values(DType.uint8, 100, 1), DType.uint8, Codec.RAW, frame_bytes)


def test_any_corrupted_byte_is_found(backend):
    """One flipped bit at each of several hundred places."""
    data = values(DType.float32, 300, 0.5)
    good = bytes(ReferenceBackend().compress(data, DType.float32, Codec.ZVC))
    for position in range(0, len(good), 2):
        bad = bytearray(good)
        bad[position] ^= 1 << position % 8
        with pytest.raises(FrameError):
            actdma.decompress(bad, backend=backend)
    check(backend, data, DType.float32, Codec.ZVC)


@pytest.mark.parametrize("size", [0, 1, 300, 40_000])
def test_frames_are_written_into_given_memory(backend, size):
    data = values(DType.float32, size, 0.5)
    own = backend.compress(data, DType.float32, Codec.ZVC, 65536)
    bound = compress_bound(data.size, DType.float32, Codec.ZVC, 65536)
    memory = np.full(bound + 64, 7, np.uint8)
    frame = backend.compress(data, DType.float32, Codec.ZVC, 65536, memory[:bound])
    assert np.shares_memory(frame.data, memory)
    assert frame.offsets == own.offsets
    assert bytes(frame) == bytes(own)
    assert (memory[bound:] == 7).all()
    with pytest.raises(ValueError, match=f"may need {bound}"):
        backend.compress(data, DType.float32, Codec.ZVC, 65536, memory[: bound - 1])


def cut(frame, length, backend):
    """Decompress the first ``length`` bytes of a frame, as if they were all."""
    short = Frame(frame.data[:length], (0, length), frame.raw_nbytes, frame.dtype, frame.codec)
    actdma.decompress(short, backend=backend)


def test_any_truncation_is_found(backend):
    """Cut off anywhere, also with the lengths patched to hide it from the host."""
    data = values(DType.float32, 300, 0.5)
    frame = ReferenceBackend().compress(data, DType.float32, Codec.ZVC)
    for length in range(0, frame.nbytes, 16):
        with pytest.raises(FrameError):
            actdma.decompress(bytes(frame)[:length], backend=backend)
        with pytest.raises(FrameError):
            cut(frame, length, backend)
    check(backend, data, DType.float32, Codec.ZVC)


def test_same_reason_as_the_reference(backend):
    """Every backend gives the same status for the same damage."""
    data = values(DType.float32, 5000, 0.5)
    good = ReferenceBackend().compress(data, DType.float32, Codec.ZVC)
    for position in [*range(64), 64, 65, 66, 67, 70, 3000, *range(good.nbytes - 64, good.nbytes)]:
        bad = good.data.copy()
        bad[position] ^= 0x10
        frame = Frame(bad, good.offsets, data.size, good.dtype, good.codec)
        found = []
        for one in (ReferenceBackend(), backend):
            with pytest.raises(FrameError) as error:
                one.decompress(frame, np.empty(data.size, np.uint8))
            found.append(error.value.status)
        assert found[0] == found[1], f"byte {position}"


def test_same_reason_for_frames_of_impossible_length(backend):
    """A frame longer than any good one, or no whole number of beats, may hold bad blocks too."""
    data = np.arange(8192, dtype=np.uint8)
    good = ReferenceBackend().compress(data, DType.uint8, Codec.RAW).data
    long = np.concatenate([good[:-64], np.zeros(4096, np.uint8), good[-64:]])
    odd = np.concatenate([good, np.zeros(4, np.uint8)])
    cases = {}
    for name, frame in (("long", long), ("odd", odd)):
        for word in (2048, 3000):  # the block's length in words: right, impossible
            bad = frame.copy()
            bad[64:68] = np.array([word << 16], "<u4").view(np.uint8)
            cases[name, word] = Frame(bad, (0, bad.size), data.size, DType.uint8, Codec.RAW)
    for name, frame in cases.items():
        found = []
        for one in (ReferenceBackend(), backend):
            with pytest.raises(FrameError) as error:
                one.decompress(frame, np.empty(data.size, np.uint8))
            found.append(error.value.status)
        assert found[0] == found[1], name


def test_output_of_the_wrong_size(backend):
    frame = ReferenceBackend().compress(values(DType.uint8, 100, 1), DType.uint8, Codec.ZVC)
    for size in (99, 101, 0):
        with pytest.raises(FrameError) as error:
            backend.decompress(frame, np.empty(size, np.uint8))
        assert error.value.status == Status.RAW_BYTES

"""The CPU's codec against the NumPy reference: same bytes, same answer to every frame."""

from __future__ import annotations

import concurrent.futures
import itertools
import shutil
import subprocess
from pathlib import Path

import crc32c
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import actdma
from actdma.backend import Backend, ReferenceBackend, compress_bound
from actdma.codecs import parameters, reference
from actdma.frame import (
    BLOCK_BYTES,
    Codec,
    Descriptor,
    DType,
    Frame,
    FrameError,
    Operation,
    Status,
    frame_bound,
    padded,
)
from actdma.native import NativeBackend, _native

ROOT = Path(__file__).parents[1]
NATIVE, REFERENCE = NativeBackend(), ReferenceBackend()
ISAS = _native.isas()
DTYPES = (DType.uint8, DType.bfloat16, DType.float32, DType.float64, DType.complex128)
FLOATS = (DType.float16, DType.bfloat16, DType.float32, DType.complex64)
INTEGERS = (
    *(DType.bool, DType.int8, DType.uint8, DType.int16, DType.uint16),
    *(DType.int32, DType.uint32, DType.int64, DType.uint64),
)
CASES = [
    *itertools.product((Codec.RAW, Codec.ZVC, Codec.RLE), DTYPES),
    *itertools.product([Codec.ZVE], FLOATS),
    *itertools.product([Codec.INTS], INTEGERS),
]
SIZES = (0, 1, 63, 64, 65, 128, 8191, 8192, 8193, 20000)


@pytest.fixture(autouse=True)
def _fastest_isa():
    yield
    _native.set_isa(ISAS[-1])


def sparse(size: int, element_bytes: int, density: float, seed: int = 0) -> np.ndarray:
    """``size`` random bytes (uint8) of which a fraction ``density`` of the elements is not zero."""
    rng = np.random.default_rng(seed)
    item = min(element_bytes, 4)
    elements = rng.integers(1, 256, (-(-size // item), item), np.uint8)
    elements[rng.random(len(elements)) >= density] = 0
    return elements.reshape(-1)[:size].copy()


# Fractions of the bits of an element that vary among neighbours, from the lowest on.
SPREADS = (0.0, 0.1, 0.4, 0.9, 1.0)


def clustered(size: int, dtype: DType, density: float, spread: float, seed: int) -> np.ndarray:
    """``size`` bytes (uint8) of elements that differ from their neighbours by random numbers of at
    most the fraction ``spread`` of their bits, shifted by some bits; some special values; zeros,
    one by one or in runs.
    """
    rng = np.random.default_rng(seed)
    item = min(dtype.element_bytes, 4)
    count, bits = -(-size // item), 8 * item
    run = int(rng.choice((32, 500, 5000)))
    centres = rng.integers(0, 1 << bits, -(-count // run), np.uint64).repeat(run)[:count]
    width = round(spread * bits)
    distances = rng.integers(0, 1 << width, count, np.uint64) << np.uint64(rng.integers(0, bits))
    elements = centres + distances * np.uint64(rng.integers(0, 2))
    specials = rng.integers(0, 4, count) * (rng.random(count) < 0.01)
    top = np.uint64(1 << (bits - 1))
    elements = np.select(
        [specials == 1, specials == 2, specials == 3],
        [top, np.uint64(1), ~np.uint64(0) >> np.uint64(rng.integers(0, 2))],
        elements,
    )
    zeros = int(rng.choice((1, 1, 40, 400)))
    elements[(rng.random(-(-count // zeros)) >= density).repeat(zeros)[:count]] = 0
    return elements.astype(f"<u{item}").view(np.uint8)[:size].copy()


def assert_same_frames(data: np.ndarray, dtype: DType, codec: Codec, frame_bytes: int) -> None:
    expected = REFERENCE.compress(data, dtype, codec, frame_bytes)
    for isa in ISAS:
        _native.set_isa(isa)
        frame = NATIVE.compress(data, dtype, codec, frame_bytes)
        assert frame.offsets == expected.offsets
        np.testing.assert_array_equal(frame.data, expected.data, err_msg=isa)
        out = np.empty(data.size, np.uint8)
        assert NATIVE.decompress(expected, out) is None
        np.testing.assert_array_equal(out, data, err_msg=isa)


def reference_verdict(packet: np.ndarray) -> tuple[int, bytes]:
    try:
        return Status.GOOD, reference.decode_frame(packet)[1].tobytes()
    except FrameError as error:
        return error.status, b""


def native_verdict(packet: np.ndarray, raw_bytes: int, past_caches: bool) -> tuple[int, bytes]:
    """Status and data; the bytes before and after the output must stay untouched."""
    guard = 64
    memory = np.full(raw_bytes + 2 * guard, 0xA5, np.uint8)
    out = memory[guard : guard + raw_bytes]
    status = _native.decode_frame(np.ascontiguousarray(packet), out, past_caches)
    assert (memory[:guard] == 0xA5).all()
    assert (memory[guard + raw_bytes :] == 0xA5).all()
    return status, out.tobytes() if status == Status.GOOD else b""


def assert_same_verdict(packet: np.ndarray, raw_bytes: int, isas: list[str] = ISAS) -> int:
    expected = reference_verdict(packet)
    for isa, past_caches in itertools.product(isas, (False, True)):
        _native.set_isa(isa)
        assert native_verdict(packet, raw_bytes, past_caches) == expected, isa
    return expected[0]


def sealed(packet: np.ndarray) -> np.ndarray:
    """``packet`` with descriptor, frame and (where it decodes) raw CRC made to fit its bytes."""
    packet = packet.copy()
    packet[60:64].view("<u4")[0] = crc32c.crc32c(packet[:60])
    packet[-52:-48] = packet[60:64]
    words = packet[64:-64].view("<u4")
    try:
        descriptor = Descriptor.unpack(packet)
        data, payload_bytes = reference._decode_payload(words, descriptor)
        packet[-40:-32].view("<u8")[0] = payload_bytes
        packet[-32:-28].view("<u4")[0] = crc32c.crc32c(data)
    except FrameError:
        pass
    packet[-4:].view("<u4")[0] = crc32c.crc32c(packet[:-4])
    return packet


def small_frame() -> tuple[np.ndarray, int]:
    """A short frame with a zero block, a zvc block with padding, and a partial raw block."""
    data = np.concatenate(
        [
            np.zeros(BLOCK_BYTES, np.uint8),
            sparse(BLOCK_BYTES, 2, 0.01),
            sparse(190, 2, 1.0),
        ]
    )
    descriptor = Descriptor(element_bytes=2, raw_bytes=data.size, sequence=3)
    return reference.encode_frame(data, descriptor), data.size


def test_it_is_a_backend():
    assert isinstance(NATIVE, Backend)
    assert ISAS[0] == "portable"


@pytest.mark.parametrize(("codec", "dtype"), CASES)
def test_bytes_are_those_of_the_reference(codec: Codec, dtype: DType):
    for size, density in itertools.product(SIZES, (0.0, 0.02, 0.5, 0.97, 1.0)):
        whole = size // dtype.itemsize * dtype.itemsize
        assert_same_frames(sparse(whole, dtype.element_bytes, density), dtype, codec, BLOCK_BYTES)


@settings(max_examples=150, deadline=None)
@given(
    size=st.integers(0, 2 * BLOCK_BYTES),
    case=st.sampled_from(CASES),
    density=st.sampled_from((0.01, 0.3, 0.9, 1.0)),
    spread=st.sampled_from(SPREADS),
    seed=st.integers(0, 2**32 - 1),
)
def test_any_clusters(
    size: int, case: tuple[Codec, DType], density: float, spread: float, seed: int
):
    codec, dtype = case
    whole = size // dtype.itemsize * dtype.itemsize
    data = clustered(whole, dtype, density, spread, seed)
    assert_same_frames(data, dtype, codec, BLOCK_BYTES)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_every_width_of_integers(dtype: DType):
    """Groups from base 1 to 1 + 2 ** width - 1, and (signed) around 0."""
    rng = np.random.default_rng(0)
    bits = 8 * min(dtype.element_bytes, 4)
    parts = []
    for width in range(bits + 1):
        for base in (1, -(1 << width) // 2):
            values = rng.integers(base, base + (1 << width), 64)
            values[:2] = base, base + (1 << width) - 1
            parts.append(values & ((1 << bits) - 1))
    data = np.concatenate(parts).astype(f"<u{bits // 8}").view(np.uint8)
    assert_same_frames(data, dtype, Codec.INTS, BLOCK_BYTES)


@pytest.mark.parametrize("dtype", FLOATS)
def test_every_width_of_exponents(dtype: DType):
    exponent_bits, bits = parameters(Codec.ZVE, dtype)[0], 8 * dtype.element_bytes
    rng = np.random.default_rng(0)
    parts = []
    for width, sign, largest in itertools.product(
        range(exponent_bits + 1), (0, 1), ((1 << exponent_bits) - 1, (1 << exponent_bits) // 2)
    ):
        exponents = np.clip(largest - rng.integers(0, 1 << width, 32), 0, None)
        exponents[:2] = largest, max(largest - (1 << width) + 1, 0)
        mantissas = rng.integers(0, 1 << (bits - 1 - exponent_bits), 32)
        signs = rng.integers(0, 2, 32) * sign
        parts.append(signs << (bits - 1) | exponents << (bits - 1 - exponent_bits) | mantissas)
    data = np.concatenate(parts).astype(f"<u{bits // 8}").view(np.uint8)
    assert_same_frames(data, dtype, Codec.ZVE, BLOCK_BYTES)


@settings(max_examples=60, deadline=None)
@given(
    size=st.integers(0, 3 * BLOCK_BYTES),
    dtype=st.sampled_from(DTYPES),
    density=st.floats(0, 1),
    seed=st.integers(0, 2**32 - 1),
    frames=st.integers(1, 3),
)
def test_any_data(size: int, dtype: DType, density: float, seed: int, frames: int):
    whole = size // dtype.itemsize * dtype.itemsize
    data = sparse(whole, dtype.element_bytes, density, seed)
    assert_same_frames(data, dtype, Codec.ZVC, frames * BLOCK_BYTES)


@pytest.mark.parametrize("element_bytes", [1, 2, 4])
def test_around_the_limit_between_zvc_and_raw(element_bytes: int):
    """The mode changes where mask and data plane are exactly as long as the block."""
    elements = BLOCK_BYTES // element_bytes
    limit = elements - elements // 8 // element_bytes
    dtype = {1: DType.uint8, 2: DType.int16, 4: DType.int32}[element_bytes]
    for count in range(limit - 5, limit + 5):
        data = np.zeros(elements, f"u{element_bytes}")
        data[:count] = 1
        assert_same_frames(data.view(np.uint8), dtype, Codec.ZVC, BLOCK_BYTES)


def test_every_bit_pattern_survives():
    special = np.array(
        [0x00000000, 0x80000000, 1, 0x807FFFFF, 0x7F800000, 0xFF800000, 0x7FC00001, 0x7F800001],
        "<u4",
    )
    data = np.random.default_rng(0).choice(special, 5000).view(np.uint8)
    for dtype in (DType.float32, DType.float16, DType.uint8, DType.float64):
        assert_same_frames(data, dtype, Codec.ZVC, BLOCK_BYTES)
    for dtype in FLOATS:
        assert_same_frames(data, dtype, Codec.ZVE, BLOCK_BYTES)


def test_public_functions_use_it():
    x = np.arange(60000, dtype=np.float32).reshape(200, 300)[::3, ::-2]
    frame = actdma.compress(x, frame_bytes=BLOCK_BYTES)
    np.testing.assert_array_equal(actdma.decompress(frame), x)
    np.testing.assert_array_equal(actdma.decompress(bytes(frame)), x.reshape(-1))
    empty = np.empty((0, 3), np.int16)
    assert actdma.decompress(actdma.compress(empty)).shape == empty.shape


@pytest.mark.parametrize(
    ("dtype", "codec"),
    [
        ("float32", Codec.ZVE),
        ("float16", Codec.ZVE),
        ("complex64", Codec.ZVE),
        ("int64", Codec.INTS),
        ("bool", Codec.INTS),
        ("float64", Codec.ZVC),
    ],
)
def test_auto_takes_the_codec_that_suits_the_dtype(dtype: str, codec: Codec):
    x = np.linspace(-3, 3, 5000).astype(dtype)
    frame = actdma.compress(x, codec="auto")
    assert frame.codec == codec
    assert bytes(frame) == bytes(actdma.compress(x, codec=codec.name.lower(), backend="reference"))
    np.testing.assert_array_equal(actdma.decompress(frame), x)


@pytest.mark.parametrize(
    ("codec", "dtype", "other"),
    [("zve", "float64", "zvc"), ("zve", "int32", "ints"), ("ints", "float32", "zve")],
)
def test_a_codec_that_does_not_take_the_dtype_names_one_that_does(
    codec: str, dtype: str, other: str
):
    with pytest.raises(ValueError, match=f"codec {codec} does not take {dtype}; {other} does"):
        actdma.compress(np.zeros(3, dtype), codec=codec)


def test_a_large_tensor_there_and_back():
    data = sparse((33 << 20) + 16, 4, 0.4)
    frame = NATIVE.compress(data, DType.float32, Codec.ZVC)
    out = aligned(data.size)
    NATIVE.decompress(frame, out)
    np.testing.assert_array_equal(out, data)


def test_a_compressed_tensor_holds_no_more_memory_than_it_needs():
    frame = NATIVE.compress(np.zeros(8 << 20, np.uint8), DType.uint8, Codec.ZVC)
    assert frame.data.base is None
    assert frame.nbytes < 16384


def aligned(size: int, beyond: int = 0) -> np.ndarray:
    """``size`` bytes (uint8) that begin ``beyond`` bytes after a multiple of 64."""
    memory = np.empty(size + 64 + beyond, np.uint8)
    start = -memory.ctypes.data % 64 + beyond
    return memory[start : start + size]


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("beyond", [0, 16])
def test_frames_written_past_the_caches_are_the_same(isa: str, beyond: int):
    """Streaming stores want multiples of 64; the modes differ in who does what."""
    _native.set_isa(isa)
    for codec, dtype, density in (
        (Codec.ZVC, DType.float32, 0.5),
        (Codec.ZVC, DType.float32, 1.0),
        (Codec.ZVC, DType.uint8, 0.0),
        (Codec.ZVE, DType.bfloat16, 0.97),
        (Codec.RLE, DType.int16, 0.02),
        (Codec.RAW, DType.uint8, 0.5),
    ):
        data = sparse(21 * BLOCK_BYTES + 100, dtype.element_bytes, density)
        descriptor = Descriptor(
            codec=codec,
            element_bytes=dtype.element_bytes,
            raw_bytes=data.size,
            dtype=dtype,
            parameters=parameters(codec, dtype),
        )
        expected = reference.encode_frame(data, descriptor)
        out = aligned(descriptor.frame_bound + _native.ENCODE_SLACK, beyond)
        length, _ = _native.encode_frame(data, descriptor.pack(), out, past_caches=True)
        np.testing.assert_array_equal(out[:length], expected)
        back = aligned(data.size, beyond)
        assert _native.decode_frame(expected, back, past_caches=True) == Status.GOOD
        np.testing.assert_array_equal(back, data)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("element_bytes", [1, 2, 4, 8])
def test_zeros_are_counted(isa: str, element_bytes: int):
    _native.set_isa(isa)
    for count in (0, 1, 7, 63, 64, 65, 50_003):
        x = np.random.default_rng(count).integers(0, 3, count).astype(f"u{element_bytes}")
        x <<= 8 * (element_bytes - 1)  # zero but for the highest byte
        zeros = count - np.count_nonzero(x)
        data = x.view(np.uint8)
        assert _native.count_zeros(data, element_bytes) == zeros
        for codec in (Codec.ZVC, Codec.RLE, Codec.INTS):
            dtype = {1: DType.uint8, 2: DType.uint16, 4: DType.uint32, 8: DType.uint64}
            frame = NATIVE.compress(data, dtype[element_bytes], codec, BLOCK_BYTES)
            assert frame.zeros == (None if element_bytes == 8 else zeros)
    assert NATIVE.compress(np.zeros(8, np.uint8), DType.uint8, Codec.RAW).zeros is None


@pytest.mark.parametrize("threads", [2, 3, 9])
@pytest.mark.parametrize("beyond", [0, 16])
def test_several_threads_write_the_same_frames(threads: int, beyond: int):
    backend = NativeBackend(threads)
    for size in (0, 5 * BLOCK_BYTES + 100, 1_300_000):
        data = sparse(size, 4, 0.9)
        expected = NATIVE.compress(data, DType.float32, Codec.ZVC, 2 * BLOCK_BYTES)
        into = aligned(compress_bound(size, DType.float32, Codec.ZVC, 2 * BLOCK_BYTES), beyond)
        for memory in (None, into):
            frame = backend.compress(data, DType.float32, Codec.ZVC, 2 * BLOCK_BYTES, memory)
            assert (frame.offsets, frame.zeros) == (expected.offsets, expected.zeros)
            np.testing.assert_array_equal(frame.data, expected.data)
        out = np.empty(size, np.uint8)
        backend.decompress(frame, out)
        np.testing.assert_array_equal(out, data)


def test_of_several_bad_frames_the_first_is_told():
    frame = NATIVE.compress(sparse(9 * BLOCK_BYTES, 4, 0.5), DType.float32, Codec.ZVC, BLOCK_BYTES)
    frame.data[frame.offsets[7] - 4] ^= 1
    frame.data[frame.offsets[5] - 32] ^= 1  # before it
    for threads in (1, 4):
        with pytest.raises(FrameError) as caught:
            NativeBackend(threads).decompress(frame, np.empty(frame.raw_nbytes, np.uint8))
        assert caught.value.status == Status.FRAME_CRC
    with pytest.raises(ValueError, match="threads is 0"):
        NativeBackend(0)


def test_threads_work_at_the_same_time():
    datas = [sparse(300_000, 4, 0.5, seed) for seed in range(8)]

    def there_and_back(data: np.ndarray) -> bool:
        out = np.empty_like(data)
        NATIVE.decompress(NATIVE.compress(data, DType.float32, Codec.ZVC), out)
        return np.array_equal(out, data)

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert all(pool.map(there_and_back, datas))


def test_any_damaged_byte_is_noticed_alike():
    packet, raw_bytes = small_frame()
    assert assert_same_verdict(packet, raw_bytes) == Status.GOOD
    seen = set()
    for position in range(packet.size):
        damaged = packet.copy()
        damaged[position] ^= 1 << position % 8
        status = assert_same_verdict(damaged, raw_bytes, ISAS[-1:])
        assert status != Status.GOOD
        seen.add(status)
    assert {Status.MAGIC, Status.DESCRIPTOR_CRC, Status.TRAILER, Status.FRAME_CRC} <= seen


def test_any_cut_or_extension_is_noticed_alike():
    packet, raw_bytes = small_frame()
    longer = np.concatenate([packet, packet[:128]])
    for length in range(longer.size):
        if length != packet.size:
            assert assert_same_verdict(longer[:length], raw_bytes, ISAS[-1:]) != Status.GOOD


def changed_words(modes: int) -> st.SearchStrategy:
    """Ways to damage a frame: lists of positions and what becomes of the word there."""
    change = st.one_of(
        st.integers(0, 31).map(lambda bit: lambda word: word ^ 1 << bit),
        st.integers(-3, 3).map(lambda n: lambda word: word + (n << 16)),
        st.integers(0, 2**32 - 1).map(lambda value: lambda _: value),
        st.builds(
            lambda mode, extra, n: lambda _: mode | extra << 4 | n << 16,
            st.integers(0, modes),
            st.sampled_from((0, 1, 63, 127, 255, 256, 256 + 63, 256 + 127)),
            st.integers(0, 300),
        ),
    )
    # Often the first words: a mode word, a mask, headers.
    position = st.one_of(st.integers(0, 90), st.integers(0, 10_000))
    return st.lists(st.tuples(position, change), min_size=1, max_size=3)


def assert_damage_is_noticed_alike(packet: np.ndarray, raw_bytes: int, changes: list) -> None:
    words = packet.copy().view("<u4")
    for position, change in changes:
        at = 16 + position % (words.size - 32)
        words[at] = change(int(words[at])) & 0xFFFFFFFF
    assert_same_verdict(words.view(np.uint8), raw_bytes)
    assert_same_verdict(sealed(words.view(np.uint8)), raw_bytes)


@settings(max_examples=400, deadline=None)
@given(
    changes=changed_words(4),
    element_bytes=st.sampled_from((1, 2, 4, 8)),
    density=st.sampled_from((0.0, 0.1, 0.6)),
)
def test_a_hostile_frame_with_good_crcs_gets_the_same_answer(
    changes: list, element_bytes: int, density: float
):
    data = sparse(BLOCK_BYTES + 320, element_bytes, density)
    packet = reference.encode_frame(
        data, Descriptor(element_bytes=element_bytes, raw_bytes=data.size)
    )
    assert_damage_is_noticed_alike(packet, data.size, changes)


@settings(max_examples=400, deadline=None)
@given(
    changes=changed_words(5),
    case=st.sampled_from(CASES),
    density=st.sampled_from((0.3, 1.0)),
    spread=st.sampled_from(SPREADS[:3]),
    size=st.sampled_from((320, BLOCK_BYTES + 320)),
)
def test_a_hostile_frame_of_any_codec_gets_the_same_answer(
    changes: list, case: tuple[Codec, DType], density: float, spread: float, size: int
):
    codec, dtype = case
    data = clustered(size, dtype, density, spread, 0)
    packet = REFERENCE.compress(data, dtype, codec).data
    assert_damage_is_noticed_alike(packet, data.size, changes)


@pytest.mark.parametrize("bit", [7, 15, 31])
def test_unused_mask_bits_must_be_zero(bit: int):
    data = np.zeros(64, np.uint8)
    data[[12, 20]] = 1
    packet = reference.encode_frame(data, Descriptor(element_bytes=4, raw_bytes=64)).copy()
    mask = packet[68:72].view("<u4")
    assert mask[0] == 1 << 3 | 1 << 5
    mask[0] = 1 << 3 | 1 << bit  # as many bits as before
    status = assert_same_verdict(sealed(packet), 64)
    assert (status == Status.BLOCK) == (bit >= 16)


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"operation": Operation.IDENTIFY},
        {"operation": 2},
        {"codec": 5},
        {"codec": 2},
        {"codec": 2, "parameter": 8, "element_bytes": 8},
        {"codec": 3, "parameter": 2},
        {"element_bytes": 3},
        {"flags": 2},
        {"reserved": 1},
        {"parameter": 1},
        {"raw_bytes": (1 << 30) + 1},
        {"raw_bytes": 1 << 40},
        {"raw_bytes": 64},
        {"version": 2, "codec": 9, "reserved": 1},
    ],
    ids=str,
)
def test_descriptors_are_refused_alike(change: dict):
    packet, raw_bytes = small_frame()
    packet = packet.copy()
    where = {"version": 4, "operation": 5, "codec": 6, "element_bytes": 7, "flags": 12}
    where |= {"reserved": 14, "parameter": 24}
    for name, value in change.items():
        if name == "raw_bytes":
            packet[16:24].view("<u8")[0] = value
            packet[-48:-40].view("<u8")[0] = value
            raw_bytes = value if value < raw_bytes else raw_bytes
        else:
            packet[where[name]] = value
    assert assert_same_verdict(sealed(packet), raw_bytes) != Status.GOOD


@pytest.mark.parametrize("position", [4, 8, 12, 16, 20, 24, 28])
def test_a_trailer_must_belong_to_its_frame(position: int):
    packet, raw_bytes = small_frame()
    packet = packet.copy()
    packet[packet.size - 64 + position] ^= 1
    packet[-4:].view("<u4")[0] = crc32c.crc32c(packet[:-4])
    assert assert_same_verdict(packet, raw_bytes) == Status.TRAILER


def test_wrong_data_behind_good_frame_crc():
    packet, raw_bytes = small_frame()
    packet = packet.copy()
    packet[-32] ^= 1
    packet[-4:].view("<u4")[0] = crc32c.crc32c(packet[:-4])
    assert assert_same_verdict(packet, raw_bytes) == Status.RAW_CRC


def test_a_bad_frame_raises_frame_error():
    frame = NATIVE.compress(sparse(1000, 4, 0.5), DType.float32, Codec.ZVC)
    frame.data[100] ^= 1
    with pytest.raises(FrameError) as caught:
        NATIVE.decompress(frame, np.empty(1000, np.uint8))
    assert caught.value.status == Status.FRAME_CRC
    with pytest.raises(FrameError):
        NATIVE.decompress(frame, np.empty(996, np.uint8))


def test_an_output_of_another_length_is_refused():
    packet, raw_bytes = small_frame()
    for size in (raw_bytes - 1, raw_bytes + 1, 0):
        assert _native.decode_frame(packet, np.empty(size, np.uint8)) == Status.RAW_BYTES


def test_the_extension_checks_its_arguments():
    data = sparse(100, 4, 0.5)
    head = Descriptor(raw_bytes=100).pack()
    room = np.empty(frame_bound(100) + _native.ENCODE_SLACK, np.uint8)
    for raw, descriptor, out in (
        (data, head, room[1:]),
        (data[:99], head, room),
        (data, head[:63], room),
        (data, bytes(64), room),
        (data[:0], Descriptor.identify().pack(), room),
    ):
        with pytest.raises(ValueError, match=r"descriptor|short"):
            _native.encode_frame(raw, descriptor, out)
    with pytest.raises((BufferError, ValueError)):
        _native.encode_frame(np.empty(200, np.uint8)[::2], head, room)
    with pytest.raises((BufferError, ValueError)):
        _native.encode_frame(data, head, bytes(room.size))
    with pytest.raises(ValueError, match="codec"):
        _native.encode_blocks(data, 9, 4, room)
    with pytest.raises(ValueError, match="parameter"):
        _native.encode_blocks(data, Codec.ZVE, 4, room, parameter=5)
    with pytest.raises(ValueError, match="element"):
        _native.encode_blocks(data, 1, 3, room)
    with pytest.raises(ValueError, match="payload"):
        _native.decode_blocks(bytes(60), 1, 4, room)
    for descriptors in (b"", head + head, head + bytes(64), head[:32]):
        with pytest.raises(ValueError, match=r"descriptors? "):
            _native.encode_frames(data, descriptors, room)
    for offsets, starts in (
        ([], []),
        ([0, 64], [0]),
        ([0, room.size + 1], [0, 100]),
        ([0, 64], [0, 101]),
        ([64, 0], [0, 100]),
    ):
        with pytest.raises(ValueError, match="offsets"):
            _native.decode_frames(room, offsets, starts, data)
    with pytest.raises(ValueError, match="element_bytes"):
        _native.count_zeros(data, 3)
    with pytest.raises(ValueError, match="whole"):
        _native.count_zeros(data[:99], 4)
    with pytest.raises(ValueError, match="portable"):
        _native.set_isa("mmx")
    with pytest.raises(ValueError, match="multiples of 8192"):
        NATIVE.compress(data, DType.uint8, Codec.ZVC, 1000)


def test_blocks_alone_are_the_payload_of_the_frame():
    data = sparse(20000, 4, 0.5)
    frame = REFERENCE.compress(data, DType.float32, Codec.ZVC)
    out = np.empty(frame_bound(data.size) + _native.ENCODE_SLACK, np.uint8)
    for isa in ISAS:
        _native.set_isa(isa)
        length = _native.encode_blocks(data, Codec.ZVC, 4, out)
        assert padded(length) == frame.nbytes - 128
        np.testing.assert_array_equal(out[:length], frame.data[64 : 64 + length])
        back = np.empty_like(data)
        payload = frame.data[64 : 64 + length + _native.DECODE_SLACK]
        assert _native.decode_blocks(payload, Codec.ZVC, 4, back) == Status.GOOD
        np.testing.assert_array_equal(back, data)


def test_crc32c():
    data = np.random.default_rng(0).integers(0, 256, 5000, np.uint8)
    for isa in ISAS:
        _native.set_isa(isa)
        assert _native.crc32c(b"123456789") == 0xE3069283
        for size in (*range(600), 4096, 5000):
            start = size % 7
            part = data[start : max(start, size)]
            assert _native.crc32c(part) == crc32c.crc32c(part)
            assert _native.crc32c(part, 0xDEADBEEF) == crc32c.crc32c(part, 0xDEADBEEF)


# Undefined behaviour ends the program, without a library that says which.
UNDEFINED_TRAPS = ("-fsanitize=undefined", "-fsanitize-undefined-trap-on-error")


def compiled(
    compiler: str, main: Path, program: Path, *options: str
) -> subprocess.CompletedProcess:
    """Build ``program`` of ``main`` and the native codec, without its Python module."""
    native = ROOT / "host/actdma/native"
    sources = [main, *sorted(set(native.glob("*.cpp")) - {native / "module.cpp"})]
    includes = [f"-I{native}", f"-I{ROOT / 'hls/include'}"]
    warnings = ["-Wall", "-Wextra", "-Wno-unknown-pragmas"]
    command = [compiler, "-std=c++17", *warnings, *options, *includes, *sources, "-o", program]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.mark.parametrize(
    ("compiler", "options", "runner"),
    [
        ("g++", ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"], None),
        ("aarch64-linux-gnu-g++", ["-static", *UNDEFINED_TRAPS], "qemu-aarch64"),
        ("arm-linux-gnueabihf-g++", ["-static", *UNDEFINED_TRAPS], "qemu-arm"),
    ],
    ids=["sanitizers", "aarch64", "arm"],
)
def test_exact_buffers(compiler: str, options: list[str], runner: str | None, tmp_path: Path):
    """tests/native_check.cpp, in which any byte read or written out of range is an error."""
    if not shutil.which(compiler) or (runner and not shutil.which(runner)):
        pytest.skip(f"needs {compiler} {runner or ''}")
    program = tmp_path / "check"
    built = compiled(compiler, ROOT / "tests/native_check.cpp", program, "-O1", *options)
    if built.returncode and "cannot find" in built.stderr:
        pytest.skip("the compiler has no sanitizer libraries")
    assert built.returncode == 0, built.stderr
    ran = subprocess.run(
        [*([runner] if runner else []), program], capture_output=True, text=True, timeout=300
    )
    assert ran.returncode == 0, ran.stderr
    assert "portable" in ran.stdout


def test_parse_accepts_what_native_wrote():
    data = sparse(30000, 2, 0.3)
    frame = NATIVE.compress(data, DType.int16, Codec.ZVC, BLOCK_BYTES)
    parsed = Frame.parse(bytes(frame))
    assert parsed.offsets == frame.offsets

"""docs/format.md: Python and C++ agree on it, and the reference keeps what it promises."""

import ctypes
import enum
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import actdma
from actdma import frame as format_
from actdma.backend import ReferenceBackend
from actdma.codecs import parameters, reference, takes
from actdma.frame import (
    LOSSLESS,
    BsrShape,
    Codec,
    Descriptor,
    DType,
    Engine,
    Frame,
    FrameError,
    Mode,
    Norm,
    Operation,
    PoolKind,
    PoolShape,
    Status,
    Trailer,
)

ROOT = Path(__file__).parents[1]
HEADER = ROOT / "hls/include/actdma/frame.hpp"

SHIM = """
#include "actdma/frame.hpp"
extern "C" {
unsigned long long c_padded(unsigned long long n) { return actdma::padded(n); }
unsigned long long c_blocks(unsigned long long n) { return actdma::blocks(n); }
unsigned long long c_frame_bound(unsigned long long n) { return actdma::frame_bound(n); }
unsigned long long c_bound_of(const uint32_t* d) { return actdma::frame_bound(d); }
unsigned long long c_answer_bytes(unsigned long long n) { return actdma::answer_bytes(n); }
int c_check(const uint32_t* d, int crc_good, uint32_t codecs) {
  return actdma::check_descriptor(d, crc_good, codecs);
}
}
"""


@pytest.fixture(scope="module")
def cpp(tmp_path_factory):
    """The C++ definition's functions, compiled."""
    folder = tmp_path_factory.mktemp("format")
    (folder / "shim.cpp").write_text(SHIM)
    library = folder / "shim.so"
    command = ["g++", "-std=c++17", "-shared", "-fPIC", "-Wno-unknown-pragmas"]
    command += [f"-I{ROOT}/hls/include", str(folder / "shim.cpp"), "-o", str(library)]
    subprocess.run(command, check=True)
    functions = ctypes.CDLL(str(library))
    for name in ("c_padded", "c_blocks", "c_frame_bound", "c_answer_bytes"):
        getattr(functions, name).argtypes = [ctypes.c_uint64]
        getattr(functions, name).restype = ctypes.c_uint64
    functions.c_bound_of.restype = ctypes.c_uint64
    return functions


def cpp_enum(name: str) -> dict[str, int]:
    body = re.search(rf"enum {name} : \w+ {{(.*?)}};", HEADER.read_text(), re.DOTALL).group(1)
    return {key: int(value) for key, value in re.findall(r"k(\w+) = (\d+)", body)}


def camel(member: enum.IntEnum, prefix: str) -> str:
    return prefix + "".join(part.capitalize() for part in member.name.split("_"))


@pytest.mark.parametrize(
    ("python", "prefix"),
    [
        (Operation, ""),
        (Codec, "Codec"),
        (Mode, "Mode"),
        (Status, "Bad"),
        (Engine, ""),
        (PoolKind, "Pool"),
        (Norm, "Norm"),
    ],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_enumerations_agree(python, prefix):
    name = {"Engine": "EngineKind", "Norm": "BsrNorm"}.get(python.__name__, python.__name__)
    expected = {camel(member, prefix): int(member) for member in python}
    if python is Status:
        expected["Good"] = expected.pop("BadGood")
    assert cpp_enum(name) == expected


def test_constants_agree():
    text = HEADER.read_text()
    for name, value in {
        "kMagic": format_.MAGIC,
        "kTrailerMagic": format_.TRAILER_MAGIC,
        "kVersion": format_.VERSION,
        "kHeaderWords": format_.HEADER_BYTES // 4,
        "kBlockWords": format_.BLOCK_BYTES // 4,
        "kAlignWords": format_.ALIGN // 4,
        "kPoolRowBytes": format_.POOL_ROW_BYTES,
        "kBsrGroupWords": BsrShape.GROUP_WORDS,
        "kHistogramBins": BsrShape.HISTOGRAM_BINS,
        "kHistogramBase": BsrShape.HISTOGRAM_BASE,
    }.items():
        found = re.search(rf"{name} = (0x[0-9A-F]+|\d+)", text).group(1)
        assert int(found, 0) == value, name
    assert "kMaxRawBytes = 1u << 30" in text
    assert format_.MAX_RAW_BYTES == 1 << 30


@given(st.integers(0, 1 << 30))
def test_bounds_agree(cpp, n):
    assert cpp.c_padded(n) == format_.padded(n)
    assert cpp.c_blocks(n) == format_.blocks(n)
    assert cpp.c_frame_bound(n) == format_.frame_bound(n)
    assert cpp.c_answer_bytes(n) == format_.answer_bytes(n)
    assert format_.frame_bound(n) <= n * 1.001 + 256


@st.composite
def lossless_descriptors(draw):
    """Good ones, of any lossless codec and a dtype that it takes."""
    codec = draw(st.sampled_from(LOSSLESS))
    dtype = draw(st.sampled_from([d for d in DType if takes(codec, d)]))
    return Descriptor(
        codec,
        dtype.element_bytes,
        draw(st.integers(0, format_.MAX_RAW_BYTES)),
        draw(st.integers(0, 2**32 - 1)),
        draw(st.booleans()),
        dtype,
        parameters=parameters(codec, dtype),
    )


@st.composite
def pool_descriptors(draw):
    """Good ones, and some whose extents make another length."""
    kind = draw(st.sampled_from(PoolKind))
    height, width, maps = (draw(st.integers(1, limit)) for limit in (100, 300, 5))
    shape = PoolShape(draw(st.sampled_from([2, 4, 8])), kind, height, width, maps)
    raw_bytes = maps * shape.map_bytes + draw(st.sampled_from([0, 0, 0, 1, 1 << 20]))
    return Descriptor(Codec.POOL, shape.element_bytes, raw_bytes, parameters=shape.parameters)


@st.composite
def bsr_descriptors(draw):
    """Good ones, and some whose data is no whole number of blocks."""
    kind = draw(st.integers(0, 2))
    shape = BsrShape(
        draw(st.sampled_from(BsrShape.BLOCKS)),
        draw(st.sampled_from(Norm)),
        kind,
        draw(st.integers(1, 1000)),
        draw(st.integers(0, 0x7F800000)),
    )
    blocks = draw(st.integers(0, 5000))
    raw_bytes = blocks * shape.block_bytes + draw(st.sampled_from([0, 0, 0, 1, 32]))
    element_bytes = BsrShape.KINDS[kind].itemsize
    return Descriptor(Codec.BSR, element_bytes, raw_bytes, parameters=shape.parameters)


descriptors = st.one_of(lossless_descriptors(), pool_descriptors(), bsr_descriptors())


@given(descriptors)
def test_bounds_of_descriptors_agree(cpp, descriptor):
    words = (ctypes.c_uint32 * 16).from_buffer_copy(descriptor.pack())
    assert cpp.c_bound_of(words) == descriptor.frame_bound


@given(descriptors, st.integers(0, 63), st.integers(0, 255), st.booleans())
def test_descriptor_checks_agree(cpp, descriptor, position, value, sealed):
    data = bytearray(descriptor.pack())
    data[position] = value
    if sealed:
        data[60:] = format_.crc(data[:60]).to_bytes(4, "little")
    words = (ctypes.c_uint32 * 16).from_buffer_copy(data)
    good_crc = int.from_bytes(data[60:], "little") == format_.crc(data[:60])
    status = cpp.c_check(words, good_crc, sum(1 << codec for codec in Codec))
    try:
        Descriptor.unpack(data)
        expected = Status.GOOD
    except FrameError as error:
        expected = error.status
    assert status == expected


@given(lossless_descriptors())
def test_descriptor_survives_packing(descriptor):
    assert Descriptor.unpack(descriptor.pack()) == descriptor


def test_fields_lie_where_the_document_says():
    descriptor = Descriptor(
        Codec.ZVC, 2, 0x01020304, sequence=0xA1B2C3D4, last=True, dtype=DType.bfloat16
    ).pack()
    assert descriptor[:4] == b"ADMA"
    assert tuple(descriptor[4:8]) == (1, 1, 1, 2)
    assert descriptor[8:12].hex() == "d4c3b2a1"
    assert tuple(descriptor[12:16]) == (1, 6, 0, 0)
    assert descriptor[16:24].hex() == "0403020100000000"
    trailer = Trailer(status=9, sequence=1, descriptor_crc=2, raw_bytes=3, payload_bytes=4).pack()
    assert trailer[:4] == b"ADMT"
    words = np.frombuffer(trailer, "<u4")
    assert words[:9].tolist() == [format_.TRAILER_MAGIC, 9, 1, 2, 3, 0, 4, 0, 0]


@given(st.data())
def test_reference_is_lossless_and_bounded(data):
    dtype = data.draw(st.sampled_from(DType))
    count = data.draw(st.sampled_from([0, 1, 2, 15, 16, 17, 1023, 1024, 1025, 5000]))
    density = data.draw(st.sampled_from([0, 0.01, 0.3, 0.7, 1]))
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    raw = rng.integers(0, 256, (count, dtype.itemsize)).astype(np.uint8)
    raw[rng.random(count) >= density] = 0
    raw = raw.reshape(-1)
    descriptor = Descriptor(Codec.ZVC, dtype.element_bytes, raw.size, dtype=dtype)
    packet = reference.encode_frame(raw, descriptor)
    assert packet.size <= format_.frame_bound(raw.size)
    assert packet.size % 64 == 0
    assert reference.decode_frame(packet)[1].tobytes() == raw.tobytes()


@given(st.data())
def test_no_codec_with_modes_stores_more_than_zvc(data):
    """Each block takes the shortest mode, and zvc's are among them."""
    codec = data.draw(st.sampled_from([Codec.ZVE, Codec.INTS, Codec.RLE]))
    dtype = data.draw(st.sampled_from([d for d in DType if takes(codec, d)]))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    raw = rng.integers(0, 256, dtype.itemsize * data.draw(st.integers(0, 9000)), np.uint8)
    raw[rng.random(raw.size) < data.draw(st.floats(0, 1))] = 0
    sizes = [ReferenceBackend().compress(raw, dtype, c).nbytes for c in (codec, Codec.ZVC)]
    assert sizes[0] <= sizes[1]


def test_negative_zero_and_denormals_are_not_zeros():
    x = np.array([-0.0, 0.0, 1e-45, np.nan, np.inf] * 1000, np.float32)
    frame = actdma.compress(x, backend="reference")
    y = actdma.decompress(frame, backend="reference")
    assert y.tobytes() == x.tobytes()
    words = np.frombuffer(bytes(frame), "<u4")
    assert bin(int(words[17])).count("1") == np.count_nonzero(x[:32].view("u4"))


@pytest.mark.parametrize("width", [8, 16, 32])
@pytest.mark.parametrize("density", [0.05, 0.2, 0.5, 0.8, 0.95])
def test_ratio_is_that_of_the_cdma_paper(width, density):
    """arXiv 1705.01626: w / (1 + w d), here at most 1 % away."""
    rng = np.random.default_rng(0)
    x = rng.integers(1, 1 << (width - 1), 1 << 21).astype(f"u{width // 8}")
    x[rng.random(x.size) >= density] = 0
    exact = np.count_nonzero(x) / x.size
    ratio = actdma.compress(x, backend="native").ratio
    expected = max(width / (1 + width * exact), 1)
    assert ratio == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize("dtype", ["u1", "u2", "u4", "u8"])
def test_dense_data_hardly_grows(dtype):
    x = np.random.default_rng(0).integers(1, 1 << 7, (1 << 20) // int(dtype[1])).astype(dtype)
    assert actdma.compress(x | (x << 1), backend="native").ratio >= 0.998


def test_all_zeros_shrink_1800_fold():
    assert actdma.compress(np.zeros(16 << 20, np.float32), backend="native").ratio >= 1800


def test_frames_of_a_tensor_must_belong_together():
    x = np.arange(10_000, dtype=np.float32)
    frame = actdma.compress(x, backend="reference", frame_bytes=8192)
    packets = [bytes(packet) for packet in frame.packets()]
    assert len(packets) == 5
    assert Frame.parse(b"".join(packets)).offsets == frame.offsets
    for broken in (packets[:-1], packets[1:], packets[::-1], [*packets, packets[0]]):
        with pytest.raises(FrameError):
            actdma.decompress(b"".join(broken), backend="reference")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda x: actdma.compress(x, codec="lz"),
            "unknown codec 'lz'; known are 'raw', 'zvc', 'zve', 'ints', 'rle', 'auto'",
        ),
        (lambda x: actdma.compress(x, backend="gpu"), "unknown backend 'gpu'; known are 'native'"),
        (lambda x: actdma.compress([1, 2]), "expected a NumPy array or a PyTorch tensor, got list"),
        (lambda x: actdma.compress(x.astype("U")), "dtype <U32 cannot be compressed; allowed"),
        (
            lambda x: actdma.compress(x, backend=ReferenceBackend),
            "expected a backend or its name, got type",
        ),
        (lambda x: actdma.compress(x, frame_bytes=100), "frame_bytes is 100, allowed are"),
        (lambda x: actdma.compress(x, frame_bytes=8192.0), "frame_bytes is 8192.0, allowed are"),
        (lambda x: actdma.compress(x, frame_bytes="8192"), "frame_bytes is '8192', allowed are"),
        (
            lambda x: actdma.compress(x, frame_bytes=2 << 30),
            "frame_bytes is 2147483648, allowed are multiples of 8192 up to 1073741824",
        ),
        (
            lambda x: actdma.compress(np.array([0, 1, 2], np.uint8).view(bool)),
            "a bool has the byte 2, allowed are 0 and 1",
        ),
        (lambda x: actdma.decompress(b"short"), "5 bytes, a descriptor has 64"),
    ],
)
def test_bad_input_names_what_was_given_and_what_is_allowed(call, message):
    with pytest.raises((ValueError, TypeError), match=re.escape(message)):
        call(np.zeros(3, np.float32))


def test_compressing_leaves_a_tensors_storage_resizable():
    torch = pytest.importorskip("torch")
    x = torch.randn(10)
    actdma.compress(x)
    x.resize_(20)


def test_data_that_is_no_whole_number_of_items_is_refused():
    descriptor = Descriptor(element_bytes=4, raw_bytes=5, dtype=DType.float32)
    packet = reference.encode_frame(np.ones(5, np.uint8), descriptor)
    with pytest.raises(FrameError, match="no whole number of float32 items"):
        actdma.decompress(packet.tobytes())


def test_element_size_that_is_not_the_dtypes_is_refused():
    descriptor = Descriptor(element_bytes=2, raw_bytes=8, dtype=DType.float32)
    packet = reference.encode_frame(np.ones(8, np.uint8), descriptor)
    with pytest.raises(FrameError, match="2 bytes per element of float32"):
        actdma.decompress(packet.tobytes())


def test_bool_that_is_neither_0_nor_1_is_refused():
    descriptor = Descriptor(element_bytes=1, raw_bytes=8, dtype=DType.bool)
    packet = reference.encode_frame(np.full(8, 7, np.uint8), descriptor)
    with pytest.raises(FrameError, match="neither 0 nor 1"):
        actdma.decompress(packet.tobytes())


def test_frames_from_outside_can_be_bounded():
    frame = bytes(actdma.compress(np.zeros(100_000)))
    assert actdma.decompress(frame, max_bytes=800_000).size == 100_000
    for one in (frame, Frame.parse(frame)):
        with pytest.raises(FrameError, match="more than 799999 bytes"):
            actdma.decompress(one, max_bytes=799_999)


def test_masked_arrays_are_refused_not_unmasked():
    with pytest.raises(TypeError, match="got MaskedArray"):
        actdma.compress(np.ma.masked_array([1.0, 2.0], [False, True]))

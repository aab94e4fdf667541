"""The engines as Verilog, simulated clock by clock: the reference's bytes, csim's cycles."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import actdma
import networks
from actdma.arrays import to_bytes
from actdma.backend import ReferenceBackend, descriptors
from actdma.codecs import Bsr, Pool, reference, takes
from actdma.emulation.rtl import RtlKernel, openrtl
from actdma.frame import ALIGN, Codec, DType, padded
from actdma.overlay.cache import cache_root
from sessions import offload
from test_offload import same_gradients

LANES = 4
LOSSLESS = [Codec.RAW, Codec.ZVC, Codec.ZVE, Codec.INTS]
LOSSY = [
    ((2, 3, 9, 11), np.float32, Pool(k=2)),
    ((1, 3, 16, 16), np.float16, Pool(k=4)),
    ((2, 2, 12, 12), np.int8, Pool(k=2)),
    ((64, 48), np.float32, Bsr(block=8, density=0.3)),
    ((40, 70), np.float32, Bsr(block=16, norm="l2", density=0.5)),
    ((64, 64), np.float16, Bsr(block=8, density=0.2)),
]


@pytest.fixture(scope="module", params=[0, 90], ids=["free", "stops"])
def engines(request):
    """Both engines; in the second run, ports and streams within them stand still at random."""
    stops = request.param
    return {
        kind: RtlKernel(kind, LANES, stops=stops, seed=1, check=stops > 0)
        for kind in ("compress", "decompress")
    }


def answer(kernel, packet, room):
    out = bytearray(room)
    kernel.send(packet)
    kernel.receive(out)
    kernel.run()
    assert not kernel.sending
    assert not kernel.receiving
    assert not kernel.overrun
    return bytes(out[: kernel.received])


def cases(dtype):
    rng = np.random.default_rng(dtype)
    for size in (1, 63, 8192, 8193, 3 * 8192):
        size = -(-size // dtype.itemsize) * dtype.itemsize
        for density in (0, 0.4, 1):
            data = rng.integers(1, 256, size, np.uint8)
            data[rng.random(size) >= density] = 0
            yield data


@pytest.mark.slow
@pytest.mark.parametrize("codec", LOSSLESS, ids=lambda codec: codec.name)
@pytest.mark.parametrize("dtype", [DType.float32, DType.float16, DType.int8, DType.int64])
def test_frames_and_answers_are_the_references(engines, codec, dtype):
    if not takes(codec, dtype):
        return
    for data in cases(dtype):
        (descriptor,) = descriptors(data.size, dtype, codec, 1 << 20)
        expected = bytes(reference.encode_frame(data, descriptor))
        packet = descriptor.pack() + bytes(data) + bytes(padded(data.size) - data.size)
        assert answer(engines["compress"], packet, descriptor.frame_bound) == expected
        raw = answer(engines["decompress"], expected, padded(data.size) + ALIGN)
        assert raw[: data.size] == bytes(data)


@pytest.mark.slow
@pytest.mark.parametrize(("shape", "dtype", "codec"), LOSSY)
def test_pooled_and_block_sparse_frames_are_the_references(engines, shape, dtype, codec):
    x = (8 * np.random.default_rng(0).normal(size=shape)).astype(dtype)
    data, layout = to_bytes(x)
    data, coding = codec.prepare(data, layout)
    (descriptor,) = descriptors(data.size, layout.dtype, coding, 1 << 20)
    frame = ReferenceBackend().compress(data, layout.dtype, coding, 1 << 20)
    packet = descriptor.pack() + bytes(data) + bytes(padded(data.size) - data.size)
    assert answer(engines["compress"], packet, descriptor.frame_bound) == bytes(frame)
    expected = np.empty(data.size, np.uint8)
    ReferenceBackend().decompress(frame, expected)
    raw = answer(engines["decompress"], bytes(frame), padded(data.size) + ALIGN)
    assert raw[: data.size] == bytes(expected)


def request(data, dtype, codec):
    (descriptor,) = descriptors(data.size, dtype, codec, 1 << 20)
    return descriptor, descriptor.pack() + bytes(data) + bytes(padded(data.size) - data.size)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["compress", "decompress"])
def test_every_stream_within_an_engine_carries_the_tokens_of_the_c(kind):
    openrtl()
    from openrtl.equivalence import differences

    packets = []
    for codec in LOSSLESS:
        dtype = DType.int32 if codec == Codec.INTS else DType.float32
        for data in cases(dtype):
            descriptor, packet = request(data, dtype, codec)
            frame = bytes(reference.encode_frame(data, descriptor))
            packets.append(packet if kind == "compress" else frame)
    lines, counts = differences(kind, LANES, packets, cache_root() / "rtl")
    assert not lines
    assert sum(counts.values()) > 10_000


@pytest.mark.slow
def test_a_training_step_on_the_emulated_boards_verilog_has_the_plain_gradients():
    model, x = networks.relu_cnn(), networks.images(2)
    plain = networks.step(copy.deepcopy(model), x)
    with actdma.open_board("emulated", fabric="rtl") as board:
        session = offload(model, backend=board, codec="auto", break_even_bytes=0)
        assert same_gradients(plain, networks.step(model, x, session))
    report = session.report()
    assert report.faults == 0
    assert report.has_cycles


def test_another_fabric_is_refused():
    with pytest.raises(ValueError, match="fabric is 'vhdl', allowed are csim, rtl"):
        actdma.open_board("emulated", fabric="vhdl")

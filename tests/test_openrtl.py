"""The engines as Verilog, simulated clock by clock: the reference's bytes, csim's cycles."""

from __future__ import annotations

import numpy as np
import pytest

from actdma.backend import descriptors
from actdma.codecs import reference, takes
from actdma.emulation.rtl import RtlKernel
from actdma.frame import ALIGN, Codec, DType, padded

LANES = 4
LOSSLESS = [Codec.RAW, Codec.ZVC, Codec.ZVE, Codec.INTS]
MACROS = {"ACTDMA_POOL": 0, "ACTDMA_BSR": 0}


@pytest.fixture(scope="module", params=[0, 90], ids=["free", "stops"])
def engines(request):
    """Both engines; in the second run, ports and streams within them stand still at random."""
    stops = request.param
    return {
        kind: RtlKernel(kind, LANES, macros=MACROS, stops=stops, seed=1, check=stops > 0)
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

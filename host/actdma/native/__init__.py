"""The codec for the CPU: C++ with AVX-512, AVX2 or NEON where the processor has them."""

from __future__ import annotations

import numpy as np

from ..backend import descriptors, packets_into
from ..codecs import Coding
from ..frame import FRAME_BYTES, Codec, DType, Frame, FrameError, Status
from . import _native

# From here on the result of decompressing is written past the caches: it would not stay in them.
_PAST_CACHES_BYTES = 8 << 20


class NativeBackend:
    """The codec on one core of the CPU, as a backend. Stateless; works without the GIL."""

    name = "native"

    def compress(
        self, data: np.ndarray, dtype: DType, codec: Codec | Coding, frame_bytes: int = FRAME_BYTES
    ) -> Frame:
        """Frames of ``data`` (uint8, 1-D, C-contiguous), ``frame_bytes`` of raw data in each."""
        parts = list(descriptors(data.size, dtype, codec, frame_bytes))
        bound = sum(d.frame_bound for d in parts)
        out = np.empty(bound + _native.ENCODE_SLACK, np.uint8)
        offsets, start = [0], 0
        for descriptor in parts:
            stop = start + descriptor.raw_bytes
            length = _native.encode_frame(data[start:stop], descriptor.pack(), out[offsets[-1] :])
            offsets.append(offsets[-1] + length)
            start = stop
        # Gives the rest back without a copy. No view of it is left, so no references need counting.
        out.resize(offsets[-1], refcheck=False)
        return Frame(out, tuple(offsets), data.size, dtype, Codec(parts[0].codec))

    def decompress(self, frame: Frame, out: np.ndarray) -> None:
        """Write the data of ``frame`` to ``out`` (uint8, 1-D, C-contiguous, its exact length).

        `FrameError` if the frame is not good; ``out`` is undefined then.
        """
        past_caches = out.size >= _PAST_CACHES_BYTES
        for _, packet, part in packets_into(frame, out):
            status = _native.decode_frame(packet, part, past_caches)
            if status != Status.GOOD:
                raise FrameError(status)

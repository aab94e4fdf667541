"""The codec for the CPU: C++ with AVX-512, AVX2 or NEON where the processor has them."""

from __future__ import annotations

import numpy as np

from ..backend import descriptors, frame_memory, packets_into, used_memory
from ..codecs import Coding
from ..frame import FRAME_BYTES, Codec, DType, Frame, FrameError, Status
from . import _native

# From here on the result of decompressing is written past the caches: it would not stay in them.
_PAST_CACHES_BYTES = 8 << 20


class NativeBackend:
    """The codec on one core of the CPU, as a backend. Stateless; works without the GIL."""

    name = "native"

    def compress(
        self,
        data: np.ndarray,
        dtype: DType,
        codec: Codec | Coding,
        frame_bytes: int = FRAME_BYTES,
        into: np.ndarray | None = None,
    ) -> Frame:
        """See `Backend.compress`."""
        parts = list(descriptors(data.size, dtype, codec, frame_bytes))
        out = frame_memory(parts, into)
        offsets, start = [0], 0
        for descriptor in parts:
            stop = start + descriptor.raw_bytes
            length = _native.encode_frame(data[start:stop], descriptor.pack(), out[offsets[-1] :])
            offsets.append(offsets[-1] + length)
            start = stop
        out = used_memory(out, offsets[-1], into)
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

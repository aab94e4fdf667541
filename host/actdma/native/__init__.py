"""The codec for the CPU: C++ with AVX-512, AVX2 or NEON where the processor has them."""

from __future__ import annotations

import itertools
import numbers

import numpy as np

from ..backend import descriptors, frame_memory, packets_into, used_memory
from ..codecs import Coding
from ..frame import FRAME_BYTES, Codec, DType, Frame, FrameError, Status
from . import _native

# From here on what is written goes past the caches: it would not stay in them.
_PAST_CACHES_BYTES = 8 << 20


class NativeBackend:
    """The codec on the CPU, as a backend. Works without the GIL.

    ``threads``: how many work on a tensor; each takes frames, or parts of them, of its own.
    ValueError unless it is a positive integer.
    """

    name = "native"

    def __init__(self, threads: int = 1) -> None:
        if not (isinstance(threads, numbers.Integral) and threads > 0):
            raise ValueError(f"threads is {threads!r}, allowed are positive integers")
        self.threads = int(threads)

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
        heads = b"".join(descriptor.pack() for descriptor in parts)
        past_caches = data.size >= _PAST_CACHES_BYTES
        lengths, zeros = _native.encode_frames(data, heads, out, past_caches, self.threads)
        offsets = (0, *itertools.accumulate(lengths))
        out = used_memory(out, offsets[-1], into)
        return Frame(out, offsets, data.size, dtype, Codec(parts[0].codec), zeros=zeros)

    def decompress(self, frame: Frame, out: np.ndarray) -> None:
        """Write the data of ``frame`` to ``out`` (uint8, 1-D, C-contiguous, its exact length).

        `FrameError` if the frame is not good; ``out`` is undefined then.
        """
        starts = [0]
        starts += itertools.accumulate(part.size for _, _, part in packets_into(frame, out))
        past_caches = out.size >= _PAST_CACHES_BYTES
        status = _native.decode_frames(
            frame.data, frame.offsets, starts, out, past_caches, self.threads
        )
        if status != Status.GOOD:
            raise FrameError(status)

    def padded_crcs(self, data: np.ndarray, borders: list[int]) -> list[int]:
        """See `actdma.frame.padded_crcs`."""
        return _native.padded_crcs(data, borders, self.threads)

"""The codec for the CPU: C++ with AVX-512, AVX2 or NEON where the processor has them."""

from __future__ import annotations

import itertools
import numbers

import numpy as np

from ..backend import descriptors, frame_memory, packets_into, used_memory
from ..codecs import Coding
from ..frame import FRAME_BYTES, Codec, DType, Frame, FrameError, Status
from . import _native

# From here on what is written goes past the caches. Compressed data is not read again soon, and
# leaves them to the network; what was decompressed is, unless it is more than they hold.
_PAST_CACHES_COMPRESSED = 1 << 20  # raw bytes
_PAST_CACHES_DECOMPRESSED = 32 << 20


class NativeBackend:
    """The codec on the CPU, as a backend. Stateless; works without the GIL.

    ``threads``: how many work on the frames of a tensor, besides what the caller does in threads of
    its own; the bytes are the same. Smaller frames (1 MiB) keep them busy with smaller tensors.
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
        """See `Backend.compress`; fastest into memory that begins at a multiple of 64."""
        plan = list(descriptors(data.size, dtype, codec, frame_bytes))
        memory = frame_memory(plan, into)
        heads = b"".join(descriptor.pack() for descriptor in plan)
        lengths, zeros = _native.encode_frames(
            data, heads, memory, data.size >= _PAST_CACHES_COMPRESSED, self.threads
        )
        offsets = tuple(itertools.accumulate(lengths, initial=0))
        memory = used_memory(memory, offsets[-1], into)
        return Frame(memory, offsets, data.size, dtype, Codec(plan[0].codec), zeros=zeros)

    def decompress(self, frame: Frame, out: np.ndarray) -> None:
        """Write the data of ``frame`` to ``out`` (uint8, 1-D, C-contiguous, its exact length).

        `FrameError` if the frame is not good; ``out`` is undefined then.
        """
        parts = [part.size for _, _, part in packets_into(frame, out)]
        starts = list(itertools.accumulate(parts, initial=0))
        status = _native.decode_frames(
            frame.data,
            frame.offsets,
            starts,
            out,
            out.size >= _PAST_CACHES_DECOMPRESSED,
            self.threads,
        )
        if status != Status.GOOD:
            raise FrameError(status)

    def padded_crcs(self, data: np.ndarray, borders: list[int]) -> list[int]:
        """See `actdma.frame.padded_crcs`."""
        return _native.padded_crcs(data, borders, self.threads)

    @staticmethod
    def count_zeros(data: np.ndarray, element_bytes: int) -> int:
        """Elements of 1, 2, 4 or 8 bytes in ``data`` (uint8, 1-D) without any bit set."""
        return _native.count_zeros(data, element_bytes)

"""What every backend does: the NumPy reference, the CPU's codec, and a board are three of them."""

from __future__ import annotations

import functools
import numbers
from collections.abc import Iterable, Iterator
from typing import Any, Protocol, runtime_checkable

import numpy as np

from .codecs import Coding, parameters, reference
from .frame import (
    BLOCK_BYTES,
    FRAME_BYTES,
    HEADER_BYTES,
    MAX_RAW_BYTES,
    Codec,
    Descriptor,
    DType,
    Frame,
    FrameError,
    Status,
    check_sequence,
)

# What vector code may write behind the last frame.
_SLACK = 2048
# Tensors cut into more frames than that are cut anew each time.
_REMEMBERED_FRAMES = 64


@runtime_checkable
class Backend(Protocol):
    """Compresses flat bytes to frames and back. All backends write the same bytes."""

    name: str

    def compress(
        self,
        data: np.ndarray,
        dtype: DType,
        codec: Codec | Coding,
        frame_bytes: int = FRAME_BYTES,
        into: np.ndarray | None = None,
    ) -> Frame:
        """``data``: uint8, 1-D, C-contiguous, a whole number of ``dtype`` items, any length.

        ``into``: memory (uint8, 1-D, C-contiguous) of at least `compress_bound` bytes, the
        beginning of which the frame's data will be; what it uses beyond is undefined. None: memory
        of the frame's own. ValueError if it is short.
        """
        ...

    def decompress(self, frame: Frame, out: np.ndarray) -> int | None:
        """Write the frame's data to ``out`` (uint8, 1-D, C-contiguous, ``frame.raw_nbytes`` long).

        Returns the fabric's clock cycles, None where no fabric was used. `FrameError` if the frame
        is not good; ``out`` is undefined then.
        """
        ...


def descriptors(
    raw_bytes: int, dtype: DType, codec: Codec | Coding, frame_bytes: int = FRAME_BYTES
) -> Iterator[Descriptor]:
    """How a tensor is cut: one descriptor per frame, at least one. ValueError for a
    ``frame_bytes`` that is not allowed."""
    if not (isinstance(frame_bytes, numbers.Integral) and 0 < frame_bytes <= MAX_RAW_BYTES) or (
        frame_bytes % BLOCK_BYTES
    ):
        raise ValueError(
            f"frame_bytes is {frame_bytes!r}, allowed are multiples of {BLOCK_BYTES} up to "
            f"{MAX_RAW_BYTES}"
        )
    if raw_bytes > _REMEMBERED_FRAMES * frame_bytes:
        return _cut(raw_bytes, dtype, codec, frame_bytes)
    return iter(_remembered_cut(raw_bytes, dtype, codec, int(frame_bytes)))


def _cut(
    raw_bytes: int, dtype: DType, codec: Codec | Coding, frame_bytes: int
) -> Iterator[Descriptor]:
    coding = codec if isinstance(codec, Coding) else Coding(codec, parameters(codec, dtype))
    frames = list(coding.cut(raw_bytes, frame_bytes))
    for number, (size, words) in enumerate(frames):
        yield Descriptor(
            codec=coding.codec,
            element_bytes=dtype.element_bytes,
            parameters=words,
            raw_bytes=size,
            sequence=number,
            last=number == len(frames) - 1,
            dtype=dtype,
        )


@functools.lru_cache(maxsize=256, typed=True)
def _remembered_cut(*tensor: Any) -> tuple[Descriptor, ...]:
    """`_cut` of a tensor whose like comes in every training step."""
    return tuple(_cut(*tensor))


def compress_bound(
    raw_bytes: int, dtype: DType, codec: Codec | Coding, frame_bytes: int = FRAME_BYTES
) -> int:
    """Bytes that compressing ``raw_bytes`` needs to write to, whatever the data."""
    return _bound(descriptors(raw_bytes, dtype, codec, frame_bytes))


def _bound(plan: Iterable[Descriptor]) -> int:
    return sum(descriptor.frame_bound for descriptor in plan) + _SLACK


def frame_memory(plan: list[Descriptor], into: np.ndarray | None) -> np.ndarray:
    """Where the frames of ``plan`` are written: ``into`` if given, else new memory."""
    needed = _bound(plan)
    if into is None:
        return np.empty(needed, np.uint8)
    if into.size < needed:
        raise ValueError(f"into has {into.size} bytes, compressing may need {needed}")
    return into


def used_memory(memory: np.ndarray, length: int, into: np.ndarray | None) -> np.ndarray:
    """The first ``length`` bytes of `frame_memory`; new memory gives the rest back uncopied."""
    if into is not None:
        return into[:length]
    memory.resize(length, refcheck=False)  # no view of it is left
    return memory


def packets_into(
    frame: Frame, out: np.ndarray
) -> Iterator[tuple[Descriptor, np.ndarray, np.ndarray]]:
    """(descriptor, packet, its part of ``out``) of every frame.

    Checked to fit together and to fill ``out`` exactly: a frame from outside can neither over- nor
    underfill it.
    """
    position, first = 0, None
    for number, packet in enumerate(frame.packets()):
        descriptor = _remembered_descriptor(bytes(packet[:HEADER_BYTES]))
        first = first or descriptor
        check_sequence(descriptor, first, number)
        if descriptor.last != (number == len(frame.offsets) - 2):
            raise FrameError(Status.LENGTH, "the tensor's last frame is missing or not the last")
        end = position + descriptor.raw_bytes
        if end > out.size or (descriptor.last and end != out.size):
            raise FrameError(Status.RAW_BYTES, f"{end} bytes of data where {out.size} are expected")
        yield descriptor, packet, out[position:end]
        position = end


_remembered_descriptor = functools.lru_cache(maxsize=1024)(Descriptor.unpack)


class ReferenceBackend:
    """The NumPy reference as a backend: slow, and the standard the others are held to."""

    name = "reference"

    def compress(
        self,
        data: np.ndarray,
        dtype: DType,
        codec: Codec | Coding,
        frame_bytes: int = FRAME_BYTES,
        into: np.ndarray | None = None,
    ) -> Frame:
        """See `Backend.compress`."""
        plan = list(descriptors(data.size, dtype, codec, frame_bytes))
        memory, offsets, start = frame_memory(plan, into), [0], 0
        for descriptor in plan:
            stop = start + descriptor.raw_bytes
            packet = reference.encode_frame(data[start:stop], descriptor)
            offsets.append(offsets[-1] + packet.size)
            memory[offsets[-2] : offsets[-1]] = packet
            start = stop
        memory = used_memory(memory, offsets[-1], into)
        return Frame(memory, tuple(offsets), data.size, dtype, Codec(plan[0].codec))

    def decompress(self, frame: Frame, out: np.ndarray) -> None:
        """See `Backend.decompress`."""
        for _, packet, part in packets_into(frame, out):
            part[:] = reference.decode_frame(packet)[1]

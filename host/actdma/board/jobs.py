"""What an engine is given to do: packets, and what becomes of the answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..codecs import reference
from ..frame import (
    ALIGN,
    HEADER_BYTES,
    Descriptor,
    Engine,
    FrameError,
    Trailer,
    answer_bytes,
    crc,
    padded,
)
from .answers import check_answer, check_frame, check_identity
from .errors import BoardError


class Job(NamedTuple):
    """A packet for an engine and what to do with its answer.

    ``send_bytes``: length of the packet; ``capacity``: bytes of the longest answer that is
    possible. ``fill(packet)`` writes the packet, ``take(packet, answer)`` checks the answer and
    copies what is wanted: both see live buffers, which the next job overwrites. Both may be called
    again: what counts is the last call. ``take`` raises `BoardError` if the engine or the way to it
    failed, `FrameError` if what was sent is bad.
    """

    send_bytes: int
    capacity: int
    fill: Callable[[np.ndarray], None]
    take: Callable[[np.ndarray, np.ndarray], None]


def compress_job(
    descriptor: Descriptor, data: np.ndarray, keep: Callable[[np.ndarray], None]
) -> Job:
    """Compress ``data`` (uint8, 1-D, not empty); ``keep`` gets the frame, in a live buffer."""

    def fill(packet: np.ndarray) -> None:
        packet[:HEADER_BYTES] = np.frombuffer(descriptor.pack(), np.uint8)
        packet[HEADER_BYTES : HEADER_BYTES + data.size] = data
        packet[HEADER_BYTES + data.size :] = 0

    def take(packet: np.ndarray, answer: np.ndarray) -> None:
        check_frame(answer, packet)
        keep(answer)

    return Job(HEADER_BYTES + padded(data.size), descriptor.frame_bound, fill, take)


def decompress_job(descriptor: Descriptor, frame: np.ndarray, out: np.ndarray) -> Job:
    """Decompress ``frame`` into ``out`` (both uint8, 1-D, not empty).

    `FrameError` at once if no transfer fits the frame and no good one has its length: the reference
    says what is wrong first, as the engine would.
    """
    if frame.size % ALIGN or frame.size > descriptor.frame_bound:
        reference.decode_frame(frame)

    def fill(packet: np.ndarray) -> None:
        packet[:] = frame

    def take(packet: np.ndarray, answer: np.ndarray) -> None:
        try:
            check_answer(answer, packet)
        except FrameError as error:
            _blame(frame, error)
        out[:] = answer[: out.size]

    return Job(frame.size, answer_bytes(out.size), fill, take)


def identify_job(engine: Engine, where: str, keep: Callable[[Trailer], None]) -> Job:
    """Ask an engine what it is; ``keep`` gets the answer, if it is that of an ``engine``.
    ``where``: what is asked, for the message of the `BoardError` if not."""

    def fill(packet: np.ndarray) -> None:
        packet[:] = np.frombuffer(Descriptor.identify().pack(), np.uint8)

    def take(_: np.ndarray, answer: np.ndarray) -> None:
        keep(check_identity(answer, engine, where))

    return Job(HEADER_BYTES, HEADER_BYTES, fill, take)


def _blame(frame: np.ndarray, error: FrameError) -> None:
    """The engine found ``frame`` bad: raise ``error`` if it is, `BoardError` if it is good here.

    Its CRC tells a frame that was stored damaged; only a forged one needs to be decoded.
    """
    if crc(frame[:-4]) != int(frame[-4:].view("<u4")[0]):
        raise error
    reference.decode_frame(frame)
    raise BoardError(
        f"the decompressor found a good frame bad ({error}): it was damaged on its way to the "
        "engine, or there"
    ) from error

"""Is this the answer to that packet? Nothing of an answer is used before these have passed."""

from __future__ import annotations

import numpy as np

from ..frame import (
    HEADER_BYTES,
    LOSSLESS,
    VERSION,
    Engine,
    FrameError,
    Status,
    Trailer,
    answer_bytes,
    crc,
    extension_bytes,
    padded,
)
from .errors import BoardError


def check_frame(answer: np.ndarray, packet: np.ndarray) -> None:
    """`BoardError` unless ``answer`` is a frame that the compressor made of ``packet``.

    ``packet``: descriptor and padded raw data, ``answer``: what came back; both uint8, 1-D.
    """
    trailer = _trailer(answer, packet)
    if trailer.status != Status.GOOD:
        raise BoardError(f"the compressor refused its input: {FrameError(trailer.status)}")
    if answer[:HEADER_BYTES].tobytes() != packet[:HEADER_BYTES].tobytes():
        raise BoardError("the answer does not begin with the descriptor that was sent")
    codec = int(packet[6])
    expected = 2 * HEADER_BYTES + padded(trailer.payload_bytes) + extension_bytes(codec)
    if answer.size != expected:
        raise BoardError(
            f"the answer has {answer.size} bytes, its trailer announces {expected}: beats were "
            "lost, or packets merged (is TKEEP all ones, TLAST only on the last beat?)"
        )
    if trailer.frame_crc != crc(answer[:-4]):
        raise BoardError("the answer was damaged on its way (frame CRC does not match)")
    if trailer.raw_crc != (crc(packet[HEADER_BYTES:]) if codec in LOSSLESS else 0):
        raise BoardError("the compressor read other data than was sent (raw CRC does not match)")


def check_answer(answer: np.ndarray, packet: np.ndarray) -> None:
    """`FrameError` if the decompressor found the frame ``packet`` bad, `BoardError` unless
    ``answer`` is an undamaged answer to it; else the answer's data is good."""
    trailer = _trailer(answer, packet)
    raw_crc = crc(answer[:-HEADER_BYTES])
    if trailer.frame_crc != crc(answer[-HEADER_BYTES:-4], raw_crc):
        raise BoardError("the answer was damaged on its way (frame CRC does not match)")
    if trailer.status != Status.GOOD:
        raise FrameError(trailer.status, "found by the decompressor")
    expected = answer_bytes(trailer.raw_bytes)
    if answer.size != expected:
        raise BoardError(
            f"the answer has {answer.size} bytes where {expected} are expected: beats were lost, "
            "or packets merged"
        )
    if trailer.raw_crc != raw_crc:
        raise BoardError(
            "the decompressor sent other data than it checked (raw CRC does not match)"
        )
    # A frame that lay at the same place before may have the same descriptor.
    if packet[6] in LOSSLESS and raw_crc != Trailer.unpack(packet).raw_crc:
        raise BoardError("the decompressor read another frame (raw CRC does not match)")


def check_identity(answer: np.ndarray, engine: Engine, where: str) -> Trailer:
    """The trailer that answers an identify request; `BoardError` unless it is that of an ``engine``
    which this driver knows. ``where``: what was asked, for the message."""
    try:
        identity = Trailer.unpack(answer)
    except FrameError as error:
        raise BoardError(f"{where}: no answer to identify: {error}") from None
    found = (identity.status, identity.engine, identity.version)
    if found != (Status.GOOD, engine, VERSION):
        raise BoardError(
            f"{where} has an engine of kind {identity.engine}, format version "
            f"{identity.version} (status {identity.status}); this driver needs kind {engine:d} "
            f"({engine.name.lower()}), version {VERSION}: load a matching bitstream"
        )
    return identity


def _trailer(answer: np.ndarray, packet: np.ndarray) -> Trailer:
    """The answer's trailer; `BoardError` unless it belongs to ``packet``'s descriptor."""
    try:
        trailer = Trailer.unpack(answer)
    except FrameError as error:
        raise BoardError(f"the engine's answer of {answer.size} bytes is none: {error}") from None
    words = packet[:HEADER_BYTES].view("<u4")
    sent = (int(words[2]), int(words[15]), int(packet[16:24].view("<u8")[0]))
    if (trailer.sequence, trailer.descriptor_crc, trailer.raw_bytes) != sent:
        raise BoardError(
            f"answer to another frame: sequence {trailer.sequence}, {trailer.raw_bytes} raw bytes, "
            f"where sequence {sent[0]}, {sent[2]} raw bytes were sent (a frame was split or merged)"
        )
    return trailer

"""What is sent to the engines of a device."""

from __future__ import annotations

import numpy as np

from ..codecs import reference
from ..frame import ALIGN, HEADER_BYTES, Descriptor


def write_request(packet: np.ndarray, descriptor: Descriptor, data: np.ndarray) -> None:
    """Fill ``packet`` (uint8, 1-D) for the compressor: the descriptor, the data, zeros."""
    packet[:HEADER_BYTES] = np.frombuffer(descriptor.pack(), np.uint8)
    packet[HEADER_BYTES : HEADER_BYTES + data.size] = data
    packet[HEADER_BYTES + data.size :] = 0


def refuse_impossible(descriptor: Descriptor, frame: np.ndarray) -> None:
    """`FrameError` if no transfer fits ``frame`` and no good frame has its length: the reference
    says what is wrong first, as the engine would."""
    if frame.size % ALIGN or frame.size > descriptor.frame_bound:
        reference.decode_frame(frame)

"""The NumPy reference of docs/format.md: frames in and out, block by block, written to be read."""

from __future__ import annotations

import numpy as np

from ..frame import (
    ALLOWED_MODES,
    BLOCK_BYTES,
    HEADER_BYTES,
    LOSSLESS,
    Codec,
    Descriptor,
    FrameError,
    Mode,
    Operation,
    PoolShape,
    Status,
    Trailer,
    blocks,
    check_end,
    crc,
    padded,
)
from . import bsr, pool, records, rle, zvc
from .ints import Ints
from .zve import Zve

RECORD_MODES = {Codec.ZVE: Mode.ZVE, Codec.INTS: Mode.INTS}


def split_of(descriptor: Descriptor) -> records.Split | None:
    """How the frame's codec makes records; None where it makes none."""
    size = min(descriptor.element_bytes, 4)
    if descriptor.codec == Codec.ZVE:
        return Zve(size, descriptor.parameters[0])
    if descriptor.codec == Codec.INTS:
        return Ints(size, bool(descriptor.parameters[0]))
    return None


def encode_block(block: np.ndarray, descriptor: Descriptor) -> np.ndarray:
    """One block (uint8, at most 8192 long, a multiple of 64) as words, W0 first: the shortest of
    the modes its codec allows, of several the first."""
    words = block.view("<u4")
    mode, extra, planes = Mode.RAW, 0, words
    if descriptor.codec != Codec.RAW and not words.any():
        mode, planes = Mode.ZERO, words[:0]
    elif descriptor.codec != Codec.RAW:
        packed = zvc.encode(block, descriptor.element_bytes)
        if packed.size < planes.size:
            mode, planes = Mode.ZVC, packed
        split = split_of(descriptor)
        if split:
            elements = zvc.element_view(block, descriptor.element_bytes)
            mask = packed[: zvc.mask_words(block.size, descriptor.element_bytes)]
            groups, packed = records.encode(elements, mask, split)
            if packed.size < planes.size:
                mode, extra, planes = RECORD_MODES[descriptor.codec], groups, packed
        elif descriptor.codec == Codec.RLE:
            m = zvc.mask_words(block.size, descriptor.element_bytes)
            count, packed = rle.encode(packed[:m], packed[m:]) or (0, words)
            if packed.size < planes.size:
                mode, extra, planes = Mode.RLE, count, packed
    return np.concatenate([np.array([mode | extra | planes.size << 16], "<u4"), planes])


def decode_block(
    words: np.ndarray, block_bytes: int, descriptor: Descriptor
) -> tuple[np.ndarray, int]:
    """The bytes of the block that starts at ``words[0]`` and the number of words it took."""
    if words.size == 0:
        raise FrameError(Status.LENGTH, "blocks are missing")
    w0 = int(words[0])
    mode, length = w0 & 0xF, w0 >> 16
    low, high = _lengths(w0, block_bytes, descriptor)
    if not low <= length <= high:
        raise FrameError(Status.BLOCK, f"{length} words, {low} to {high} allowed")
    if length >= words.size:
        raise FrameError(Status.LENGTH, "a block is cut off")
    planes = words[1 : 1 + length]
    out = np.zeros(block_bytes, np.uint8)
    elements = zvc.element_view(out, descriptor.element_bytes)
    if mode == Mode.RAW:
        out[:] = planes.view(np.uint8)
        agree = True
    elif mode == Mode.ZERO:
        agree = True
    elif mode == Mode.ZVC:
        agree = zvc.decode(planes, elements)
    elif mode == Mode.RLE:
        agree = rle.decode(planes, w0, elements)
    else:
        agree = records.decode(planes, w0, elements, split_of(descriptor))
    if not agree:
        raise FrameError(Status.BLOCK, "its planes disagree")
    return out, 1 + length


def _lengths(w0: int, block_bytes: int, descriptor: Descriptor) -> tuple[int, int]:
    """Least and greatest number of words that may follow ``w0``."""
    mode, n = w0 & 0xF, block_bytes // 4
    impossible = FrameError(Status.BLOCK, f"mode word 0x{w0:08x}")
    if mode not in ALLOWED_MODES[descriptor.codec]:
        raise impossible
    if mode == RECORD_MODES.get(descriptor.codec):
        size = min(descriptor.element_bytes, 4)
        layout = records.layout(w0, block_bytes // size, size)
        if layout is None:
            raise impossible
        groups, m = layout
        return m + records.header_words(groups), n - 1
    m = zvc.mask_words(block_bytes, descriptor.element_bytes)
    if mode == Mode.RLE and not w0 & 0xF000:
        return rle.tag_words(m) + rle.literals(w0) + 1, n - 1
    if w0 & 0xFFF0:
        raise impossible
    return {Mode.RAW: (n, n), Mode.ZERO: (0, 0), Mode.ZVC: (m + 1, n - 1)}[mode]


def encode_frame(raw: np.ndarray, descriptor: Descriptor) -> np.ndarray:
    """The frame that holds ``raw`` (uint8, 1-D, ``descriptor.raw_bytes`` long)."""
    payload, extension, raw_crc = _encode_payload(raw, descriptor)
    head = descriptor.pack()
    body = head + payload + bytes(padded(len(payload)) - len(payload)) + extension
    trailer = Trailer(
        sequence=descriptor.sequence,
        descriptor_crc=int.from_bytes(head[-4:], "little"),
        raw_bytes=descriptor.raw_bytes,
        payload_bytes=len(payload),
        raw_crc=raw_crc,
    )
    return np.frombuffer(body + trailer.pack(crc(body)), np.uint8)


def decode_frame(packet: np.ndarray) -> tuple[Descriptor, np.ndarray]:
    """Descriptor and data (uint8, padding cut off) of one frame; `FrameError` if it is not good."""
    descriptor = Descriptor.unpack(packet)
    if descriptor.operation != Operation.TRANSFER:
        raise FrameError(Status.OPERATION, "an identify request holds no data")
    if packet.size % 64 or packet.size < 2 * HEADER_BYTES:
        raise FrameError(Status.LENGTH, f"{packet.size} bytes")
    words = packet[HEADER_BYTES:-HEADER_BYTES].view("<u4")
    data, walked = _decode_payload(words, descriptor)
    raw_crc = crc(data) if descriptor.codec in LOSSLESS else 0
    check_end(packet, descriptor, walked, raw_crc)
    return descriptor, data[: descriptor.raw_bytes]


def _encode_payload(raw: np.ndarray, descriptor: Descriptor) -> tuple[bytes, bytes, int]:
    """Payload, extension, and the raw CRC of a frame."""
    if descriptor.codec == Codec.BSR:
        return *bsr.encode(raw, descriptor), 0
    if descriptor.codec == Codec.POOL:
        return pool.encode(raw, PoolShape.of(descriptor.parameters)), b"", 0
    data = np.zeros(padded(raw.size), np.uint8)
    data[: raw.size] = raw
    words = [
        encode_block(data[i : i + BLOCK_BYTES], descriptor)
        for i in range(0, data.size, BLOCK_BYTES)
    ]
    return b"".join(w.tobytes() for w in words), b"", crc(data)


def _decode_payload(words: np.ndarray, descriptor: Descriptor) -> tuple[np.ndarray, int]:
    """The data, of blocks with its padding, and the bytes that the payload takes."""
    if descriptor.codec == Codec.POOL:
        return pool.decode(words, PoolShape.of(descriptor.parameters))
    if descriptor.codec == Codec.BSR:
        return bsr.decode(words, descriptor)
    total = padded(descriptor.raw_bytes)
    parts, position = [np.empty(0, np.uint8)], 0
    for number in range(blocks(total)):
        size = min(BLOCK_BYTES, total - number * BLOCK_BYTES)
        block, taken = decode_block(words[position:], size, descriptor)
        parts.append(block)
        position += taken
    return np.concatenate(parts), 4 * position

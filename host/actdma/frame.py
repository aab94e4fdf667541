"""The frame format of docs/format.md: descriptor, trailer, status, bounds.

This is the one Python definition of the format; ``hls/include/actdma/frame.hpp`` is the one in C++.
Sizes are in bytes unless a name says words.
"""

from __future__ import annotations

import dataclasses
import enum
import itertools
import math
import numbers
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import ClassVar

import crc32c as _crc32c
import numpy as np

MAGIC = 0x414D4441
TRAILER_MAGIC = 0x544D4441
VERSION = 1
HEADER_BYTES = 64
PARAMETERS = 8  # words of the descriptor that belong to the codec
ALIGN = 64
BLOCK_BYTES = 8192
MAX_RAW_BYTES = 1 << 30
MAX_EXPANSION = BLOCK_BYTES // 4  # raw bytes per byte of a frame: a block of zeros is one word
POOL_ROW_BYTES = 16384  # longest row of a map: the line buffer of the engines
FRAME_BYTES = 4 << 20  # raw data per frame unless the caller asks otherwise

_DESCRIPTOR = struct.Struct("<I4BIBBHQ8III")
_TRAILER = struct.Struct("<IIIIQQIII4II")


class Operation(enum.IntEnum):
    """What an engine is asked to do."""

    IDENTIFY = 0
    TRANSFER = 1


class Codec(enum.IntEnum):
    """How a frame stores its data: in blocks (the lossless ones, `LOSSLESS`) or otherwise."""

    RAW = 0
    ZVC = 1
    ZVE = 2
    INTS = 3
    RLE = 4
    POOL = 5
    BSR = 6


class Mode(enum.IntEnum):
    """How one block is stored (bits 0 to 3 of its first word)."""

    RAW = 0
    ZERO = 1
    ZVC = 2
    ZVE = 3
    INTS = 4
    RLE = 5


ALLOWED_MODES = {
    Codec.RAW: frozenset({Mode.RAW}),
    Codec.ZVC: frozenset({Mode.RAW, Mode.ZERO, Mode.ZVC}),
    Codec.ZVE: frozenset({Mode.RAW, Mode.ZERO, Mode.ZVC, Mode.ZVE}),
    Codec.INTS: frozenset({Mode.RAW, Mode.ZERO, Mode.ZVC, Mode.INTS}),
    Codec.RLE: frozenset({Mode.RAW, Mode.ZERO, Mode.ZVC, Mode.RLE}),
}

LOSSLESS = tuple(ALLOWED_MODES)

# Element bytes that a codec takes.
ELEMENTS = {
    Codec.RAW: (1, 2, 4, 8),
    Codec.ZVC: (1, 2, 4, 8),
    Codec.ZVE: (2, 4),
    Codec.INTS: (1, 2, 4, 8),
    Codec.RLE: (1, 2, 4, 8),
    Codec.POOL: (1, 2, 4),
    Codec.BSR: (2, 4),
}


class PoolKind(enum.IntEnum):
    """How the elements of pooled maps are read."""

    FP32 = 0
    BF16 = 1
    FP16 = 2
    INT8 = 3


POOL_ELEMENT_BYTES = {PoolKind.FP32: 4, PoolKind.BF16: 2, PoolKind.FP16: 2, PoolKind.INT8: 1}


@dataclasses.dataclass(frozen=True)
class PoolShape:
    """The parameters of codec pool: ``maps`` maps of ``height`` x ``width``, windows of k x k."""

    k: int
    kind: int
    height: int
    width: int
    maps: int

    unused: int = 0  # bits that must be 0

    @classmethod
    def of(cls, parameters: Sequence[int]) -> PoolShape:
        """From the descriptor's words."""
        first, height, width, maps = parameters[:4]
        return cls(first & 0xFF, first >> 8 & 0xFF, height, width, maps, first >> 16)

    def allowed(self, element_bytes: int) -> bool:
        """Whether a frame of elements of this size may have this shape."""
        return (
            self.unused == 0
            and self.k in (2, 4, 8)
            and POOL_ELEMENT_BYTES.get(self.kind) == element_bytes
            and self.height > 0
            and 0 < self.width * element_bytes <= POOL_ROW_BYTES
        )

    @property
    def parameters(self) -> tuple[int, int, int, int]:
        """The descriptor's words."""
        return self.k | self.kind << 8, self.height, self.width, self.maps

    @property
    def pooled(self) -> tuple[int, int]:
        """Height and width of a pooled map."""
        return -(-self.height // self.k), -(-self.width // self.k)

    @property
    def element_bytes(self) -> int:
        """Bytes of an element."""
        return POOL_ELEMENT_BYTES[PoolKind(self.kind)]

    @property
    def map_bytes(self) -> int:
        """Raw bytes of one map."""
        return self.height * self.width * self.element_bytes

    @property
    def payload_bytes(self) -> int:
        """Bytes of all pooled maps, rounded up to whole words."""
        height, width = self.pooled
        return -(-self.maps * height * width * self.element_bytes // 4) * 4


class Engine(enum.IntEnum):
    """Which engine answered an identify request."""

    COMPRESSOR = 1
    DECOMPRESSOR = 2


class Status(enum.IntEnum):
    """What is wrong with a packet; the lowest that holds is reported."""

    GOOD = 0
    MAGIC = 1
    DESCRIPTOR_CRC = 2
    VERSION = 3
    OPERATION = 4
    CODEC = 5
    ELEMENT = 6
    RESERVED = 7
    RAW_BYTES = 8
    BLOCK = 9
    LENGTH = 10
    TRAILER = 11
    FRAME_CRC = 12
    RAW_CRC = 13


_REASONS = {
    Status.MAGIC: "it does not begin with the magic 'ADMA'",
    Status.DESCRIPTOR_CRC: "the descriptor is damaged (its CRC does not match)",
    Status.VERSION: f"its format version is not {VERSION}",
    Status.OPERATION: "its operation is unknown",
    Status.CODEC: "its codec is unknown or not built in",
    Status.ELEMENT: "its element size is not 1, 2, 4 or 8 bytes, or none that its codec takes",
    Status.RESERVED: "a reserved field is not zero, or a parameter of its codec is not allowed",
    Status.RAW_BYTES: f"its raw length is above {MAX_RAW_BYTES} or not the expected one",
    Status.BLOCK: "a block's mode or length is impossible, or its planes disagree",
    Status.LENGTH: "it is cut off, or longer than it announces",
    Status.TRAILER: "its trailer does not belong to its descriptor, or reports an error",
    Status.FRAME_CRC: "its bytes were altered (frame CRC does not match)",
    Status.RAW_CRC: "the decoded data is not what was encoded (raw CRC does not match)",
}


class FrameError(ValueError):
    """A frame was refused; ``status`` says why (docs/format.md, Status)."""

    def __init__(self, status: int, detail: str = "") -> None:
        try:
            self.status: int = Status(status)
            reason = _REASONS.get(self.status, self.status.name)
        except ValueError:
            self.status = status
            reason = f"unknown status {status}"
        super().__init__(f"bad frame: {reason}" + (f" ({detail})" if detail else ""))


class DType(enum.IntEnum):
    """Element types and their codes in the descriptor; names are those of NumPy and PyTorch."""

    uint8 = 0
    int8 = 1
    bool = 2
    int16 = 3
    uint16 = 4
    float16 = 5
    bfloat16 = 6
    int32 = 7
    uint32 = 8
    float32 = 9
    int64 = 10
    uint64 = 11
    float64 = 12
    complex64 = 13
    complex128 = 14
    complex32 = 15
    float8_e4m3fn = 16
    float8_e5m2 = 17

    @property
    def itemsize(self) -> int:
        """Bytes of one item."""
        return _ITEMSIZE[self]

    @property
    def element_bytes(self) -> int:
        """Size of what a codec looks at: the item, or a complex item's real part."""
        return self.itemsize // 2 if self.name.startswith("complex") else self.itemsize


_ITEMSIZE = dict(zip(DType, (1, 1, 1, 2, 2, 2, 2, 4, 4, 4, 8, 8, 8, 8, 16, 4, 1, 1), strict=True))


POOL_DTYPES = dict(
    zip(PoolKind, (DType.float32, DType.bfloat16, DType.float16, DType.int8), strict=True)
)


def crc(data, value: int = 0) -> int:
    """CRC-32C of a bytes-like object; ``value`` continues an earlier one."""
    return _crc32c.crc32c(data, value)


def padded(nbytes: int) -> int:
    """``nbytes`` rounded up to a multiple of 64."""
    return -(-nbytes // ALIGN) * ALIGN


def padded_crcs(data: np.ndarray, borders: list[int]) -> list[int]:
    """CRC-32C of each part of ``data`` (uint8, 1-D) between the borders, padded to 64 bytes."""
    parts = [data[start:stop] for start, stop in itertools.pairwise(borders)]
    return [crc(bytes(padded(part.size) - part.size), crc(part)) for part in parts]


def blocks(raw_bytes: int) -> int:
    """Number of blocks that hold ``raw_bytes`` of data."""
    return -(-padded(raw_bytes) // BLOCK_BYTES)


def frame_bound(raw_bytes: int) -> int:
    """Largest frame that ``raw_bytes`` of data can make: every block raw."""
    return 2 * HEADER_BYTES + padded(padded(raw_bytes) + 4 * blocks(raw_bytes))


def answer_bytes(raw_bytes: int) -> int:
    """Length of the decompressor's answer to a good frame."""
    return padded(raw_bytes) + HEADER_BYTES


@dataclasses.dataclass(frozen=True)
class Descriptor:
    """The first 64 bytes of every packet to an engine and of every frame."""

    codec: int = Codec.ZVC
    element_bytes: int = 4
    raw_bytes: int = 0
    sequence: int = 0
    last: bool = True
    dtype: int = DType.uint8
    operation: int = Operation.TRANSFER
    parameters: tuple[int, ...] = ()  # of the codec, eight words; those left out are 0

    def __post_init__(self) -> None:
        missing = PARAMETERS - len(self.parameters)
        if missing:
            object.__setattr__(self, "parameters", (*self.parameters, *(0,) * missing))

    @classmethod
    def identify(cls, sequence: int = 0) -> Descriptor:
        """The request that an engine answers with its version, kind, lanes and codecs."""
        return cls(
            codec=0, element_bytes=0, sequence=sequence, last=False, operation=Operation.IDENTIFY
        )

    @property
    def frame_bound(self) -> int:
        """Largest frame that the data announced can make."""
        if self.codec == Codec.BSR:
            return BsrShape.of(self.parameters).frame_bound(self.raw_bytes)
        return frame_bound(self.raw_bytes)

    def pack(self) -> bytes:
        """The 64 bytes of the descriptor, CRC included."""
        body = _DESCRIPTOR.pack(
            MAGIC,
            VERSION,
            self.operation,
            self.codec,
            self.element_bytes,
            self.sequence,
            int(self.last),
            self.dtype,
            0,
            self.raw_bytes,
            *self.parameters,
            0,
            0,
        )[:-4]
        return body + struct.pack("<I", crc(body))

    @classmethod
    def unpack(cls, data) -> Descriptor:
        """Read a descriptor from the first 64 bytes of ``data``; `FrameError` if it is not good."""
        if len(data) < HEADER_BYTES:
            raise FrameError(Status.LENGTH, f"{len(data)} bytes, a descriptor has {HEADER_BYTES}")
        head = bytes(data[:HEADER_BYTES])
        (
            magic,
            version,
            operation,
            codec,
            element,
            sequence,
            flags,
            dtype,
            reserved,
            raw,
            *parameters,
            reserved_word,
            own_crc,
        ) = _DESCRIPTOR.unpack(head)
        if magic != MAGIC:
            raise FrameError(Status.MAGIC, f"found {bytes(head[:4])!r}")
        if own_crc != crc(head[:-4]):
            raise FrameError(Status.DESCRIPTOR_CRC)
        if version != VERSION:
            raise FrameError(Status.VERSION, f"found {version}")
        if operation not in (Operation.IDENTIFY, Operation.TRANSFER):
            raise FrameError(Status.OPERATION, f"found {operation}")
        if operation == Operation.TRANSFER:
            if codec not in ELEMENTS:
                raise FrameError(Status.CODEC, f"found {codec}")
            if element not in ELEMENTS[codec]:
                raise FrameError(Status.ELEMENT, f"found {element}")
        if reserved or flags & ~1 or reserved_word:
            raise FrameError(Status.RESERVED)
        means = codec if operation == Operation.TRANSFER else Codec.RAW
        if not _allowed_parameters(means, element, parameters):
            raise FrameError(Status.RESERVED, f"parameters {parameters}")
        if raw > MAX_RAW_BYTES or not _allowed_size(means, parameters, raw):
            raise FrameError(Status.RAW_BYTES, f"found {raw}")
        last = bool(flags & 1)
        return cls(codec, element, raw, sequence, last, dtype, operation, tuple(parameters))


def _allowed_parameters(codec: int, element_bytes: int, parameters: list[int]) -> bool:
    """Whether a codec takes these parameters."""
    if codec == Codec.POOL:
        return PoolShape.of(parameters).allowed(element_bytes) and not any(parameters[4:])
    if codec == Codec.BSR:
        return BsrShape.of(parameters).allowed(element_bytes) and not any(parameters[3:])
    first = {0}  # exponent bits of zve, whether ints are signed
    if codec == Codec.ZVE:
        first = {5, 8} if element_bytes == 2 else {8}
    elif codec == Codec.INTS:
        first = {0, 1}
    return parameters[0] in first and not any(parameters[1:])


def _allowed_size(codec: int, parameters: list[int], raw_bytes: int) -> bool:
    """Whether data of allowed parameters may have this length."""
    if codec == Codec.POOL:
        shape = PoolShape.of(parameters)
        return shape.map_bytes <= MAX_RAW_BYTES and shape.maps * shape.map_bytes == raw_bytes
    return codec != Codec.BSR or raw_bytes % BsrShape.of(parameters).block_bytes == 0


class Norm(enum.IntEnum):
    """How bsr measures a block."""

    L1 = 0
    L2 = 1
    MAX = 2


@dataclasses.dataclass(frozen=True)
class BsrShape:
    """The parameters of a bsr frame (docs/format.md, bsr).

    ``block``: rows and columns of a block; ``kind``: 0 float32, 1 bfloat16, 2 float16; ``columns``:
    blocks in a block row; ``threshold``: float32 bits, for L2 of the square; ``unused``: bits that
    must be 0.
    """

    block: int
    norm: int
    kind: int
    columns: int
    threshold: int
    unused: int = 0

    BLOCKS: ClassVar = (4, 8, 16, 32)
    KINDS: ClassVar = (DType.float32, DType.bfloat16, DType.float16)
    HISTOGRAM_BINS: ClassVar = 64
    HISTOGRAM_BYTES: ClassVar = 4 * HISTOGRAM_BINS
    HISTOGRAM_BASE: ClassVar = 95  # exponent field of the first bin
    GROUP_WORDS: ClassVar = 1024  # of a group's blocks, at most

    @classmethod
    def of(cls, parameters: Sequence[int]) -> BsrShape:
        """The shape that a descriptor's words say, allowed or not."""
        first, columns, threshold = parameters[:3]
        return cls(
            first & 0xFF, first >> 8 & 0xFF, first >> 16 & 0xFF, columns, threshold, first >> 24
        )

    @property
    def parameters(self) -> tuple[int, int, int]:
        """The descriptor's words."""
        return (self.block | self.norm << 8 | self.kind << 16, self.columns, self.threshold)

    def allowed(self, element_bytes: int) -> bool:
        """Whether a frame of elements of this size may have this shape."""
        return (
            self.block in self.BLOCKS
            and self.norm in Norm.__members__.values()
            and self.kind < len(self.KINDS)
            and self.KINDS[self.kind].itemsize == element_bytes
            and self.columns > 0
            and self.threshold <= 0x7F800000
            and not self.unused
        )

    @property
    def block_bytes(self) -> int:
        """Bytes of a block."""
        return self.block**2 * self.KINDS[self.kind].itemsize

    @property
    def row_bytes(self) -> int:
        """Bytes of a block row."""
        return self.columns * self.block_bytes

    @property
    def group(self) -> int:
        """Blocks that a word of bits stands before."""
        return min(32, 4 * self.GROUP_WORDS // self.block_bytes)

    def groups(self, raw_bytes: int) -> Iterator[int]:
        """How many blocks each group of a frame has."""
        left = raw_bytes // self.block_bytes
        while left:
            row = min(left, self.columns)
            left -= row
            yield from (min(self.group, row - i) for i in range(0, row, self.group))

    def frame_bound(self, raw_bytes: int) -> int:
        """Largest frame that ``raw_bytes`` of data can make: every block kept."""
        rows, rest = divmod(raw_bytes // self.block_bytes, self.columns)
        groups = rows * -(-self.columns // self.group) + -(-rest // self.group)
        return 2 * HEADER_BYTES + padded(raw_bytes + 4 * groups) + self.HISTOGRAM_BYTES


@dataclasses.dataclass(frozen=True)
class Trailer:
    """The last 64 bytes of every packet from an engine and of every frame."""

    status: int = Status.GOOD
    sequence: int = 0
    descriptor_crc: int = 0
    raw_bytes: int = 0
    payload_bytes: int = 0
    raw_crc: int = 0
    identity: int = 0
    codecs: int = 0
    frame_crc: int = 0

    def pack(self, crc_before: int = 0) -> bytes:
        """The 64 bytes of the trailer; ``crc_before``: the CRC of the packet so far."""
        body = _TRAILER.pack(
            TRAILER_MAGIC,
            self.status,
            self.sequence,
            self.descriptor_crc,
            self.raw_bytes,
            self.payload_bytes,
            self.raw_crc,
            self.identity,
            self.codecs,
            *(0,) * 4,
            0,
        )[:-4]
        return body + struct.pack("<I", crc(body, crc_before))

    @classmethod
    def unpack(cls, data) -> Trailer:
        """Read the trailer in the last 64 bytes of ``data``; `FrameError` if there is none."""
        if len(data) < HEADER_BYTES:
            raise FrameError(Status.LENGTH, f"{len(data)} bytes, a trailer has {HEADER_BYTES}")
        magic, *fields = _TRAILER.unpack(bytes(data[-HEADER_BYTES:]))
        if magic != TRAILER_MAGIC:
            raise FrameError(Status.TRAILER, f"no trailer magic, found 0x{magic:08x}")
        return cls(*fields[:8], frame_crc=fields[-1])

    @property
    def version(self) -> int:
        """Format version, in the answer to identify."""
        return self.identity & 0xFF

    @property
    def engine(self) -> int:
        """`Engine`, in the answer to identify."""
        return self.identity >> 8 & 0xFF

    @property
    def lanes(self) -> int:
        """32-bit lanes per beat, in the answer to identify."""
        return self.identity >> 16


@dataclasses.dataclass(repr=False, eq=False)
class Frame:
    """A compressed tensor: one or more frames of docs/format.md, one after the other.

    ``data`` is a 1-D uint8 array, ``offsets`` the start of every frame in it and the last's end,
    ``cycles`` the fabric's clock cycles that compressing took (None where no fabric was used),
    ``layout`` what `actdma.arrays` needs to rebuild the caller's array (None: a flat array),
    ``zeros`` how many elements had no bit set (None where the backend did not count).
    `FrameError` if ``raw_nbytes`` is more than ``data`` can hold.
    """

    data: np.ndarray
    offsets: tuple[int, ...]
    raw_nbytes: int
    dtype: DType
    codec: Codec
    cycles: int | None = None
    layout: object | None = None
    zeros: int | None = None

    def __post_init__(self) -> None:
        if self.raw_nbytes > MAX_EXPANSION * self.nbytes:
            raise FrameError(
                Status.RAW_BYTES, f"{self.raw_nbytes} bytes of data in {self.nbytes} bytes"
            )

    @property
    def nbytes(self) -> int:
        """Compressed bytes, descriptors and trailers included."""
        return self.data.nbytes

    @property
    def ratio(self) -> float:
        """Raw bytes per compressed byte."""
        return self.raw_nbytes / self.nbytes

    def __bytes__(self) -> bytes:
        return self.data.tobytes()

    def __repr__(self) -> str:
        return (
            f"Frame({self.codec.name.lower()}, {self.dtype.name}, {self.raw_nbytes} bytes in "
            f"{self.nbytes}, ratio {self.ratio:.2f}, {len(self.offsets) - 1} frame(s))"
        )

    def packets(self) -> Iterator[np.ndarray]:
        """Views of the single frames."""
        for start, stop in itertools.pairwise(self.offsets):
            yield self.data[start:stop]

    def holds(
        self, data: np.ndarray, crcs: Callable[[np.ndarray, list[int]], list[int]] | None = None
    ) -> bool:
        """Whether ``data`` (uint8, 1-D, ``raw_nbytes`` long) is what was compressed, by the raw
        CRCs: for frames of one's own, of a lossless codec. ``crcs``: takes the place of
        `padded_crcs`."""
        trailers = [Trailer.unpack(packet) for packet in self.packets()]
        borders = [0, *itertools.accumulate(trailer.raw_bytes for trailer in trailers)]
        return (crcs or padded_crcs)(data, borders) == [trailer.raw_crc for trailer in trailers]

    @classmethod
    def of(
        cls, frame: Frame | bytes | bytearray | memoryview, max_bytes: int | None = None
    ) -> Frame:
        """``frame`` itself or parsed from its bytes; errors as `parse`, TypeError for others."""
        if isinstance(frame, (bytes, bytearray, memoryview)):
            return cls.parse(frame, max_bytes)
        if not isinstance(frame, Frame):
            raise TypeError(f"expected a Frame or its bytes, got {type(frame).__name__}")
        if frame.raw_nbytes > _limit(max_bytes):
            raise FrameError(Status.RAW_BYTES, f"more than {max_bytes} bytes of data")
        return frame

    @classmethod
    def parse(
        cls, data: bytes | bytearray | memoryview | np.ndarray, max_bytes: int | None = None
    ) -> Frame:
        """The `Frame` whose bytes are ``data``.

        Walks descriptors, block lengths and trailers only: a backend checks the rest when it
        decodes. `FrameError` if the frames do not end where the data ends, or as soon as they
        announce more than ``max_bytes`` of raw data; without it, they hold at most `MAX_EXPANSION`
        times ``data``. Takes time in proportion to ``data``.
        """
        limit = _limit(max_bytes)
        array = np.frombuffer(data, np.uint8)
        offsets = [0]
        raw_nbytes, first = 0, None
        while True:
            packet = array[offsets[-1] :]
            descriptor = Descriptor.unpack(packet)
            first = first or descriptor
            check_sequence(descriptor, first, len(offsets) - 1)
            raw_nbytes += descriptor.raw_bytes
            if raw_nbytes > limit:
                raise FrameError(Status.RAW_BYTES, f"more than {max_bytes} bytes of data")
            offsets.append(offsets[-1] + _frame_length(packet, descriptor))
            if descriptor.last:
                break
        if raw_nbytes % DType(first.dtype).itemsize:
            raise FrameError(
                Status.RAW_BYTES,
                f"{raw_nbytes} bytes are no whole number of {DType(first.dtype).name} items",
            )
        if offsets[-1] != len(array):
            raise FrameError(
                Status.LENGTH, f"{len(array) - offsets[-1]} bytes follow the last frame"
            )
        return cls(array, tuple(offsets), raw_nbytes, DType(first.dtype), Codec(first.codec))


def _limit(max_bytes: int | None) -> float:
    """The most data that a caller expects; ValueError if that is no size."""
    if max_bytes is None:
        return math.inf
    if not isinstance(max_bytes, numbers.Integral) or max_bytes < 0:
        raise ValueError(f"max_bytes is {max_bytes!r}, allowed are None and integers from 0 on")
    return max_bytes


def check_sequence(descriptor: Descriptor, first: Descriptor, number: int) -> None:
    """`FrameError` unless this is frame ``number`` of the tensor begun by ``first`` (frame 0)."""
    if descriptor.operation != Operation.TRANSFER:
        raise FrameError(Status.OPERATION, "an identify request holds no data")
    if descriptor.sequence != number:
        raise FrameError(Status.TRAILER, f"frame {descriptor.sequence} where {number} was expected")
    if _tensor(descriptor) != _tensor(first):
        raise FrameError(Status.RESERVED, "frames of different tensors follow each other")
    if descriptor is first:  # then it holds for the others
        _check_tensor(descriptor)


def _check_tensor(descriptor: Descriptor) -> None:
    """`FrameError` unless the descriptor can be that of a tensor: dtype, codec and kind fit."""
    if descriptor.dtype not in DType.__members__.values():
        raise FrameError(Status.RESERVED, f"unknown dtype code {descriptor.dtype}")
    if descriptor.element_bytes != DType(descriptor.dtype).element_bytes:
        raise FrameError(
            Status.ELEMENT,
            f"{descriptor.element_bytes} bytes per element of {DType(descriptor.dtype).name}",
        )
    kind = _lossy_dtype(descriptor)
    if kind not in (None, descriptor.dtype):
        raise FrameError(
            Status.RESERVED, f"{kind.name} by its kind, {DType(descriptor.dtype).name} by its dtype"
        )


def _lossy_dtype(descriptor: Descriptor) -> DType | None:
    """What a lossy codec has read the elements as; None where the codec is lossless."""
    if descriptor.codec == Codec.POOL:
        return POOL_DTYPES[PoolKind(PoolShape.of(descriptor.parameters).kind)]
    if descriptor.codec == Codec.BSR:
        return BsrShape.KINDS[BsrShape.of(descriptor.parameters).kind]
    return None


def _tensor(descriptor: Descriptor) -> tuple:
    """What all frames of a tensor say of it; a parameter after the third may be a frame's own."""
    d = descriptor
    return d.dtype, d.codec, d.element_bytes, d.parameters[:3]


def check_end(packet: np.ndarray, descriptor: Descriptor, payload_bytes: int, raw_crc: int) -> None:
    """`FrameError` unless ``packet`` ends as a good frame of this payload does."""
    extension = extension_bytes(descriptor.codec)
    if packet.size != 2 * HEADER_BYTES + padded(payload_bytes) + extension:
        raise FrameError(Status.LENGTH, "data follows the payload")
    trailer = Trailer.unpack(packet)
    descriptor_crc = int.from_bytes(bytes(packet[HEADER_BYTES - 4 : HEADER_BYTES]), "little")
    found = (trailer.status, trailer.sequence, trailer.descriptor_crc)
    lengths = (trailer.raw_bytes, trailer.payload_bytes)
    if found != (Status.GOOD, descriptor.sequence, descriptor_crc):
        raise FrameError(Status.TRAILER)
    if lengths != (descriptor.raw_bytes, payload_bytes):
        raise FrameError(Status.TRAILER, "it tells other lengths")
    if trailer.frame_crc != crc(packet[:-4]):
        raise FrameError(Status.FRAME_CRC)
    if trailer.raw_crc != raw_crc:
        raise FrameError(Status.RAW_CRC)


def extension_bytes(codec: int) -> int:
    """Bytes between the padded payload and the trailer."""
    return BsrShape.HISTOGRAM_BYTES if codec == Codec.BSR else 0


def _frame_length(packet: np.ndarray, descriptor: Descriptor) -> int:
    """Bytes of the first frame in ``packet``: told by its parameters, or by walking its blocks."""
    if descriptor.codec == Codec.POOL:
        payload = PoolShape.of(descriptor.parameters).payload_bytes
    else:
        payload = _blocks_length(packet, descriptor)
    length = 2 * HEADER_BYTES + padded(payload) + extension_bytes(descriptor.codec)
    if length > len(packet):
        raise FrameError(Status.LENGTH, f"{len(packet)} bytes, {length} expected")
    magic, _, _, _, *lengths = _TRAILER.unpack_from(packet, length - HEADER_BYTES)[:6]
    if magic != TRAILER_MAGIC or lengths != [descriptor.raw_bytes, payload]:
        raise FrameError(Status.TRAILER, "its trailer tells other lengths")
    return length


def _blocks_length(packet: np.ndarray, descriptor: Descriptor) -> int:
    words = packet[HEADER_BYTES : len(packet) // 4 * 4].view("<u4")
    steps: Iterable[int] = range(blocks(descriptor.raw_bytes))
    position, block_words = 0, None
    if descriptor.codec == Codec.BSR:
        shape = BsrShape.of(descriptor.parameters)
        steps, block_words = shape.groups(descriptor.raw_bytes), shape.block_bytes // 4
    for _ in steps:
        if position >= len(words):
            raise FrameError(Status.LENGTH, "blocks are missing")
        first = int(words[position])
        position += 1 + (first.bit_count() * block_words if block_words else first >> 16)
    return 4 * position

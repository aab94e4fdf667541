"""The public functions: compress an array or a tensor, and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from .arrays import Layout, from_bytes, numpy_dtype, to_bytes
from .backend import Backend, ReferenceBackend
from .codecs import Bsr, Coding, Lossy, Pool, best_codec, bsr, takes
from .frame import FRAME_BYTES, LOSSLESS, Codec, DType, Frame, FrameError, Status

AUTO = "auto"
BACKENDS = ("native", "board", "reference")
LOSSY: dict[str, type[Lossy]] = {"pool": Pool, "bsr": Bsr}


def codec_of(name: str, dtype: DType) -> Codec:
    """The lossless `Codec` called ``name``; ValueError that lists the known ones.

    "auto" is the one that suits ``dtype`` best.
    """
    if name == AUTO:
        return best_codec(dtype)
    known = {codec.name.lower(): codec for codec in LOSSLESS}
    if name not in known:
        names = ", ".join(map(repr, (*known, AUTO)))
        if name in LOSSY or isinstance(name, tuple(LOSSY.values())):
            raise ValueError(f"codec {name!r} is lossy; lossless are {names}")
        raise ValueError(f"unknown codec {name!r}; known are {names}")
    return known[name]


def suited_codec(name: str, dtype: DType) -> Codec:
    """`codec_of`, or the best one of ``dtype`` where that does not take it."""
    codec = codec_of(name, dtype)
    return codec if takes(codec, dtype) else best_codec(dtype)


def prepare(
    codec: str | Lossy, data: np.ndarray, layout: Layout, backend: Backend
) -> tuple[Any, Codec | Coding]:
    """What ``backend`` compresses, and how it is coded, with ``codec``: the name of any codec, a
    lossy one's for its defaults, or a lossy codec with its choices. ValueError or TypeError if it
    cannot be."""
    if isinstance(codec, str):
        if codec not in LOSSY:
            return data, codec_of(codec, layout.dtype)
        codec = LOSSY[codec]()
    if not isinstance(codec, tuple(LOSSY.values())):
        raise TypeError(f"expected a codec or its name, got {type(codec).__name__}")
    own = getattr(backend, "prepare", None)
    return own(codec, data, layout) if own else codec.prepare(data, layout)


def backend_of(backend: str | Backend) -> Backend:
    """The backend called ``backend``, or itself if it is one.

    "native" is the CPU's codec, "board" the process's shared board (`actdma.open_board` with
    "auto"), "reference" the NumPy golden model.
    """
    if not isinstance(backend, str):
        if isinstance(backend, Backend) and not isinstance(backend, type):
            return backend
        raise TypeError(f"expected a backend or its name, got {type(backend).__name__}")
    if backend == "native":
        from .native import NativeBackend

        return NativeBackend()
    if backend == "board":
        from .board import shared_board

        return shared_board()
    if backend == "reference":
        return ReferenceBackend()
    raise ValueError(f"unknown backend {backend!r}; known are {', '.join(map(repr, BACKENDS))}")


def compress(
    x: Any,
    codec: str | Lossy = "zvc",
    backend: str | Backend = "native",
    *,
    frame_bytes: int = FRAME_BYTES,
) -> Frame:
    """Compress ``x``, without loss unless ``codec`` is a lossy one: `actdma.codecs.Pool` or `Bsr`.

    ``x``: NumPy array or dense PyTorch tensor, any shape, strides and device, of a dtype in
    `actdma.frame.DType`; values, dtype and shape come back, subclasses as their base. ``codec``:
    "zvc", "rle" or "raw" for every dtype, "zve" for floating point of 16 or 32 bits (and complex
    pairs of them), "ints" for integers and bool, "auto" for the one that suits the dtype best;
    a lossy codec says what it takes and what comes back.
    ``frame_bytes``: raw bytes per frame, a multiple of 8192. Every backend returns the same bytes.
    TypeError for other inputs, ValueError for unknown names, a codec that does not take the dtype
    and a bool whose byte is neither 0 nor 1.
    """
    data, layout = to_bytes(x)
    if layout.dtype == DType.bool and data.size and data.max() > 1:
        raise ValueError(f"a bool has the byte {data.max()}, allowed are 0 and 1")
    backend = backend_of(backend)
    data, coding = prepare(codec, data, layout, backend)
    frame = backend.compress(data, layout.dtype, coding, frame_bytes)
    frame.layout = layout
    return frame


def decompress(
    frame: Frame | bytes | bytearray | memoryview,
    backend: str | Backend = "native",
    *,
    max_bytes: int | None = None,
) -> Any:
    """What was compressed: same type, dtype, shape and, unless the codec is a lossy one, bits, in
    memory the caller owns.

    From a frame's bytes: a flat NumPy array of the frame's dtype (bfloat16 and float8, which NumPy
    lacks, as unsigned integers), of codec bsr a matrix of whole blocks; shape and library are not
    part of the format. ``max_bytes``: the most data that frames from outside may announce, else
    they hold at most 2048 times their own bytes (a block of zeros takes a word for 8 KiB); nothing
    is allocated for more. `actdma.FrameError` if the frame is not good.
    """
    frame = Frame.of(frame, max_bytes)
    out = np.empty(frame.raw_nbytes, np.uint8)
    backend_of(backend).decompress(frame, out)
    if frame.dtype == DType.bool and out.size and out.max() > 1:
        raise FrameError(Status.RAW_CRC, "a bool that is neither 0 nor 1")
    if frame.codec == Codec.BSR:
        return from_bytes(*bsr.restore(frame, out))
    count = frame.raw_nbytes // numpy_dtype(frame.dtype).itemsize
    return from_bytes(out, frame.layout or Layout(frame.dtype, (count,)))

"""The codecs: per codec its parameters and a NumPy reference, the golden model of the others."""

from __future__ import annotations

from ..frame import LOSSLESS, Codec, DType
from .bsr import Bsr
from .coding import Coding, Lossy
from .pool import Pool

__all__ = ["Bsr", "Coding", "Lossy", "Pool", "best_codec", "parameters", "takes"]

_EXPONENT_BITS = {
    DType.float32: 8,
    DType.complex64: 8,
    DType.bfloat16: 8,
    DType.float16: 5,
    DType.complex32: 5,
}
_SIGNED = {
    **dict.fromkeys((DType.int8, DType.int16, DType.int32, DType.int64), 1),
    **dict.fromkeys((DType.bool, DType.uint8, DType.uint16, DType.uint32, DType.uint64), 0),
}


def takes(codec: Codec, dtype: DType) -> bool:
    """Whether the lossless ``codec`` can store elements of ``dtype``: zve floating point of 16 and
    32 bits and its complex pairs, ints integers and bool, the others everything."""
    if codec not in LOSSLESS:
        return False
    return dtype in {Codec.ZVE: _EXPONENT_BITS, Codec.INTS: _SIGNED}.get(codec, DType)


def best_codec(dtype: DType) -> Codec:
    """The lossless codec that suits ``dtype`` best."""
    return next(c for c in (Codec.ZVE, Codec.INTS, Codec.ZVC) if takes(c, dtype))


def parameters(codec: Codec, dtype: DType) -> tuple[int, ...]:
    """The descriptor's parameters for ``codec`` and ``dtype``; ValueError where they do not fit."""
    if not takes(codec, dtype):
        raise ValueError(
            f"codec {codec.name.lower()} does not take {dtype.name}; "
            f"{best_codec(dtype).name.lower()} does"
        )
    if codec == Codec.ZVE:
        return (_EXPONENT_BITS[dtype],)
    return (_SIGNED[dtype],) if codec == Codec.INTS else ()

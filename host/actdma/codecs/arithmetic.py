"""The floating-point arithmetic of docs/format.md, whatever the calling thread has set."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator

_C = ctypes.CDLL(None)
_C.fegetenv.argtypes = _C.fesetenv.argtypes = [ctypes.c_void_p]
_DEFAULT = ctypes.c_void_p(-1)  # FE_DFL_ENV of <fenv.h> on Linux
_ENVIRONMENT_BYTES = 64  # more than any fenv_t


@contextlib.contextmanager
def default_arithmetic() -> Iterator[None]:
    """Round to nearest and keep denormals, which ``torch.set_flush_denormal(True)`` flushes."""
    found = ctypes.create_string_buffer(_ENVIRONMENT_BYTES)
    _C.fegetenv(found)
    _C.fesetenv(_DEFAULT)
    try:
        yield
    finally:
        _C.fesetenv(found)

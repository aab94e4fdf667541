"""`compress` and `decompress` for asyncio: the event loop runs on while a board is at work.

    frame = await actdma.compress_async(x, backend=board)

Errors are raised where they are awaited. What is cancelled is waited for, because its thread still
reads the caller's memory: a tensor under way ends well or with an error, and the board stays
usable.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Callable
from typing import Any, TypeVar

from .api import compress, decompress
from .backend import Backend
from .codecs import Lossy
from .frame import FRAME_BYTES, Frame

_Result = TypeVar("_Result")


async def compress_async(
    x: Any,
    codec: str | Lossy = "zvc",
    backend: str | Backend = "native",
    *,
    frame_bytes: int = FRAME_BYTES,
) -> Frame:
    """See `actdma.compress`. ``x`` must not change until this is done."""
    return await _in_thread(functools.partial(compress, x, codec, backend, frame_bytes=frame_bytes))


async def decompress_async(
    frame: Frame | bytes | bytearray | memoryview,
    backend: str | Backend = "native",
    *,
    max_bytes: int | None = None,
) -> Any:
    """See `actdma.decompress`. ``frame`` must not change until this is done."""
    return await _in_thread(functools.partial(decompress, frame, backend, max_bytes=max_bytes))


async def _in_thread(call: Callable[[], _Result]) -> _Result:
    work = asyncio.ensure_future(asyncio.to_thread(call))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        while not work.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([work])
        if not work.cancelled():
            work.exception()  # nobody else will ask for it
        raise

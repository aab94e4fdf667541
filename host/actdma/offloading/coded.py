"""Spans that hold less than the values: codes of what an operator needs, and lossy ones."""

from __future__ import annotations

import mmap
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from ..api import prepare
from ..arrays import from_bytes, to_bytes, torch_dtype_code
from ..codecs import best_codec, bsr
from ..codecs.bsr import Parts
from ..frame import Codec
from .arena import Arena
from .coder import Coder
from .needs import Approximate, Coded, Shape
from .packed import Memory, PackedSpan, Span, compressed, decompressed
from .records import Record
from .storages import View, touched
from .transfer import Decoded, Source, adopt


class CodedSpan(Span):
    """A tensor of which a code is held (`needs.Coded`), compressed; or nothing at all."""

    def __init__(
        self, t: torch.Tensor, need: Coded | Shape, coder: Coder, memory: Memory, record: Record
    ) -> None:
        super().__init__(touched(t), 0, record, memory)
        self._need = need
        self._like = _Like(t)
        self._code: PackedSpan | None = None
        record.raw_bytes = 0
        code = need.encode(t)
        if code is not None:
            self._view = View.of(code)
            record.raw_bytes = code.nbytes
            codec = best_codec(torch_dtype_code(code.dtype))
            record.codec = codec.name.lower()
            self._code = PackedSpan(
                Source(code), touched(code), codec, coder, memory, record, verify=False
            )

    def _bring(self) -> Decoded:
        if self._code is None:
            return adopt(self._like.untouched(), self._memory.held.add(0))
        t = self._like.empty(self._memory.decoded)
        with torch.no_grad():
            self._need.decode(self._code.view(self._view), t)
        return adopt(t, self._memory.held.add(self.nbytes))


class LossySpan(Span):
    """A tensor that a lossy codec has coded. TypeError or ValueError if it cannot."""

    def __init__(
        self, t: torch.Tensor, need: Approximate, coder: Coder, memory: Memory, record: Record
    ) -> None:
        super().__init__(touched(t), 0, record, memory)
        self._coder = coder
        self._like = _Like(t)
        data, layout = to_bytes(t)
        data, coding = prepare(need.codec, data, layout, coder.backend)
        record.codec = coding.codec.name.lower()
        self._frame = compressed(data, layout.dtype, coding, coder, memory, record)
        self._frame.layout = layout
        self._share = memory.held.add(self._frame.nbytes)

    def parts(self) -> Parts:
        """The kept blocks of a block-sparse matrix."""
        return self._coder.parts(self._frame)

    def _bring(self) -> Decoded:
        raw = np.empty(self._frame.raw_nbytes, np.uint8)
        decompressed(self._frame, raw, self._coder, self.record)
        layout = self._frame.layout
        if self._frame.codec == Codec.BSR:
            raw, layout = bsr.restore(self._frame, raw)
        t = from_bytes(raw, layout)
        if t.stride() != self._like.stride:
            t = self._like.empty(self._memory.decoded).copy_(t)
        return adopt(t, self._memory.held.add(self.nbytes))


class _Like:
    """What it takes to allocate a tensor of the same form."""

    def __init__(self, t: torch.Tensor) -> None:
        self.stride = t.stride()
        self._form = {"size": t.shape, "stride": t.stride(), "dtype": t.dtype, "device": t.device}

    def empty(self, arena: Arena) -> torch.Tensor:
        """Such a tensor, dense, with anything in it: on the host, memory of ``arena``."""
        return self._in(lambda nbytes: np.asarray(arena.take(nbytes)))

    def untouched(self) -> torch.Tensor:
        """Such a tensor, dense, that nobody will look at: on the host, addresses without memory."""
        return self._in(lambda nbytes: mmap.mmap(-1, nbytes))

    def _in(self, memory_of: Callable[[int], Any]) -> torch.Tensor:
        form = self._form
        nbytes = form["size"].numel() * form["dtype"].itemsize
        if form["device"].type != "cpu" or not nbytes:
            return torch.empty_strided(**form)
        items = torch.frombuffer(memory_of(nbytes), dtype=form["dtype"])
        return items.as_strided(form["size"], form["stride"])

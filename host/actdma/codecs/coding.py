"""What a codec is told of a tensor: its number, its parameters, and where the tensor may be cut."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Protocol

import numpy as np

from ..arrays import Layout
from ..frame import BLOCK_BYTES, PARAMETERS, Codec


@dataclasses.dataclass(frozen=True)
class Coding:
    """How one tensor is to be coded.

    ``parameters``: the descriptor's words; ``unit_bytes``: a frame holds whole units of this many
    raw bytes, at least one, as far as the tensor goes; ``unit``: what one is called; ``counter``:
    the parameter that says how many units a frame holds, None where none does.
    """

    codec: Codec
    parameters: tuple[int, ...] = ()
    unit_bytes: int = BLOCK_BYTES
    unit: str = "block"
    counter: int | None = None

    def cut(self, raw_bytes: int, frame_bytes: int) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Raw bytes and parameters of each frame, at most ``frame_bytes`` of raw data in each
        unless one unit is more; one empty frame where there is no data."""
        step = max(1, frame_bytes // self.unit_bytes) * self.unit_bytes
        for start in range(0, raw_bytes, step) or range(1):
            size = min(step, raw_bytes - start)
            words = [*self.parameters, *(0,) * (PARAMETERS - len(self.parameters))]
            if self.counter is not None:
                words[self.counter] = size // self.unit_bytes
            yield size, tuple(words)


class Lossy(Protocol):
    """A codec with the choices of its user: `actdma.codecs.Pool`, `actdma.codecs.Bsr`."""

    def prepare(self, data: np.ndarray, layout: Layout) -> tuple[np.ndarray, Coding]:
        """The tensor's bytes (uint8, 1-D) in the order that the codec takes, and how they are
        coded; TypeError or ValueError if they cannot be."""
        ...

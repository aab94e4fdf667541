"""Max pooling's indices as places in their windows: of a map's int64, a byte and less."""

from __future__ import annotations

import dataclasses
import functools
from types import ModuleType
from typing import Any

import numpy as np
import torch


@dataclasses.dataclass(frozen=True)
class Window:
    """Where in its window the maximum lay, in place of its place in the map (max-pooling's int64
    indices). ``width``: of the map; sizes as those of `torch.nn.functional.max_pool2d`, in pairs.
    """

    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]
    width: int
    name = "window index"
    why = "the place in its window tells the place in the map"

    @property
    def possible(self) -> bool:
        """Whether a byte is enough, and places in a window tell rows from columns."""
        height, width = self.kernel
        return height * width <= 256 and (width - 1) * self.dilation[1] < self.width

    def encode(self, t: torch.Tensor) -> torch.Tensor:
        """See `Coded`."""
        array = self._array(t)
        if array is not None:
            return self._native("window_codes", t, torch.empty_like(t, dtype=torch.uint8), array)
        return self._by_torch(t)

    def _by_torch(self, t: torch.Tensor) -> torch.Tensor:
        place = (t - self._corners(t)).to(torch.int32)
        line = self.dilation[0] * self.width
        row = torch.zeros_like(place)
        for number in range(1, self.kernel[0]):
            row += place >= number * line
        place -= row * line
        if self.dilation[1] > 1:
            place = torch.div(place, self.dilation[1], rounding_mode="floor")
        return place.add_(row.mul_(self.kernel[1])).to(torch.uint8)

    def decode(self, code: torch.Tensor, out: torch.Tensor) -> None:
        """The very indices."""
        array = self._array(out)
        if array is not None and code.stride() == out.stride():
            self._native("window_indices", code, out, array)
            return
        row, column = (torch.arange(n, device=out.device) for n in self.kernel)
        line, step = self.dilation[0] * self.width, self.dilation[1]
        places = (row[:, None] * line + column * step).reshape(-1)
        torch.add(places[code.long()], self._corners(out), out=out)

    def _corners(self, t: torch.Tensor) -> torch.Tensor:
        """Place in the map of each window's first element; outside of it where there is padding."""
        row, column = (
            torch.arange(size, device=t.device) * stride - padding
            for size, stride, padding in zip(t.shape[-2:], self.stride, self.padding, strict=True)
        )
        return row[:, None] * self.width + column

    def _array(self, t: torch.Tensor) -> tuple[int, int, int, int] | None:
        """Maps, rows, columns and channels of ``t`` as it lies in memory; None if the native code
        is not there, or not for it."""
        if t.device.type != "cpu" or _native() is None or not self.possible:
            return None
        height, width = t.shape[-2:]
        if t.is_contiguous():
            return (t.numel() // (height * width), height, width, 1)
        if t.ndim == 4 and t.is_contiguous(memory_format=torch.channels_last):
            return (t.shape[0], height, width, t.shape[1])
        return None

    def _native(
        self, way: str, t: torch.Tensor, out: torch.Tensor, array: tuple[int, int, int, int]
    ) -> torch.Tensor:
        sizes = (self.width, *self.kernel, *self.stride, *self.padding, *self.dilation)
        code = getattr(_native(), way)
        code(_flat(t), _flat(out), array, sizes, torch.get_num_threads())
        return out


@functools.cache
def _native() -> ModuleType | None:
    try:
        from ..native import _native
    except ImportError:
        return None
    return _native


def _flat(t: torch.Tensor) -> np.ndarray:
    """The elements of a dense tensor as they lie in memory."""
    return t.detach().as_strided((t.numel(),), (1,)).numpy()


def pair(size: Any) -> tuple[int, int]:
    """``size`` for rows and columns, as PyTorch's functions take it."""
    if isinstance(size, (tuple, list)):
        return (int(size[0]), int(size[-1]))
    return (int(size), int(size))

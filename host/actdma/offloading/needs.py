"""What backward functions need of a saved tensor, where that is less than its values."""

from __future__ import annotations

import dataclasses
from typing import Any, Protocol

import torch

from ..codecs import Lossy


class Need(Protocol):
    """What a backward function needs of a saved tensor; equal needs share one span. ``why``: a
    sentence for `Session.plan`."""

    name: str
    why: str


@dataclasses.dataclass(frozen=True)
class Values:
    """Every bit."""

    name = "values"
    why = "backward looks at every bit"


@dataclasses.dataclass(frozen=True)
class Approximate:
    """The values, as a lossy ``codec`` gives them back. ``module``: whose rule that is."""

    codec: Lossy
    module: str | None = dataclasses.field(default=None, compare=False)
    why = "only the weight's gradient looks at it, and a lossy rule holds there"

    @property
    def name(self) -> str:
        """The codec's, with the choices that were made."""
        chosen = vars(self.codec).items()
        choices = ", ".join(f"{name}={value!r}" for name, value in chosen if value is not None)
        return f"{type(self.codec).__name__}({choices})"


class Coded(Need, Protocol):
    """Less than the values: a code of as many elements."""

    def encode(self, t: torch.Tensor) -> torch.Tensor:
        """The code of ``t``: bool or uint8, in its shape. ValueError if its values are needed after
        all."""
        ...

    def decode(self, code: torch.Tensor, out: torch.Tensor) -> None:
        """Fill ``out`` (shape, strides and dtype of ``t``) with what does as well as ``t``."""
        ...


@dataclasses.dataclass(frozen=True)
class Shape:
    """Nothing but shape, strides and dtype: pooling does not look at its input again."""

    name = "shape"
    why = "pooling does not look at its input again"

    def encode(self, t: torch.Tensor) -> None:
        """No code: there is nothing to decode."""


@dataclasses.dataclass(frozen=True)
class Positive:
    """Which elements are above zero (leaky ReLU, of its input or result)."""

    name = "sign"
    why = "the gradient depends on the sign alone"

    def encode(self, t: torch.Tensor) -> torch.Tensor:
        """See `Coded`."""
        return t > 0

    def decode(self, code: torch.Tensor, out: torch.Tensor) -> None:
        """1 where it was above zero, else 0."""
        _fill(out, code)


@dataclasses.dataclass(frozen=True)
class NotZero:
    """Which elements of a ReLU's result pass the gradient: all but those at most zero, so that NaN
    passes, as in PyTorch's `threshold_backward`."""

    name = "sign"
    why = "the gradient passes or does not"

    def encode(self, t: torch.Tensor) -> torch.Tensor:
        """See `Coded`."""
        return t.bool()  # a result is not negative; PyTorch has vector code for this

    def decode(self, code: torch.Tensor, out: torch.Tensor) -> None:
        """1 where the gradient passes, else 0."""
        _fill(out, code)


@dataclasses.dataclass(frozen=True)
class Between:
    """Which elements lie between two bounds (ReLU6, Hardtanh)."""

    low: float
    high: float
    name = "range"
    why = "the gradient passes between the bounds alone"

    @property
    def possible(self) -> bool:
        """Whether something lies between in every dtype."""
        return self.low < self._middle < self.high and self._middle in (0.0, 0.5, 1.0, 2.0, 3.0)

    @property
    def _middle(self) -> float:
        return (self.low + self.high) / 2

    def encode(self, t: torch.Tensor) -> torch.Tensor:
        """See `Coded`. ValueError where there is a NaN: PyTorch's vector code stops the gradient
        there, its scalar code at the end of a line lets it pass."""
        if t.sum().isnan():
            raise ValueError("NaN is neither between the bounds nor beyond them")
        return (t > self.low).logical_and_(t < self.high)

    def decode(self, code: torch.Tensor, out: torch.Tensor) -> None:
        """The middle where it lay between, else the upper bound."""
        _fill(out, code).mul_(self._middle - self.high).add_(self.high)


@dataclasses.dataclass(frozen=True)
class Noise:
    """Dropout's factors: 0 or 1 / (1 - p)."""

    p: float
    name = "mask"
    why = "dropout's factors are 0 or 1 / (1 - p)"

    def encode(self, t: torch.Tensor) -> torch.Tensor:
        """See `Coded`."""
        return t != 0

    def decode(self, code: torch.Tensor, out: torch.Tensor) -> None:
        """The very factors."""
        _fill(out, code).div_(1 - self.p)


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


def _fill(out: torch.Tensor, code: torch.Tensor) -> torch.Tensor:
    """``out``, 1 where ``code`` (bool) holds and 0 elsewhere."""
    return out.copy_(code.view(torch.uint8))  # PyTorch has vector code for bytes, none for bool


VALUES = Values()


def pair(size: Any) -> tuple[int, int]:
    """``size`` for rows and columns, as PyTorch's functions take it."""
    if isinstance(size, (tuple, list)):
        return (int(size[0]), int(size[-1]))
    return (int(size), int(size))

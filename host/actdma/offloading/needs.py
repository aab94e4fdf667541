"""What backward functions need of a saved tensor, where that is less than its values."""

from __future__ import annotations

import dataclasses
from typing import Protocol

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
        there, its scalar code at the end of a line lets it pass; and where the dtype rounds the
        bounds, which PyTorch compares with more bits."""
        bounds = [self.low, self.high]
        if t.element_size() < 4 and t.new_tensor(bounds).tolist() != bounds:
            raise ValueError(f"the bounds are no numbers of {t.dtype}")
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


def _fill(out: torch.Tensor, code: torch.Tensor) -> torch.Tensor:
    """``out``, 1 where ``code`` (bool) holds and 0 elsewhere."""
    return out.copy_(code.view(torch.uint8))  # PyTorch has vector code for bytes, none for bool


VALUES = Values()

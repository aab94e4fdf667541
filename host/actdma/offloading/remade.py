"""Tensors that are computed again from what is held anyway, instead of being held."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import time
import weakref
from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

import torch

from .packed import Memory, Span, digest
from .passing import Kept
from .records import Record
from .saving import Packed
from .storages import View, is_whole
from .transfer import Decoded, Source, adopt

Make = Callable[..., torch.Tensor]


class Held(Protocol):
    """Something that a tensor can be had from, for as long as this lives. ``fresh``: it is made for
    the one who asks alone."""

    fresh: bool

    def get(self) -> torch.Tensor:
        """The tensor."""
        ...


class Form(NamedTuple):
    """What a tensor has to be like to be all of a storage."""

    dtype: torch.dtype
    shape: torch.Size
    stride: tuple[int, ...]

    @classmethod
    def of(cls, t: torch.Tensor) -> Form:
        """That of ``t``; alike for those that lie alike."""
        if t.is_contiguous():
            return cls(t.dtype, torch.Size([t.numel()]), (1,))
        strides = (s if n > 1 else 0 for n, s in zip(t.shape, t.stride(), strict=True))
        return cls(t.dtype, t.shape, tuple(strides))

    @property
    def nbytes(self) -> int:
        """Bytes of the storage."""
        return self.shape.numel() * self.dtype.itemsize


@dataclasses.dataclass(eq=False)
class Made:
    """How a tensor came about: ``make`` of what the ``origins`` give.

    ``in_place``: the same, written over the first of these, where that may be. ``form``: the
    tensor's. ``constants``: bytes of what ``make`` has to itself. ``depth``: residual additions on
    the way.
    """

    operator: str
    make: Make
    origins: tuple[Origin, ...]
    constants: int = 0
    depth: int = 0
    version: int = 0
    form: Form | None = None
    span: weakref.ref[Remade] | None = None
    in_place: Make | None = None

    @functools.cached_property
    def length(self) -> int:
        """Operators on the way, this one too."""
        before = (o.source.length for o in self.origins if isinstance(o.source, Made))
        return 1 + max(before, default=0)

    def hold(self) -> _Again | None:
        """What gives the tensor, if all it is made of can still be had."""
        held = [origin.hold() for origin in self.origins]
        return None if None in held else _Again(self.make, self.in_place, held)


@dataclasses.dataclass(frozen=True)
class Origin:
    """Where a tensor can be had from in the backward pass: from one that is saved, as long as that
    lives, or by making it."""

    source: weakref.ref[Packed] | weakref.ref[Kept] | Made
    view: View
    depth: int = 0

    @classmethod
    def of(cls, saved: Packed) -> Origin:
        """The tensor that is saved as ``saved``."""
        return cls(weakref.ref(saved), saved.view)

    def hold(self) -> Held | None:
        """What gives the tensor; None if its source is gone, or was changed too early."""
        if isinstance(self.source, Made):
            return self._of_made(self.source)
        saved = self.source()
        if saved is None or not saved.settled():
            return None
        if isinstance(saved, Packed):
            return saved.twin(self.view)
        return _Viewed(saved.unpack, self.view, fresh=False)

    def _of_made(self, made: Made) -> Held | None:
        span = made.span and made.span()
        if span is None:
            again = made.hold()
            return again and _Viewed(again.get, self.view, fresh=True)
        packed = Packed(self.view, None)  # it is made for others, too: once for all
        packed.lies_in(span)
        return packed


@dataclasses.dataclass
class _Again:
    make: Make
    in_place: Make | None
    sources: list[Held]
    fresh = True

    def get(self) -> torch.Tensor:
        tensors = [source.get() for source in self.sources]
        over = self.in_place and self.sources[0].fresh and is_whole(tensors[0])
        return again(self.in_place if over else self.make, *tensors)


@dataclasses.dataclass
class _Viewed:
    """A view of the storage of what ``whole`` gives."""

    whole: Callable[[], torch.Tensor]
    view: View
    fresh: bool

    def get(self) -> torch.Tensor:
        whole = self.whole().detach()
        storage = whole.untyped_storage()
        flat = torch.empty(0, dtype=torch.uint8, device=whole.device)
        return self.view.on(flat.set_(storage, 0, (storage.nbytes(),), (1,)), 0)


class Remade(Span):
    """A tensor that is made again when it is asked for. ``verify``: compare a hash of it then."""

    def __init__(
        self,
        t: torch.Tensor,
        made: Made,
        again: _Again,
        memory: Memory,
        record: Record,
        verify: bool,
    ) -> None:
        super().__init__((0, made.form.nbytes), 0, record, memory)
        self._form = made.form
        self.depth = made.depth
        self._again = again
        self._threads = torch.get_num_threads()
        self._share = memory.held.add(made.constants)
        self._digest = digest(Source(t).bytes(0, made.form.nbytes)) if verify else None

    def _bring(self) -> Decoded:
        began = time.perf_counter()
        with _threads(self._threads):
            t = self._again.get()
        if Form.of(t) != self._form or not is_whole(t):
            raise RuntimeError(f"{self.record.operator} gave {Form.of(t)}, it was {self._form}")
        self.record.spent("make again", began)
        if self._digest is not None:
            self._check(Source(t).bytes(0, self.nbytes), self._digest)
        return adopt(t, self._memory.held.add(self.nbytes))


def again(make: Make, *inputs: torch.Tensor) -> torch.Tensor:
    """``make(*inputs)``, as PyTorch computes it without gradients and without autocast."""
    device = inputs[0].device.type
    if torch.is_autocast_enabled(device):
        with torch.autocast(device, enabled=False):
            return again(make, *inputs)
    with torch.no_grad():
        return make(*inputs)


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors are alike in dtype, shape, strides and every bit."""
    if (a.dtype, a.shape, a.stride()) != (b.dtype, b.shape, b.stride()):
        return False
    integer = {2: torch.int16, 4: torch.int32, 8: torch.int64}.get(a.element_size())
    return integer is not None and torch.equal(a.view(integer), b.view(integer))


@contextlib.contextmanager
def _threads(count: int) -> Iterator[None]:
    """Vector code handles the ends of each thread's part otherwise: as many threads, same bits."""
    before = torch.get_num_threads()
    if before == count:
        yield
        return
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)

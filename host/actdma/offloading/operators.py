"""What is known of tensors while operators run: where they can be had from in the backward pass."""

from __future__ import annotations

import dataclasses
import functools
import threading
import weakref
from collections.abc import Callable
from typing import Any

import torch

from .block_sparse import Kept as BlockSparse
from .needs import VALUES, Approximate, Need
from .passing import Kept, unsuitable
from .remade import Form, Made, Make, Origin, again, same_bits
from .saving import Packed
from .storages import StorageTable, View, is_dense, is_whole, touched

ADDITIONS = 1
"""Residual additions that are done again, one upon the other."""

LENGTH = 16
"""Operators that run again, one upon the other."""

# Whether making again gives the very bits, by operator and form: tried at the first tensor.
_exact: dict[tuple, bool] = {}

NeedOf = Callable[[torch.Tensor], Need]


@dataclasses.dataclass
class Running:
    """An operator that is running.

    ``need_of``: what it needs of a tensor that it saves. ``result``: how its result comes about,
    where it saves that. ``copied``: the input that autocast may copy before it is saved.
    """

    need_of: NeedOf | None = None
    result: Made | None = None
    copied: torch.Tensor | None = None
    saved: list[Packed | Kept] = dataclasses.field(default_factory=list)


class Operators:
    """What operators need, and how results came about.

    ``exact``: whether tensors are made again. ``lossy``: gives the
    need of the input of an operator ("conv2d", "linear"), by the running module. ``keep``: holds a
    matrix as a block-sparse one. ``gains_nothing``: notes a rule that is of no use, and why.
    """

    def __init__(
        self,
        exact: bool,
        lossy: Callable[[str], Approximate | None],
        keep: Callable[[torch.Tensor, Approximate], BlockSparse],
        gains_nothing: Callable[[Approximate, str], None],
    ) -> None:
        self.exact = exact
        self.lossy = lossy
        self.keep = keep
        self.gains_nothing = gains_nothing
        self._thread = threading.local()
        self._saved: StorageTable[tuple[weakref.ref[Packed | Kept], int]] = StorageTable()
        self._made: StorageTable[Made] = StorageTable()

    @property
    def running(self) -> Running:
        """The operator that is running in this thread."""
        running = getattr(self._thread, "running", None)
        return running or Running()

    def run(self, running: Running, call: Callable[[], Any]) -> Any:
        """What ``call`` returns; ``running`` is what runs meanwhile."""
        before = getattr(self._thread, "running", None)
        self._thread.running = running
        try:
            return call()
        finally:
            self._thread.running = before

    def need_of(self, t: torch.Tensor) -> Need:
        """What the running operator needs of ``t``, which it saves."""
        need_of = self.running.need_of
        return need_of(t) if need_of else VALUES

    def made(self, t: torch.Tensor) -> Made | None:
        """How ``t``, which is being saved, came about."""
        made = self._made.get(t.untyped_storage())
        if made is not None and made.version == t._version and _counts_with_others(t):
            return made
        running = self.running
        if running.result is not None:
            return self.remember(t, running.result)
        if self.exact and running.copied is not None and is_copy(t, running.copied):
            return self.remember(t, self._cast(running.copied, t.dtype))
        return None

    def noted(self, t: torch.Tensor, saved: Packed | Kept) -> None:
        """``t`` is saved as ``saved``."""
        self.running.saved.append(saved)
        if isinstance(saved, Kept) or saved.need is VALUES:
            self._saved.put(t.untyped_storage(), (weakref.ref(saved), t._version))

    def forget(self) -> None:
        """What was seen so far is not made again."""
        self._saved.clear()
        self._made.clear()

    def origin(self, t: object) -> Origin | None:
        """Where ``t`` can be had from in the backward pass; None if nowhere."""
        if not isinstance(t, torch.Tensor) or unsuitable(t) or t.is_inference():
            return None
        storage = t.untyped_storage()
        if not _counts_with_others(t):
            return None
        known = self._saved.get(storage)
        saved = known[0]() if known and known[1] == t._version else None
        if isinstance(saved, Kept):
            return Origin(known[0], View.of(t))
        if saved is not None and saved.covers(touched(t)):
            span = saved.span_or_none
            return Origin(known[0], View.of(t), span.depth if span else 0)
        made = self._made.get(storage)
        if made is not None and made.version == t._version:
            return Origin(made, View.of(t), made.depth)
        return None

    def remember(self, t: torch.Tensor, made: Made | None) -> Made | None:
        """``t`` came about as ``made`` says, if it is all of its storage and not at the end of a
        long chain; returns ``made`` then."""
        if made is None or not is_whole(t) or made.length > LENGTH:
            return None
        made.version, made.form = t._version, Form.of(t)
        return self._made.put(t.untyped_storage(), made)

    def is_exact(self, key: tuple, y: torch.Tensor, make: Make, *inputs: torch.Tensor) -> bool:
        """Whether ``make(*inputs)`` gives ``y`` in every bit, or did when an operator of this
        ``key`` was first seen: vector units and PyTorch's threads decide that, too."""
        forms = ((t.dtype, _order(t), t.is_contiguous(), is_dense(t)) for t in (y, *inputs))
        key = (*key, y.device.type, *forms, torch.get_num_threads())
        if key not in _exact:
            _exact[key] = same_bits(again(make, *(t.detach() for t in inputs)), y.detach())
        return _exact[key]

    def _cast(self, t: torch.Tensor, dtype: torch.dtype) -> Made | None:
        origin = self.origin(t)
        make = functools.partial(torch.Tensor.to, dtype=dtype)
        return Made("_to_copy", make, (origin,), depth=origin.depth) if origin else None


def is_copy(t: torch.Tensor, original: torch.Tensor) -> bool:
    """Whether ``t``, or what it is a view of, is the copy that autocast made of ``original``."""
    base = t._base if t._is_view() else t
    node = base.grad_fn
    if t.dtype == original.dtype or node is None or not node.name().startswith("ToCopyBackward"):
        return False
    before, number = node.next_functions[0]
    if getattr(before, "variable", None) is original:
        return True
    return before is original.grad_fn and number == original.output_nr


def _counts_with_others(t: torch.Tensor) -> bool:
    """Whether ``t`` counts versions with others of its storage: parts of `torch.unsafe_chunk` and
    its like are no views, and do not."""
    return t._is_view() or is_whole(t)


def _order(t: torch.Tensor) -> tuple[int, ...]:
    """The dimensions in the order of their strides."""
    return tuple(sorted(range(t.ndim), key=lambda d: (-t.stride(d), d)))

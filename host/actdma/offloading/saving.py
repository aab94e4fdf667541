"""Saved tensors, and the storages they are views of until those are packed."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable

import torch

from .needs import VALUES, Need
from .packed import Span
from .queue import Result
from .storages import View
from .transfer import Source
from .versions import Version


class Packed:
    """A saved tensor: a view of a span, and the version it had."""

    __slots__ = ("__weakref__", "_version", "asked", "need", "saving", "span_or_none", "view")
    fresh = False  # others may get the same memory

    def __init__(self, view: View, version: Version | None, need: Need = VALUES) -> None:
        self.view, self._version, self.need = view, version, need
        self.asked = False
        self.saving: Saving | None = None
        self.span_or_none: Span | None = None

    def unpack(self) -> torch.Tensor:
        """The tensor; RuntimeError if the original was modified in place after it was saved."""
        if self._version is not None:
            self._version.check()
        return self.get()

    def get(self) -> torch.Tensor:
        """The tensor as it was saved; RuntimeError if it was changed before it could be packed."""
        self.asked = True
        span = self.span
        if self._version is None and self.saving is not None and self.saving.stale:
            raise RuntimeError("a tensor was modified in place before a thread had packed it")
        return span.view(self.view)

    def settled(self) -> bool:
        """Whether it was packed, or is now, as it was when it was saved."""
        return self.saving is None or self.saving.settled()

    @property
    def span(self) -> Span:
        """What it is a view of; waits until that is packed."""
        if self.span_or_none is None:
            self.saving.end().result()
        return self.span_or_none

    def lies_in(self, span: Span) -> None:
        """It is a view of ``span``."""
        self.span_or_none = span
        span.claim(self)

    def twin(self, view: View) -> Packed:
        """Another view of the same, to be asked for once more in each backward pass."""
        twin = Packed(view, None, self.need)
        if self.saving is None:
            twin.lies_in(self.span)
        else:
            self.saving.add(twin)
        return twin

    def covers(self, span: tuple[int, int]) -> bool:
        """Whether these bytes of the storage can be had from what it is a view of."""
        start, stop = self.saving.whole if self.saving else (self.span.start, self.span.stop)
        return start <= span[0] and span[1] <= stop


class Saving:
    """A storage of which tensors are being saved. It is packed when another one is saved, or when
    backward begins: the same tensor is often saved twice in a row, as one operator's result and
    the next one's input, and only then is it known what of it is needed."""

    def __init__(
        self,
        source: Source,
        needed: tuple[int, int],
        whole: tuple[int, int],
        pack: Callable[[Saving], Result[None]],
    ) -> None:
        self.source = source
        self.whole = whole
        self.needed = needed
        self.stale = False  # changed before it was packed
        self._pack = pack
        self._lock = threading.RLock()
        self._result: Result[None] | None = None
        self._claimants: list[weakref.ref[Packed]] = []
        self._spans: dict[Need, weakref.ref[Span]] | None = None

    def takes(self, source: Source, needed: tuple[int, int]) -> bool:
        """Whether a tensor with these bytes may still join: not if that is too late, or another
        storage, or an earlier state of it."""
        return (
            self._result is None
            and source.storage._cdata == self.source.storage._cdata
            and source.version == self.source.version
            and self.whole[0] <= needed[0]
            and needed[1] <= self.whole[1]
        )

    def add(self, packed: Packed) -> None:
        """``packed`` will ask for what is saved; what it needs of it, others need already if this
        is ended."""
        with self._lock:
            packed.saving = self
            if self._spans is None:
                self._claimants.append(weakref.ref(packed))
            else:
                packed.lies_in(self._spans[packed.need]())

    def settled(self) -> bool:
        """Have it packed, unless it was changed before. Whether it is as it was."""
        with self._lock:
            if self._spans is None and self.source.moved:
                return False
        self.end()
        return not self.stale

    def needs(self) -> set[Need]:
        """What those who have joined, and are still there, need."""
        return {packed.need for packed in self._alive()}

    def end(self) -> Result[None]:
        """Have it packed, once."""
        with self._lock:
            if self._result is None:
                self._result = self._pack(self)
                del self._pack
            return self._result

    def packed_in(self, spans: dict[Need, Span]) -> None:
        """It is packed: each need is served by one of ``spans``."""
        with self._lock:
            for packed in self._alive():
                spans[packed.need].record.saves += 1
                packed.lies_in(spans[packed.need])
            self._spans = {need: weakref.ref(span) for need, span in spans.items()}
            self._claimants.clear()
            self.stale = self.source.moved
            self.source = None

    def _alive(self) -> Iterable[Packed]:
        return [packed for packed in (reference() for reference in self._claimants) if packed]

"""Storages of tensors: which bytes a tensor touches, its view of them, and a table by storage."""

from __future__ import annotations

import dataclasses
from typing import Generic, TypeVar

import torch
from torch.multiprocessing.reductions import StorageWeakRef

T = TypeVar("T")

# Memory of PyTorch's CPU allocator begins at a multiple of this, and vector libraries may choose
# their code by the address modulo it.
CACHE_LINE = 64
LARGEST_ITEM = 16


def touched(t: torch.Tensor) -> tuple[int, int]:
    """First byte and end of the bytes of its storage that ``t`` (strided, not empty) touches."""
    last = sum((size - 1) * stride for size, stride in zip(t.shape, t.stride(), strict=True))
    start = t.storage_offset() * t.element_size()
    return start, start + (last + 1) * t.element_size()


def span_to_pack(t: torch.Tensor, needed: tuple[int, int]) -> tuple[int, int]:
    """The bytes to pack for ``t``: those ``needed``, which it touches, or its whole storage.

    A view with gaps that reaches over most of its storage (q of an interleaved q, k, v) usually has
    siblings in the gaps; the whole storage is packed then, once, instead of every sibling's span.
    """
    start, stop = needed
    size = t.untyped_storage().nbytes()
    if t.numel() * t.element_size() < stop - start and 2 * (stop - start) > size:
        return 0, max(stop, size // t.element_size() * t.element_size())
    return start, stop


def offset_in_line(storage: torch.UntypedStorage, start: int) -> int:
    """Where in a cache line byte ``start`` of ``storage`` lies: a copy should lie alike.

    A base address that no item could have is rounded down, so that items stay whole in the copy.
    """
    base = storage.data_ptr() // LARGEST_ITEM * LARGEST_ITEM
    return (base + start) % CACHE_LINE


@dataclasses.dataclass(frozen=True)
class View:
    """How a tensor looks at its storage; ``start`` in bytes, ``stride`` in items."""

    start: int
    dtype: torch.dtype
    shape: torch.Size
    stride: tuple[int, ...]
    conj: bool
    neg: bool

    @classmethod
    def of(cls, t: torch.Tensor) -> View:
        """The view that the strided tensor ``t`` is."""
        start = t.storage_offset() * t.element_size()
        return cls(start, t.dtype, t.shape, t.stride(), t.is_conj(), t.is_neg())

    def on(self, copy: torch.UntypedStorage, shift: int) -> torch.Tensor:
        """The same view of ``copy``, where every byte of the original lies ``shift`` further on."""
        t = torch.empty(0, dtype=self.dtype, device=copy.device)
        t.set_(copy, (self.start + shift) // self.dtype.itemsize, self.shape, self.stride)
        if self.conj:
            t = t.conj()
        return torch._neg_view(t) if self.neg else t


class WeakStorage:
    """A reference to a storage that does not keep its memory."""

    def __init__(self, storage: torch.UntypedStorage) -> None:
        self._ref = StorageWeakRef(storage)

    def __call__(self) -> torch.UntypedStorage | None:
        """The storage, or None if its memory was freed."""
        return torch.UntypedStorage._new_with_weak_ptr(self._ref.cdata)


class StorageTable(Generic[T]):
    """Values by storage, keeping no storage's memory.

    The weak reference beside a value keeps the storage's header, hence its address, from being
    reused: an address found here is the storage that was put here.
    """

    def __init__(self) -> None:
        self._entries: dict[int, tuple[StorageWeakRef, T]] = {}

    def __contains__(self, storage: torch.UntypedStorage) -> bool:
        return storage._cdata in self._entries

    def get(self, storage: torch.UntypedStorage) -> T | None:
        """The value put for ``storage``."""
        entry = self._entries.get(storage._cdata)
        return entry and entry[1]

    def put(self, storage: torch.UntypedStorage, value: T) -> T:
        """Remember ``value`` for ``storage``; returns it."""
        self._entries[storage._cdata] = (StorageWeakRef(storage), value)
        return value

    def clear(self) -> None:
        """Forget everything."""
        self._entries.clear()

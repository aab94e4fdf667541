"""Storages of tensors: which bytes a tensor touches, its view of them, and a table by storage."""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

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


def is_dense(t: torch.Tensor) -> bool:
    """Whether the elements of ``t`` lie side by side, in any order, none of them twice."""
    if t.is_contiguous():
        return True
    expected = 1
    for stride, size in sorted(zip(t.stride(), t.shape, strict=True)):
        if size == 1:
            continue
        if stride != expected:
            return False
        expected *= size
    return True


def is_whole(t: torch.Tensor) -> bool:
    """Whether ``t`` is all of its storage."""
    return t.untyped_storage().nbytes() == t.numel() * t.element_size() and is_dense(t)


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


class View(NamedTuple):
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

    def on(self, copy: torch.Tensor, shift: int) -> torch.Tensor:
        """The same view of ``copy`` (uint8, 1-D), where every byte of the original's storage lies
        ``shift`` further on. It counts versions with ``copy``."""
        size = self.dtype.itemsize
        start = (self.start + shift) % size
        whole = (copy.numel() - start) // size * size
        items = (copy if whole == copy.numel() else copy[start : start + whole]).view(self.dtype)
        t = items.as_strided(self.shape, self.stride, (self.start + shift) // size)
        if self.conj:
            t = t.conj()
        return torch._neg_view(t) if self.neg else t


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

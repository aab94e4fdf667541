"""Counts the bytes that autograd holds for the backward pass, whoever packs them."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks
from torch.multiprocessing.reductions import StorageWeakRef

from actdma.offloading import Session


class Held:
    """What autograd keeps for a saved tensor: what the hooks around it made of it."""

    def __init__(self, packed: Any) -> None:
        self.packed = packed


@dataclasses.dataclass(frozen=True)
class Moment:
    """What was held when a tensor was saved: records of the session, and bytes of storages."""

    records: tuple[int, ...]
    kept_bytes: int


class Meter:
    """Follows saved tensors through hooks that wrap those open at the time.

    A storage counts once and whole (a view keeps all of it), from when it is first saved as it is
    until its memory is freed; a record of the ``session`` counts its stored bytes while something
    saved needs it. Storages of the model's parameters and buffers are left out, and so are the
    copies of weights that autocast makes (`copies_bytes`).
    """

    def __init__(self, model: nn.Module) -> None:
        self._parameters = {
            t.untyped_storage()._cdata for t in (*model.parameters(), *model.buffers())
        }
        self._session: Session | None = None
        self._storages: Storages = {}
        self._records: dict[int, weakref.WeakSet[Held]] = collections.defaultdict(weakref.WeakSet)
        self._copies: Storages = {}
        self._saves: list[int] = []
        self._moments: list[Moment] = []
        self.copies_bytes = 0

    @contextlib.contextmanager
    def watching(self, session: Session | None = None) -> Iterator[None]:
        """Count what is saved; the innermost hooks open now, those of ``session``, pack it."""
        self._session = session
        pack, unpack = torch._C._autograd._top_saved_tensors_default_hooks(True) or (
            torch.Tensor.detach,
            lambda t: t,
        )
        with saved_tensors_hooks(lambda t: self._hold(t, pack), lambda held: unpack(held.packed)):
            yield
        self._session = None

    def peak_bytes(self, stored: Sequence[int] = ()) -> int:
        """The most bytes held at a time; ``stored``: those of the session's records, by index."""
        return max(m.kept_bytes + sum(stored[i] for i in m.records) for m in self._moments)

    def _hold(self, t: torch.Tensor, pack: Callable[[torch.Tensor], Any]) -> Held:
        held = Held(pack(t))
        record = self._new_save()
        storage = t.untyped_storage()
        if storage._cdata in self._parameters:
            return held
        if _copies_weight(t):
            _put(self._copies, storage)
        elif record is None:
            _put(self._storages, storage)
        else:
            self._records[record].add(held)
        self._note()
        return held

    def _new_save(self) -> int | None:
        """Index of the session's record that has a save more than before; None: it was kept."""
        if self._session is None:
            return None
        before, self._saves = self._saves, [r.saves for r in self._session.report().records]
        before += [0] * (len(self._saves) - len(before))
        changed = (i for i, saves in enumerate(self._saves) if saves != before[i])
        return next(changed, None)

    def _note(self) -> None:
        alive = tuple(i for i, users in self._records.items() if users)
        self._moments.append(Moment(alive, _alive_bytes(self._storages)))
        self.copies_bytes = max(self.copies_bytes, _alive_bytes(self._copies))


Storages = dict[int, tuple[StorageWeakRef, int]]  # their sizes; the reference keeps the key unique


def _put(storages: Storages, storage: torch.UntypedStorage) -> None:
    storages[storage._cdata] = StorageWeakRef(storage), storage.nbytes()


def _alive_bytes(storages: Storages) -> int:
    """Bytes of those whose memory is not freed; the others are forgotten."""
    for key in [key for key, (reference, _) in storages.items() if reference.expired()]:
        del storages[key]
    return sum(size for _, size in storages.values())


def _copies_weight(t: torch.Tensor) -> bool:
    """Whether ``t`` is a parameter in another dtype, as autocast makes them, or a view of one."""
    made_by = (t._base if t._is_view() else t).grad_fn
    if made_by is None or made_by.name() != "ToCopyBackward0":
        return False
    source = made_by.next_functions[0][0]
    return isinstance(getattr(source, "variable", None), nn.Parameter)

"""Bytes of a storage on the host and back: in place on the CPU, by a side stream elsewhere."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import torch

from ..arrays import bytes_at
from .arena import Arena


class Source:
    """The storage of a tensor as it was when the tensor was saved; keeps its memory alive.

    Its bytes may be asked for later and by another thread: on a device they are copied when what
    was queued there before saving is done.
    """

    def __init__(self, t: torch.Tensor) -> None:
        self._t = t.detach()  # without the history, which would be a cycle
        self.version = 0 if t.is_inference() else t._version
        self.dtype = t.dtype
        self.device = t.device
        self._saved = None if _on_host(t.device) else _event(t.device)

    @property
    def storage(self) -> torch.UntypedStorage:
        """The storage, of which a tensor may be a part."""
        return self._t.untyped_storage()

    @property
    def moved(self) -> bool:
        """Whether the tensor was modified since."""
        return not self._t.is_inference() and self._t._version != self.version

    @property
    def tensor(self) -> torch.Tensor:
        """The tensor, detached."""
        return self._t

    def bytes(self, start: int, stop: int) -> np.ndarray:
        """Bytes ``start`` to ``stop``: uint8, 1-D; on the CPU a view."""
        storage = self.storage
        if self._saved is None:
            return bytes_at(storage.data_ptr() + start, stop - start, owner=storage)
        flat = torch.empty(0, dtype=torch.uint8, device=self.device)
        flat.set_(storage, start, (stop - start,), (1,))
        copy = torch.empty(stop - start, dtype=torch.uint8, pin_memory=True)
        side = _side_stream(self.device)
        side.wait_event(self._saved)
        with torch.get_device_module(self.device).stream(side):
            copy.copy_(flat, non_blocking=True)
        _event(self.device, side).synchronize()
        return copy.numpy()


class Room:
    """Memory to decode ``nbytes`` into (`data`, uint8), for a storage on ``device``.

    ``lead``: bytes before it in the storage. `decoded` is to be called when `data` is filled.
    ``share``: lives as long as the memory.
    """

    def __init__(
        self, nbytes: int, lead: int, device: torch.device, arena: Arena, share: object
    ) -> None:
        self._device = device
        if _on_host(device):
            block = arena.take(lead + nbytes)
            memory = bytes_at(block.address, lead + nbytes, owner=(block, share))
            self._memory = torch.from_numpy(memory)
            self.data = memory[lead:]
        else:
            self._memory = torch.empty(lead + nbytes, dtype=torch.uint8, pin_memory=True)
            self.data = self._memory.numpy()[lead:]

    def decoded(self) -> Decoded:
        """What was filled in, on its device."""
        if _on_host(self._device):
            return Decoded(self._memory)
        side = _side_stream(self._device)
        with torch.get_device_module(self._device).stream(side):
            copy = self._memory.to(self._device, non_blocking=True)
        return Decoded(copy, _event(self._device, side))


class Decoded:
    """A storage as uint8, 1-D, and the event after which it can be read (None: at once)."""

    def __init__(self, memory: torch.Tensor, arrived: Any = None) -> None:
        self._memory = memory
        self._version = memory._version
        self._arrived = arrived

    @property
    def unchanged(self) -> bool:
        """Whether nobody has written to it or a view of it, as a backward function may."""
        return self._memory._version == self._version

    def wait(self) -> torch.Tensor:
        """The memory; the current stream of its device waits, this thread does not."""
        if self._arrived is not None:
            device = self._memory.device
            current = torch.get_device_module(device).current_stream(device)
            current.wait_event(self._arrived)
            self._memory.record_stream(current)  # it was allocated on the side stream
        return self._memory


def adopt(t: torch.Tensor, share: object) -> Decoded:
    """The storage of ``t``, which was made where it is, as what was decoded. ``share``: lives as
    long as the memory (on the host)."""
    storage = t.untyped_storage()
    if _on_host(t.device):
        return Decoded(
            torch.from_numpy(bytes_at(storage.data_ptr(), storage.nbytes(), owner=(t, share)))
        )
    flat = torch.empty(0, dtype=torch.uint8, device=t.device)
    return Decoded(flat.set_(storage, 0, (storage.nbytes(),), (1,)), _event(t.device))


def _on_host(device: torch.device) -> bool:
    return device.type == "cpu"


@functools.cache
def _side_stream(device: torch.device) -> Any:
    return torch.get_device_module(device).Stream(device)


def _event(device: torch.device, stream: Any = None) -> Any:
    """An event behind what is in ``stream``, by default the current one."""
    module = torch.get_device_module(device)
    event = module.Event()
    event.record(stream or module.current_stream(device))
    return event

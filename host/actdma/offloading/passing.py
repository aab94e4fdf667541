"""Which saved tensors stay as they are."""

from __future__ import annotations

import torch
from torch import nn

from ..frame import DType
from .held import Share
from .storages import StorageTable, View
from .versions import Version

_DTYPES = {getattr(torch, name) for name in DType.__members__ if hasattr(torch, name)}


def unsuitable(t: torch.Tensor) -> str | None:
    """Why ``t`` has no plain memory to compress; None if it has."""
    if type(t) not in (torch.Tensor, nn.Parameter):
        return "subclass"  # its memory, if any, is its own business; fake tensors are here too
    if torch._C._functorch.is_functorch_wrapped_tensor(t):
        return "functorch"
    if t.is_nested:
        return "nested"
    if t.layout is not torch.strided:
        return "sparse" if "sparse" in str(t.layout) else "opaque"
    if t.is_quantized:
        return "quantised"
    if t.is_meta:
        return "meta"
    if t._is_zerotensor():
        return "zero tensor"  # of forward-mode differentiation: it has no memory
    if t.dtype not in _DTYPES:
        return "dtype"
    return None if t.numel() else "small"


class Kept:
    """A saved tensor that stays as it is; ``share``: of what is held for backward."""

    __slots__ = ("__weakref__", "_share", "_version")

    def __init__(self, t: torch.Tensor, share: Share | None = None) -> None:
        self._version, self._share = Version(t, keep=True), share

    def settled(self) -> bool:
        """Whether it is as it was when it was saved."""
        return not self._version.moved

    def unpack(self) -> torch.Tensor:
        """The tensor; RuntimeError if it was modified in place after it was saved."""
        self._version.check()
        return self._version.tensor


class Copied:
    """A copy in another dtype that autocast has made of a parameter; made again when asked for."""

    __slots__ = ("_dtype", "_parameter", "_version", "_view")

    def __init__(self, t: torch.Tensor, parameter: nn.Parameter) -> None:
        self._parameter = Version(parameter, keep=True)
        self._version, self._view, self._dtype = Version(t), View.of(t), t.dtype

    @classmethod
    def of(cls, t: torch.Tensor) -> Copied | None:
        """``t``, if it is such a copy or a view of one."""
        base = t._base if t._is_view() else t
        node = base.grad_fn
        if node is None or not node.name().startswith("ToCopyBackward"):
            return None
        parameter = getattr(node.next_functions[0][0], "variable", None)
        alike = isinstance(parameter, nn.Parameter) and parameter.stride() == base.stride()
        return cls(t, parameter) if alike and base.storage_offset() == 0 else None

    def unpack(self) -> torch.Tensor:
        """The copy; RuntimeError if it or the parameter was modified in place since."""
        self._version.check()
        self._parameter.check()
        copy = self._parameter.tensor.detach().to(self._dtype)
        storage = copy.untyped_storage()
        flat = torch.empty(0, dtype=torch.uint8, device=copy.device)
        return self._view.on(flat.set_(storage, 0, (storage.nbytes(),), (1,)), 0)


class Parameters:
    """The storages of parameters and buffers; ``t in parameters`` holds for their views, too.

    Known are those of the model, every `nn.Parameter` met, and without a model every leaf that
    requires grad.
    """

    def __init__(self, model: nn.Module | None) -> None:
        self._model = model
        self._known: StorageTable[bool] = StorageTable()

    def open(self) -> None:
        """Look up the model's storages."""
        if self._model is not None:
            for t in (*self._model.parameters(), *self._model.buffers()):
                if not nn.parameter.is_lazy(t) and unsuitable(t) is None:
                    self._known.put(t.untyped_storage(), True)

    def close(self) -> None:
        """Forget all storages."""
        self._known.clear()

    def __contains__(self, t: torch.Tensor) -> bool:
        if t.untyped_storage() in self._known:
            return True
        base = t._base if t._is_view() else t
        leaf = self._model is None and base.is_leaf and base.requires_grad
        if leaf or isinstance(base, nn.Parameter):
            return self._known.put(t.untyped_storage(), True)
        return False

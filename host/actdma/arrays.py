"""NumPy arrays and PyTorch tensors as flat bytes, and back. Only tensors import PyTorch."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from .frame import DType


@dataclasses.dataclass(frozen=True)
class Layout:
    """What it takes to rebuild an array from its bytes; ``device`` is None for NumPy."""

    dtype: DType
    shape: tuple[int, ...]
    device: Any = None


def is_tensor(x: object) -> bool:
    """Whether ``x`` is a PyTorch tensor, without importing torch."""
    return any(c.__module__ == "torch" and c.__name__ == "Tensor" for c in type(x).__mro__)


def to_bytes(x: Any) -> tuple[np.ndarray, Layout]:
    """The values of ``x`` in C order as uint8, 1-D (a view where ``x`` is C-contiguous on the CPU).

    ``x``: NumPy array or dense PyTorch tensor of a dtype in `DType`; else TypeError.
    """
    if is_tensor(x):
        return _tensor_to_bytes(x)
    if not isinstance(x, np.ndarray) or isinstance(x, np.ma.MaskedArray):
        raise TypeError(f"expected a NumPy array or a PyTorch tensor, got {type(x).__name__}")
    dtype = numpy_dtype_code(x.dtype)
    flat = np.ascontiguousarray(np.asarray(x)).reshape(-1)
    return flat.view(np.uint8), Layout(dtype, x.shape)


def from_bytes(data: np.ndarray, layout: Layout) -> Any:
    """The array or tensor of ``layout`` whose values are ``data`` (uint8, 1-D; not copied)."""
    if layout.device is None:
        return data.view(numpy_dtype(layout.dtype)).reshape(layout.shape)
    import torch

    flat = torch.from_numpy(data) if data.size else torch.empty(0, dtype=torch.uint8)
    typed = flat.view(getattr(torch, layout.dtype.name))
    return typed.reshape(layout.shape).to(layout.device)


def numpy_dtype_code(dtype: np.dtype) -> DType:
    """The `DType` of a native-endian NumPy dtype; TypeError if there is none."""
    if dtype.name not in DType.__members__ or not dtype.isnative:
        hint = (
            ""
            if dtype.isnative
            else " in the machine's byte order (x.astype(x.dtype.newbyteorder('=')))"
        )
        raise TypeError(f"dtype {dtype} cannot be compressed; allowed are {_names()}{hint}")
    return DType[dtype.name]


def numpy_dtype(dtype: DType) -> np.dtype:
    """The NumPy dtype; what NumPy lacks (bfloat16, float8) comes as unsigned integers."""
    try:
        return np.dtype(dtype.name)
    except TypeError:
        return np.dtype(f"u{dtype.element_bytes}")


def torch_dtype_code(dtype: Any) -> DType:
    """The `DType` of a torch dtype; TypeError if there is none."""
    name = str(dtype).removeprefix("torch.")
    if name not in DType.__members__:
        raise TypeError(f"dtype {dtype} cannot be compressed; allowed are {_names()}")
    return DType[name]


def _tensor_to_bytes(x: Any) -> tuple[np.ndarray, Layout]:
    import torch

    dtype = torch_dtype_code(x.dtype)
    if x.layout is not torch.strided or x.is_nested or x.is_meta or x._is_zerotensor():
        kind = "nested" if x.is_nested else "meta" if x.is_meta else str(x.layout)
        raise TypeError(f"expected a dense tensor with memory, got a {kind} one")
    layout = Layout(dtype, tuple(x.shape), x.device)
    values = x.detach().resolve_conj().resolve_neg().cpu().contiguous()
    if not values.numel():
        return np.empty(0, np.uint8), layout
    nbytes = values.numel() * values.element_size()
    return bytes_at(values.data_ptr(), nbytes, owner=values), layout


def bytes_at(address: int, nbytes: int, owner: Any) -> np.ndarray:
    """The ``nbytes`` bytes at ``address`` as uint8, 1-D, keeping ``owner`` alive.

    For tensors, because `Tensor.numpy()` would forbid to resize the storage ever after.
    """
    return np.asarray(_Memory(address, nbytes, owner))


class _Memory:
    """Memory for NumPy, which holds this object, and with it the owner."""

    def __init__(self, address: int, nbytes: int, owner: Any) -> None:
        self._owner = owner
        self.__array_interface__ = {
            "version": 3,
            "shape": (nbytes,),
            "typestr": "|u1",
            "data": (address, False),
        }


def _names() -> str:
    return ", ".join(DType.__members__)

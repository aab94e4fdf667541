"""Linear layers whose saved input is block-sparse (structured activation pruning, arXiv
2311.16883): the weight gradient reads kept blocks alone."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import torch
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from ..arrays import numpy_dtype, to_bytes
from ..codecs.bsr import Parts

_NATIVE = (torch.float32, torch.bfloat16)
# What the native product does not take, and PyTorch's neither on the CPU.
_WIDENED = (torch.bfloat16, torch.float16)

# Whether the running backward pass was called with retain_graph; before PyTorch 2.6 nobody knows.
_graph_is_kept: Callable[[], bool] = getattr(
    torch._C._autograd, "_get_current_graph_task_keep_graph", lambda: True
)


class Kept(Protocol):
    """What is held in place of a saved input."""

    def parts(self) -> Parts:
        """The kept blocks, as tensors of the input's dtype and device."""


def weight_gradient(gradient: torch.Tensor, parts: Parts, shape: tuple[int, int]) -> torch.Tensor:
    """``gradient.T @ X``: (outputs, columns), of the dtype and on the device of ``gradient``.

    ``gradient``: (rows, outputs), that of the layer's result; float32, bfloat16 or float16 (and
    what else `torch.sparse_bsr_tensor` multiplies, as float64). ``parts``: the kept blocks of X, as
    tensors of that dtype, as `actdma.codecs.bsr.parts` gives them; ``shape``: rows and columns of X
    without the padding. Blocks that were dropped are not multiplied: a NaN or an infinity of
    ``gradient`` does not spread through them. bfloat16 and float16 are summed in float32 and
    rounded once. On the CPU this is `actdma.native.weight_gradient` with PyTorch's number of
    threads, elsewhere PyTorch's own block-sparse product. ValueError for sizes or indices that do
    not fit, TypeError for dtypes that differ.
    """
    _check(gradient, parts, shape)
    if 0 in shape:
        return gradient.new_zeros(gradient.shape[1], shape[1])
    product = _native_product() if gradient.device.type == "cpu" else None
    if product and gradient.dtype in _NATIVE:
        out = gradient.new_empty(gradient.shape[1], shape[1])
        arrays = Parts(*(_array(part) for part in parts[:3]), parts.size)
        product(_array(gradient), arrays, _array(out), torch.get_num_threads())
        return out
    if gradient.dtype in _WIDENED:
        wide = parts._replace(values=parts.values.float())
        return weight_gradient(gradient.float(), wide, shape).to(gradient.dtype)
    return _reference(gradient, parts, shape)


def _check(gradient: torch.Tensor, parts: Parts, shape: tuple[int, int]) -> None:
    values = parts.values
    if values.dtype != gradient.dtype:
        raise TypeError(f"the gradient is {gradient.dtype}, the kept blocks are {values.dtype}")
    if values.ndim != 3 or values.shape[1] != values.shape[2] or values.shape[1] == 0:
        raise ValueError(f"values are of shape {tuple(values.shape)}, expected (kept blocks, b, b)")
    if gradient.ndim != 2 or gradient.shape[0] != shape[0]:
        raise ValueError(
            f"the gradient is of shape {tuple(gradient.shape)}, expected ({shape[0]}, outputs)"
        )
    block = values.shape[1]
    padded = tuple(-(-size // block) * block for size in shape)
    if 0 not in shape and tuple(parts.size) != padded:
        raise ValueError(
            f"the parts are of a matrix of {tuple(parts.size)}, expected {padded}: {shape} in "
            f"blocks of {block}"
        )


@functools.cache
def _native_product() -> Callable[..., None] | None:
    try:
        from ..native import weight_gradient as product
    except ImportError:
        return None
    return product


def _array(t: torch.Tensor) -> np.ndarray:
    data, layout = to_bytes(t)
    return data.view(numpy_dtype(layout.dtype)).reshape(layout.shape)


def _reference(gradient: torch.Tensor, parts: Parts, shape: tuple[int, int]) -> torch.Tensor:
    """`weight_gradient` by PyTorch's block-sparse product, which takes it from the left alone."""
    try:
        saved = torch.sparse_bsr_tensor(*parts, check_invariants=True)
    except RuntimeError as error:
        raise ValueError(f"the parts are not in Block Sparse Row format: {error}") from error
    transposed = saved.transpose(0, 1).to_sparse_bsr(parts.values.shape[1:])
    padding = parts.size[0] - shape[0]
    product = transposed @ F.pad(gradient, (0, 0, 0, padding))
    return product[: shape[1]].t().contiguous()


class BlockSparseLinear(torch.autograd.Function):
    """`torch.nn.functional.linear` that holds ``keep(x)`` in place of ``x``.

    ``apply(x, weight, bias, keep)``: x (..., inputs), weight (outputs, inputs), bias (outputs) or
    None. ``keep`` gets x as a matrix (rows, inputs), of the dtype that is multiplied under
    autocast, and only where the weight needs a gradient; `weight_gradient` of what it kept is that
    of the weight. The result and the gradients of x and bias are those of the plain layer.
    RuntimeError when differentiated twice.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None,
        keep: Callable[[torch.Tensor], Kept],
    ) -> torch.Tensor:
        """See the class."""
        needs_x, needs_weight = ctx.needs_input_grad[:2]
        ctx.dtypes = tuple(t.dtype if t is not None else None for t in (x, weight, bias))
        ctx.save_for_backward(weight if needs_x else None)
        x, cast_weight, bias = _autocast(x, weight, bias)
        ctx.shape = x.shape
        ctx.kept = keep(x.detach().reshape(-1, x.shape[-1])) if needs_weight else None
        with torch.autocast(x.device.type, enabled=False):
            return F.linear(x, cast_weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        """See the class."""
        (weight,) = ctx.saved_tensors
        needs_x, needs_weight, needs_bias = ctx.needs_input_grad[:3]
        x_dtype, weight_dtype, bias_dtype = ctx.dtypes
        matrix = gradient.reshape(-1, gradient.shape[-1])
        d_x = d_weight = d_bias = None
        with torch.autocast(gradient.device.type, enabled=False):
            if needs_x:
                d_x = (matrix @ weight.to(gradient.dtype)).reshape(ctx.shape).to(x_dtype)
            if needs_weight:
                shape = (math.prod(ctx.shape[:-1]), ctx.shape[-1])
                d_weight = weight_gradient(matrix, ctx.kept.parts(), shape).to(weight_dtype)
                if not _graph_is_kept():
                    ctx.kept = None  # as PyTorch frees what it saved
            if needs_bias:
                d_bias = matrix.sum(0).to(bias_dtype)
        return d_x, d_weight, d_bias, None


def _autocast(*tensors: torch.Tensor | None) -> list[torch.Tensor | None]:
    """As autocast gives them to `torch.nn.functional.linear` (it casts no float64), past its cache:
    a copy made here has no history."""
    device = tensors[0].device.type
    if not torch.is_autocast_enabled(device):
        return list(tensors)
    dtype = torch.get_autocast_dtype(device)
    return [t if t is None or t.dtype == torch.float64 else t.to(dtype) for t in tensors]

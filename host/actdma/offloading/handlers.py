"""Operator by operator: what it needs of what it saves, and how its result is made again.

Running statistics are touched once, and no random number is drawn again. Whether making again
gives the very bits is not assumed where vector code is involved, but tried (`Operators.is_exact`).
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from .block_sparse import BlockSparseLinear
from .needs import VALUES, Between, Need, Noise, NotZero, Positive, Shape
from .operators import ADDITIONS, NeedOf, Operators, Running, is_copy
from .passing import unsuitable
from .remade import Made, Make, Origin
from .saving import Packed
from .windows import Window, pair

# Operands up to so many elements (a scale per channel) are copied into what makes a tensor again.
_SMALL = 1 << 14

Call = Callable[[], Any]
Handle = Callable[..., Any]


class Handler(NamedTuple):
    """What runs an operator, given what is seen and what calls it, and the operator's arguments.

    ``names``: of arguments that may be positional, the first ``required`` of which have to be
    there; ``named``: that may be named; ``any_more``: besides any others.
    """

    handle: Handle
    names: tuple[str, ...]
    required: int
    named: frozenset[str]
    any_more: bool

    @classmethod
    def of(cls, handle: Handle) -> Handler:
        """With the arguments that ``handle`` takes after the first two."""
        parameters = list(inspect.signature(handle).parameters.values())[2:]
        names = [p.name for p in parameters if p.kind == p.POSITIONAL_OR_KEYWORD]
        named = frozenset(names) | {p.name for p in parameters if p.kind == p.KEYWORD_ONLY}
        required = sum(p.default is p.empty for p in parameters if p.name in names)
        any_more = any(p.kind == p.VAR_POSITIONAL for p in parameters)
        return cls(handle, tuple(names), required, named, any_more)

    def takes(self, args: tuple, kwargs: Mapping[str, Any]) -> bool:
        """Whether these are arguments of the operator."""
        count = len(args)
        if not self.any_more and (count > len(self.names) or not kwargs.keys() <= self.named):
            return False
        if any(name in kwargs for name in self.names[:count]):
            return False
        return all(name in kwargs for name in self.names[count : self.required])


_HANDLERS: dict[Callable[..., Any], Handler] = {}


class Watch(TorchFunctionMode):
    """Sees the operators that run in its context, and tells ``operators`` of them."""

    def __init__(self, operators: Operators) -> None:
        super().__init__()
        self._operators = operators

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: tuple[type, ...],
        args: tuple = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """What ``function`` returns."""
        kwargs = kwargs or {}
        if torch.compiler.is_compiling():
            return function(*args, **kwargs)
        handler = _HANDLERS.get(function)
        call = functools.partial(function, *args, **kwargs)
        if handler is None or not torch.is_grad_enabled() or not handler.takes(args, kwargs):
            return call()  # the function itself says what is wrong with its arguments
        x = args[0] if args else kwargs[handler.names[0]]
        if not isinstance(x, torch.Tensor) or unsuitable(x) or x.is_inference():
            return call()
        return handler.handle(self._operators, call, *args, **kwargs)


def _handles(*functions: Callable[..., Any]) -> Callable[[Handle], Handle]:
    """What is decorated, which takes their arguments, runs ``functions``."""

    def register(handle: Handle) -> Handle:
        _HANDLERS.update(dict.fromkeys(functions, Handler.of(handle)))
        return handle

    return register


def _elementwise(
    seen: Operators,
    call: Call,
    x: torch.Tensor,
    make: Make,
    name: str,
    need: Need = VALUES,
    saves_result: bool = False,
    tried: bool = False,
    in_place: Make | None = None,
) -> Any:
    """Run an operator of one tensor. ``tried``: whether the bits are known to come back."""
    made, before = _made_of(seen, x, make, name, in_place), x._version
    y = seen.run(Running(lambda t: need, made if saves_result else None), call)
    in_place = x._version != before
    if made is None and not in_place:
        made = _made_of(seen, x, make, name, in_place)  # the operator itself may have saved it
    unchanged = y.data_ptr() == x.data_ptr() and not in_place
    if made is None or unchanged:
        return y
    if tried or (not in_place and seen.is_exact((name,), y, make, x)):
        seen.remember(y, made)
    return y


def _made_of(
    seen: Operators, x: torch.Tensor, make: Make, name: str, in_place: Make | None
) -> Made | None:
    origin = seen.origin(x) if seen.exact else None
    if origin is None:
        return None
    return Made(name, make, (origin,), depth=origin.depth, in_place=in_place)


@_handles(F.relu, torch.relu, torch.Tensor.relu, F.relu_, torch.relu_, torch.Tensor.relu_)
def _relu(seen: Operators, call: Call, input: torch.Tensor, inplace: bool = False) -> Any:
    how = {"saves_result": True, "tried": True, "in_place": torch.relu_}
    return _elementwise(seen, call, input, torch.relu, "relu", NotZero(), **how)


@_handles(F.leaky_relu, F.leaky_relu_)
def _leaky_relu(
    seen: Operators,
    call: Call,
    input: torch.Tensor,
    negative_slope: float = 0.01,
    inplace: bool = False,
) -> Any:
    make = functools.partial(F.leaky_relu, negative_slope=negative_slope)
    return _elementwise(seen, call, input, make, "leaky_relu", Positive())


@_handles(F.hardtanh, F.hardtanh_)
def _hardtanh(
    seen: Operators,
    call: Call,
    input: torch.Tensor,
    min_val: float = -1.0,
    max_val: float = 1.0,
    inplace: bool = False,
) -> Any:
    between = Between(min_val, max_val)
    bounds = {"min": min_val, "max": max_val}
    make, in_place = (functools.partial(f, **bounds) for f in (torch.clamp, torch.clamp_))
    need = between if between.possible else VALUES
    return _elementwise(seen, call, input, make, "hardtanh", need, in_place=in_place)


@_handles(F.relu6)
def _relu6(seen: Operators, call: Call, input: torch.Tensor, inplace: bool = False) -> Any:
    return _hardtanh(seen, call, input, 0.0, 6.0)


@_handles(F.gelu)
def _gelu(seen: Operators, call: Call, input: torch.Tensor, approximate: str = "none") -> Any:
    make = functools.partial(F.gelu, approximate=approximate)
    return _elementwise(seen, call, input, make, f"gelu, {approximate}")


@_handles(F.silu)
def _silu(seen: Operators, call: Call, input: torch.Tensor, inplace: bool = False) -> Any:
    return _elementwise(seen, call, input, F.silu, "silu")


@_handles(F.hardswish)
def _hardswish(seen: Operators, call: Call, input: torch.Tensor, inplace: bool = False) -> Any:
    return _elementwise(seen, call, input, F.hardswish, "hardswish")


@_handles(F.pad)
def _pad(
    seen: Operators,
    call: Call,
    input: torch.Tensor,
    pad: list[int],
    mode: str = "constant",
    value: float | None = None,
) -> Any:
    if mode != "constant":
        return call()
    make = functools.partial(F.pad, pad=pad, value=value)
    return _elementwise(seen, call, input, make, "pad", tried=True)


@_handles(F.layer_norm)
def _layer_norm(
    seen: Operators,
    call: Call,
    input: torch.Tensor,
    normalized_shape: list[int],
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    eps: float = 1e-5,
) -> Any:
    def make(x: torch.Tensor, weight: Any, bias: Any) -> torch.Tensor:
        return torch.layer_norm(x, normalized_shape, weight, bias, eps)

    return _normalised(seen, call, input, "layer_norm", lambda y: (make, _copies(weight, bias)))


@_handles(F.group_norm)
def _group_norm(
    seen: Operators,
    call: Call,
    input: torch.Tensor,
    num_groups: int,
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    eps: float = 1e-5,
) -> Any:
    def make(x: torch.Tensor, weight: Any, bias: Any) -> torch.Tensor:
        return torch.group_norm(x, num_groups, weight, bias, eps)

    return _normalised(seen, call, input, "group_norm", lambda y: (make, _copies(weight, bias)))


@_handles(F.batch_norm)
def _batch_norm(
    seen: Operators,
    call: Call,
    input: torch.Tensor,
    running_mean: torch.Tensor | None,
    running_var: torch.Tensor | None,
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    if not training:
        small = (weight, bias, running_mean, running_var)
        make = functools.partial(_scaled, eps=eps)
        frozen = "batch_norm, frozen"
        return _normalised(seen, call, input, frozen, lambda y: (make, _copies(*small)))

    def of_batch(y: torch.Tensor) -> tuple[Make, Sequence[torch.Tensor | None]] | None:
        """With the statistics that PyTorch has saved, as if they were known beforehand: the same
        code in PyTorch, hence the same bits."""
        node = y.grad_fn
        if node is None or node.name() != "NativeBatchNormBackward0":
            return None
        mean, deviation = node._saved_result1, node._saved_result2
        if any(t is not None and t.element_size() < 4 for t in (mean, weight)):
            return None  # PyTorch multiplies them with more bits than these have
        scale = deviation if weight is None else deviation * weight.detach()
        make = functools.partial(_scaled, eps=0.0)
        return make, (scale, *_copies(bias), mean, torch.ones_like(mean))

    return _normalised(seen, call, input, "batch_norm", of_batch)


def _scaled(
    x: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    mean: torch.Tensor,
    variance: torch.Tensor,
    eps: float,
) -> torch.Tensor:
    return torch.batch_norm(x, weight, bias, mean, variance, False, 0.0, eps, False)


def _normalised(
    seen: Operators,
    call: Call,
    x: torch.Tensor,
    name: str,
    making: Callable[[torch.Tensor], tuple[Make, Sequence[torch.Tensor | None]] | None],
) -> Any:
    """Run a normalisation, which saves its input; ``making`` gives what makes its result from that
    and from small tensors, which nobody else changes."""
    if not seen.exact:
        return call()
    y = seen.run(Running(), call)
    origin = seen.origin(x)
    how = making(y) if origin else None
    if how is None or any(t is not None and t.numel() > _SMALL for t in how[1]):
        return y
    small = how[1]
    make = _with(how[0], small)
    form = tuple(None if t is None else t.dtype for t in small)
    if seen.is_exact((name, form), y, make, x):
        constants = sum(t.nbytes for t in small if t is not None)
        seen.remember(y, Made(name, make, (origin,), constants, origin.depth))
    return y


def _copies(*tensors: torch.Tensor | None) -> list[torch.Tensor | None]:
    """Copies of small tensors; what is too large to be copied is not."""
    return [t if t is None or t.numel() > _SMALL else t.detach().clone() for t in tensors]


def _with(make: Make, small: Sequence[torch.Tensor | None]) -> Make:
    return lambda x: make(x, *small)


@_handles(
    torch.add,
    torch.Tensor.add,
    torch.Tensor.add_,
    torch.Tensor.__add__,
    torch.Tensor.__iadd__,
)
def _add(seen: Operators, call: Call, input: torch.Tensor, other: Any, *, alpha: Any = 1) -> Any:
    make = torch.add if alpha == 1 else functools.partial(torch.add, alpha=alpha)
    return _binary(seen, call, make, "add", input, other)


@_handles(torch.mul, torch.Tensor.mul, torch.Tensor.mul_, torch.Tensor.__mul__)
def _mul(seen: Operators, call: Call, input: torch.Tensor, other: Any) -> Any:
    return _binary(seen, call, torch.mul, "mul", input, other)


def _binary(seen: Operators, call: Call, make: Make, name: str, a: torch.Tensor, b: Any) -> Any:
    """Run an operator of two tensors, or of one and something small."""
    if not seen.exact:
        return call()
    small = not isinstance(b, torch.Tensor) or b.numel() <= min(_SMALL, a.numel() // 8)
    origins = (seen.origin(a),) if small else (seen.origin(a), seen.origin(b))
    y = call()
    if None in origins or not isinstance(y, torch.Tensor) or y.dtype != torch.result_type(a, b):
        return y  # a result in place keeps its dtype, whatever the other's
    if small:
        copy = b.detach().clone() if isinstance(b, torch.Tensor) else b
        made = Made(name, lambda x: make(x, copy), origins, getattr(copy, "nbytes", 0))
        made.depth = origins[0].depth
    else:
        depth = max(origin.depth for origin in origins) + 1
        if depth > ADDITIONS:
            return y
        made = Made(name, make, origins, depth=depth)
        if make is torch.add and y.dtype == a.dtype and y.shape == a.shape:
            made.in_place = torch.Tensor.add_
    seen.remember(y, made)
    return y


@_handles(F.dropout)
def _dropout(
    seen: Operators,
    call: Call,
    input: torch.Tensor,
    p: float = 0.5,
    training: bool = True,
    inplace: bool = False,
) -> Any:
    if not training or not 0 < p < 1:
        return call()

    def need_of(t: torch.Tensor) -> Need:
        noise = t.grad_fn is None and t.shape == input.shape and t.is_floating_point()
        return Noise(p) if noise else VALUES

    origin, running = seen.origin(input) if seen.exact else None, Running(need_of)
    y = seen.run(running, call)
    noise = running.saved[-1] if running.saved else None
    if origin and isinstance(noise, Packed) and noise.need == Noise(p):
        origins = (origin, Origin.of(noise))
        seen.remember(y, Made("dropout", torch.mul, origins, depth=origin.depth))
    return y


@_handles(F.max_pool2d, F.max_pool2d_with_indices, torch.max_pool2d)
def _max_pool2d(
    seen: Operators,
    call: Call,
    input: torch.Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    strides = kernel_size if stride in (None, [], ()) else stride
    sizes = map(pair, (kernel_size, strides, padding, dilation))
    window = Window(*sizes, width=input.shape[-1])

    def need_of(t: torch.Tensor) -> Need:
        if t.dtype == torch.int64:
            return window if window.possible else VALUES
        return Shape()

    return _pooled(seen, call, need_of)


@_handles(F.avg_pool2d, F.adaptive_avg_pool2d)
def _avg_pool2d(seen: Operators, call: Call, input: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    return _pooled(seen, call, lambda t: Shape())


def _pooled(seen: Operators, call: Call, need_of: NeedOf) -> Any:
    return seen.run(Running(need_of), call)


@_handles(F.conv2d)
def _conv2d(seen: Operators, call: Call, input: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    return _linear_operator(seen, call, "conv2d", input)


@_handles(F.linear)
def _linear(
    seen: Operators,
    call: Call,
    input: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
) -> Any:
    lossy = seen.lossy("linear")
    if lossy is not None and not _takes_blocks(input):
        seen.gains_nothing(lossy, f"codec bsr does not take {input.dtype}")
    elif lossy is not None and seen.exact and seen.origin(input):
        seen.gains_nothing(lossy, "its input is made again, or held with all its bits for others")
    elif lossy is not None:
        keep = functools.partial(seen.keep, need=lossy)
        return BlockSparseLinear.apply(input, weight, bias, keep)
    return _linear_operator(seen, call, "", input)


def _takes_blocks(x: torch.Tensor) -> bool:
    """Whether codec bsr takes ``x``, as autocast gives it to a linear operator."""
    device = x.device.type
    cast = torch.is_autocast_enabled(device) and x.dtype != torch.float64
    dtype = torch.get_autocast_dtype(device) if cast else x.dtype
    return dtype in (torch.float32, torch.bfloat16, torch.float16)


@_handles(F.conv1d, F.conv3d, F.conv_transpose2d)
def _conv(seen: Operators, call: Call, input: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    return _linear_operator(seen, call, "", input)


def _linear_operator(seen: Operators, call: Call, kind: str, x: torch.Tensor) -> Any:
    """Run an operator that saves its input for the weight's gradient alone."""
    lossy = seen.lossy(kind) if kind else None

    def need_of(t: torch.Tensor) -> Need:
        own = t.untyped_storage()._cdata == x.untyped_storage()._cdata
        return lossy if lossy and (own or is_copy(t, x)) else VALUES

    return seen.run(Running(need_of, copied=x), call)

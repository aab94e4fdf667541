"""The layers of a torch module: what each computes, moves and saves in a training step.

A step runs under a dispatch mode that sees every operator. An operator that autograd gives a node
to is a layer; work without a node (a dropout's mask, a counter) belongs to the layer that follows.
Autograd numbers its nodes, so the operators of the backward pass find the layer they belong to. On
fake tensors nothing is computed and a batch of any size fits; on real ones each operator is timed.
"""

from __future__ import annotations

import bisect
import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch._subclasses import FakeTensorMode
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from ..offloading.modules import ModuleNames

SAVES = ("all", "maps")

_aten = torch.ops.aten
# They reserve memory, or give memory a second shape; nothing is read or written.
_NO_WORK = {
    *(_aten.empty, _aten.empty_like, _aten.empty_strided, _aten.new_empty),
    *(_aten.new_empty_strided, _aten._unsafe_view),
}


def _convolution_backward(
    gradient: torch.Tensor, images: torch.Tensor, weight: torch.Tensor, *rest: Any, **_: Any
) -> int:
    """FLOPs of a convolution's gradients: of each that is wanted, as many as forward has.

    The counter's own formula takes no notice of groups.
    """
    transposed, wanted = rest[4], rest[7]
    positions = images if transposed else gradient
    return 2 * positions.numel() * weight[0].numel() * sum(wanted[:2])


_FORMULAS = {
    **flop_registry,
    _aten.convolution_backward: _convolution_backward,
    # The CPU's names of what the counter knows by the GPU's.
    **{
        getattr(_aten, f"_scaled_dot_product_flash_attention_for_cpu{way}"): flop_registry[
            getattr(_aten, f"_scaled_dot_product_flash_attention{way}")
        ]
        for way in ("", "_backward")
    },
}


@dataclasses.dataclass
class Cost:
    """Floating-point operations of products, bytes read and written, seconds (0: not timed)."""

    flops: float = 0.0
    bytes_moved: float = 0.0
    seconds: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.flops + other.flops,
            self.bytes_moved + other.bytes_moved,
            self.seconds + other.seconds,
        )


@dataclasses.dataclass
class Layer:
    """An operator of the forward pass; ``name`` is the module that called it.

    ``saved_bytes``: of all storages that are saved for the backward pass, those that this layer is
    the last one to save. What a layer makes itself counts as the next one's, since it can leave no
    sooner. Parameters and buffers do not count. ``stored_bytes``: the same compressed, by codec.
    """

    name: str
    operator: str
    forward: Cost
    backward: Cost = dataclasses.field(default_factory=Cost)
    saved_bytes: int = 0
    stored_bytes: dict[str, float] = dataclasses.field(default_factory=dict)


Compress = Callable[[torch.Tensor], dict[str, int]]


def fake_images(batch: int, side: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Images (batch, 3, side, side) that have no memory, for `trace`."""
    with FakeTensorMode(allow_non_fake_inputs=True):
        return torch.empty(batch, 3, side, side, dtype=dtype)


def trace(
    model: nn.Module,
    images: torch.Tensor,
    *,
    saves: str = "all",
    compress: Compress | None = None,
) -> list[Layer]:
    """The layers of a training step of ``model``: forward, cross-entropy, backward.

    ``images``: the model's input, real or from `fake_images`; logits are (batch, classes).
    ``saves``: "all" that autograd saves, or "maps", of that only what leaf modules receive and
    return, in floating point: what a library saves that has one kernel per layer (cuDNN's pooling
    wants no indices). ``compress`` gives the compressed bytes, by codec, of the storage of a saved
    tensor. ValueError for other ``saves``.
    """
    if saves not in SAVES:
        raise ValueError(f"unknown saves {saves!r}; known are {', '.join(SAVES)}")
    fake = getattr(images, "fake_mode", None)
    own = [*model.parameters(), *model.buffers()]
    step = _Step(model, maps=saves == "maps", own=own + [fake.from_tensor(t) for t in own if fake])
    mode = fake or contextlib.nullcontext()
    with mode:
        labels = torch.zeros(len(images), dtype=torch.int64)
    with mode, step.watching(), step:
        loss = F.cross_entropy(model(images), labels)
    step.assign(compress)
    with mode, step:
        torch.autograd.grad(loss, [p for p in model.parameters() if p.requires_grad])
    return step.layers


class _Step(TorchDispatchMode):
    """The layers of the step that runs under it."""

    def __init__(self, model: nn.Module, maps: bool, own: list[torch.Tensor]) -> None:
        super().__init__()
        self.layers: list[Layer] = []
        self._model = model
        self._own = own  # parameters and buffers: they stay where they are
        self._names = ModuleNames(model)
        self._numbers: list[int] = []  # of the layers' nodes
        self._unclaimed = Cost()
        self._makers: dict[int, int] = {}  # by storage: the number of the node that wrote it last
        # By storage: the number of the last node to save it, and whether that is what made it.
        self._saved: dict[int, tuple[int, bool, torch.Tensor]] = {}
        self._maps: dict[int, torch.Tensor] | None = {} if maps else None

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        began = time.perf_counter()
        result = function(*args, **kwargs)
        seconds = time.perf_counter() - began
        made = _tensors(result)
        if not made or function.is_view or function.overloadpacket in _NO_WORK:
            return result
        used = _tensors((args, kwargs))
        flops = _flops(function.overloadpacket, args, kwargs, result)
        cost = Cost(flops, sum(map(_nbytes, used + made)), seconds)
        if torch.is_grad_enabled():
            self._forward(function.overloadpacket.__name__, made, cost)
        else:
            self._backward(cost)
        return result

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Tensors that are saved, and those that leaf modules receive and return, are noted."""
        self._names.open()
        leaves = [m for m in self._model.modules() if not any(m.children())]
        handles = (
            [] if self._maps is None else [m.register_forward_hook(self._pass) for m in leaves]
        )
        try:
            with torch.autograd.graph.saved_tensors_hooks(self._save, lambda tensor: tensor):
                yield
        finally:
            self._names.close()
            for handle in handles:
                handle.remove()

    def assign(self, compress: Compress | None) -> None:
        """Give every saved storage to its layer, and forget it."""
        own = set(map(_storage, self._own))
        for storage, (number, made_here, tensor) in self._saved.items():
            if storage in own or (self._maps is not None and storage not in self._maps):
                continue
            place = min(self._place(number) + made_here, len(self.layers) - 1)
            layer = self.layers[place]
            layer.saved_bytes += tensor.untyped_storage().nbytes()
            for codec, nbytes in (compress(tensor) if compress else {}).items():
                layer.stored_bytes[codec] = layer.stored_bytes.get(codec, 0) + nbytes
        self._saved.clear()

    def _forward(self, operator: str, made: list[torch.Tensor], cost: Cost) -> None:
        number = _latest_node()
        if self._numbers and number <= self._numbers[-1]:
            self._unclaimed += cost
            return
        name = self._names.current or ""
        self.layers.append(Layer(name, operator.rstrip("_"), self._unclaimed + cost))
        self._numbers.append(number)
        self._unclaimed = Cost()
        self._makers.update((_storage(tensor), number) for tensor in made)

    def _backward(self, cost: Cost) -> None:
        node = torch._C._current_autograd_node()
        place = self._place(node._sequence_nr()) if node is not None else -1
        self.layers[place].backward += cost

    def _save(self, tensor: torch.Tensor) -> torch.Tensor:
        number, storage = _latest_node(), _storage(tensor)
        if self._maps is None or tensor.is_floating_point():
            self._saved[storage] = number, self._makers.get(storage) == number, tensor.detach()
        return tensor.detach()

    def _pass(self, module: nn.Module, inputs: Any, output: Any) -> None:
        self._maps.update((_storage(tensor), tensor) for tensor in _tensors((inputs, output)))

    def _place(self, number: int) -> int:
        """The layer with the latest node up to ``number``: a view belongs to the one before."""
        return max(bisect.bisect_right(self._numbers, number) - 1, 0)


def _latest_node() -> int:
    """The number of the autograd node that was made last."""
    return torch.autograd._get_sequence_nr() - 1


def _tensors(tree: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def _storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata


def _nbytes(tensor: torch.Tensor) -> int:
    """Bytes that are read of a tensor: an expanded one's storage is read once."""
    return min(tensor.numel() * tensor.element_size(), tensor.untyped_storage().nbytes())


def _flops(operator: Any, args: Any, kwargs: Any, result: Any) -> float:
    formula = _FORMULAS.get(operator)
    return float(formula(*args, **kwargs, out_val=result)) if formula else 0.0

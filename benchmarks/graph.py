"""What the backward functions of an autograd graph hold, by storage and role."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator

import torch
from torch import nn

LEAST_BYTES = 1024
# (backward function, what it calls the tensor): what that is.
ROLES = {
    ("Convolution", "input"): "convolution input",
    ("NativeBatchNorm", "input"): "batch norm input",
    ("NativeLayerNorm", "input"): "layer norm input",
    ("Relu", "result"): "ReLU output",
    ("Hardtanh", "self"): "ReLU6 input",
    ("Gelu", "self"): "GELU input",
    ("MaxPool2DWithIndices", "self"): "pooling input",
    ("MaxPool2DWithIndices", "result1"): "pooling indices",
    ("Addmm", "mat1"): "linear input",
    ("Mm", "self"): "linear input",
    ("NativeDropout", "result1"): "dropout mask",
    ("LogSoftmax", "result"): "log-softmax output",
    ("Embedding", "indices"): "tokens",
    ("Mul", "self"): "factor",
    ("Mul", "other"): "factor",
    ("ScaledDotProductFlashAttentionForCpu", "query"): "attention's q, k, v",
    ("ScaledDotProductFlashAttentionForCpu", "key"): "attention's q, k, v",
    ("ScaledDotProductFlashAttentionForCpu", "value"): "attention's q, k, v",
    ("ScaledDotProductFlashAttentionForCpu", "output"): "attention output",
}


@dataclasses.dataclass
class Storage:
    """What is held of a storage: its bytes and share of zero elements, the roles it has, how many
    tensors, and their bytes."""

    nbytes: int
    zeros: float
    roles: set[str] = dataclasses.field(default_factory=set)
    saves: int = 0
    saved_bytes: int = 0

    @property
    def role(self) -> str:
        return " = ".join(sorted(self.roles))


def nodes(root: torch.autograd.graph.Node) -> Iterator[torch.autograd.graph.Node]:
    """Every function of the graph that ends in ``root``, once."""
    seen, waiting = {root}, [root]
    while waiting:
        node = waiting.pop()
        yield node
        for before, _ in node.next_functions:
            if before is not None and before not in seen:
                seen.add(before)
                waiting.append(before)


def held_by(node: torch.autograd.graph.Node) -> Iterator[tuple[str, torch.Tensor]]:
    """The role and the tensor, of each that ``node`` holds."""
    operator = re.sub(r"Backward\d*$", "", node.name())
    for attribute in dir(node):
        if not attribute.startswith("_saved_"):
            continue
        value = getattr(node, attribute)
        name = attribute.removeprefix("_saved_")
        role = ROLES.get((operator, name), f"{operator} {name}")
        for t in value if isinstance(value, tuple | list) else (value,):
            if isinstance(t, torch.Tensor):
                yield role, t


def holdings(model: nn.Module, loss: torch.Tensor) -> list[Storage]:
    """The storages of at least `LEAST_BYTES` that the graph of ``loss`` holds."""
    own = {t.untyped_storage().data_ptr() for t in (*model.parameters(), *model.buffers())}
    found: dict[int, Storage] = {}
    for node in nodes(loss.grad_fn):
        for role, t in held_by(node):
            storage = t.untyped_storage()
            if storage.data_ptr() in own or storage.nbytes() < LEAST_BYTES:
                continue
            held = found.get(storage.data_ptr())
            if held is None:
                zeros = 1 - int(t.count_nonzero()) / t.numel()
                held = found[storage.data_ptr()] = Storage(storage.nbytes(), zeros)
            held.roles.add(role)
            held.saves += 1
            held.saved_bytes += t.nbytes
    return list(found.values())

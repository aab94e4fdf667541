"""Ways to run a training step: plainly, with hooks, through codecs, with checkpointing."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager

import torch
from torch import nn
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import actdma

Hooks = Callable[[nn.Module], AbstractContextManager]


@dataclasses.dataclass(frozen=True)
class Variant:
    """``hooks`` of a model are open in its forward pass; ``checkpointed``: its blocks are."""

    hooks: Hooks
    checkpointed: bool = False


def plain(model: nn.Module) -> AbstractContextManager:
    return contextlib.nullcontext()


def identity(model: nn.Module) -> AbstractContextManager:
    """Hooks that do nothing; detached, or a saved result would hold itself."""
    return saved_tensors_hooks(torch.Tensor.detach, lambda t: t)


def through(codec: str) -> Hooks:
    return lambda model: actdma.offload(model, codec=codec, backend="native")


VARIANTS = {
    "plain": Variant(plain),
    "identity hook": Variant(identity),
    "zvc": Variant(through("zvc")),
    "auto": Variant(through("auto")),
    "save_on_cpu": Variant(lambda model: save_on_cpu()),
    "checkpointing": Variant(plain, checkpointed=True),
    "checkpointing + auto": Variant(through("auto"), checkpointed=True),
}


def checkpoint_blocks(blocks: Iterable[nn.Module], recomputing: Hooks | None = None) -> None:
    """Have every block compute its forward pass again in backward, in the context given."""
    for block in blocks:
        context = functools.partial(_contexts, block, recomputing or plain)
        block.forward = functools.partial(
            checkpoint, block.forward, use_reentrant=False, context_fn=context
        )


def _contexts(
    block: nn.Module, recomputing: Hooks
) -> tuple[AbstractContextManager, AbstractContextManager]:
    return contextlib.nullcontext(), recomputing(block)


def training_step(
    model: nn.Module,
    images: torch.Tensor,
    labels: torch.Tensor,
    hooks: AbstractContextManager,
    dtype: torch.dtype = torch.float32,
) -> None:
    """Forward and backward pass, under autocast where ``dtype`` is bfloat16; leaves gradients."""
    model.zero_grad(set_to_none=True)
    autocast = torch.autocast("cpu", torch.bfloat16, enabled=dtype == torch.bfloat16)
    with hooks, autocast:
        loss = F.cross_entropy(model(images).float(), labels)
    loss.backward()

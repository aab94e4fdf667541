"""Ways to run a training step: plainly, with hooks, through codecs, exact, with checkpointing."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch
from meter import Meter
from torch import nn
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import actdma
from actdma.offloading import Session
from networks import ORDERS, Work

Hooks = Callable[[nn.Module], AbstractContextManager]


@dataclasses.dataclass(frozen=True)
class Variant:
    """``hooks`` of a model are open in its forward pass; ``checkpointed``: its blocks are;
    ``exact``: the hooks are those of an exact session."""

    hooks: Hooks
    checkpointed: bool = False
    exact: bool = False


def plain(model: nn.Module) -> AbstractContextManager:
    return contextlib.nullcontext()


def identity(model: nn.Module) -> AbstractContextManager:
    """Hooks that do nothing; detached, or a saved result would hold itself."""
    return saved_tensors_hooks(torch.Tensor.detach, lambda t: t)


def through(codec: str, exact: bool = False) -> Hooks:
    return lambda model: actdma.offload(model, codec=codec, backend="native", exact=exact)


VARIANTS = {
    "plain": Variant(plain),
    "identity hook": Variant(identity),
    "zvc": Variant(through("zvc")),
    "auto": Variant(through("auto")),
    "exact": Variant(through("raw", exact=True), exact=True),
    "exact + auto": Variant(through("auto", exact=True), exact=True),
    "save_on_cpu": Variant(lambda model: save_on_cpu()),
    "checkpointing": Variant(plain, checkpointed=True),
    "checkpointing + auto": Variant(through("auto"), checkpointed=True),
}


class Trial:
    """Training steps of a network in the way of a variant; the work's model is its own."""

    def __init__(
        self, work: Work, variant: Variant, dtype: str = "float32", order: str = "contiguous"
    ) -> None:
        self.variant = variant
        self.model = work.model.to(memory_format=ORDERS[order])
        self.images = work.images.to(memory_format=ORDERS[order])
        self.labels = work.labels
        self._autocast = dtype == "bfloat16"
        self._meter: Meter | None = None
        for name in work.blocks if self.variant.checkpointed else ():
            block = self.model.get_submodule(name)
            block.forward = functools.partial(
                checkpoint, block.forward, use_reentrant=False, context_fn=self._contexts
            )

    def step(self, seed: int = 0, batch: int | None = None) -> Session | None:
        """Forward and backward pass, leaving gradients; the session that packed, if any.

        ``seed``: of dropout. ``batch``: images to take, all by default.
        """
        session, loss = self._forward(seed, batch)
        loss.backward()
        return session

    def _forward(
        self, seed: int = 0, batch: int | None = None
    ) -> tuple[Session | None, torch.Tensor]:
        torch.manual_seed(seed)
        self.model.zero_grad(set_to_none=True)
        with self.variant.hooks(self.model) as hooks:
            session = hooks if isinstance(hooks, Session) else None
            autocast = torch.autocast("cpu", torch.bfloat16, enabled=self._autocast)
            with self._watching(session), autocast:
                logits = self.model(self.images[:batch])
                loss = F.cross_entropy(logits.flatten(0, -2).float(), self.labels[:batch].flatten())
        return session, loss

    def held(self) -> dict[str, Any]:
        """Bytes held at the peak of a step, and in which records.

        An exact session counts itself, when forward is over: a meter looks at what was made of
        every save at once, and so would keep it from waiting for the next save of the same tensor.
        """
        meter = self._meter = None if self.variant.exact else Meter(self.model)
        session, loss = self._forward()
        held = session.held_bytes if self.variant.exact else 0
        loss.backward()
        report = session and session.report()
        records = report.records if report else []
        if meter:
            held = meter.peak_bytes([r.stored_bytes for r in records])
        self._meter = None
        return {
            "held": held,
            "copies": meter.copies_bytes if meter else 0,
            "session": report and report.held_bytes_peak,
            "kept": report.kept if report else {},
            "records": [r.to_dict() for r in records],
        }

    def gradients(self) -> str:
        """A hash of the gradients of the latest step."""
        digest = hashlib.blake2b(digest_size=16)
        for parameter in self.model.parameters():
            digest.update(parameter.grad.contiguous().numpy())
        return digest.hexdigest()

    def _contexts(self) -> tuple[AbstractContextManager, AbstractContextManager]:
        return contextlib.nullcontext(), self._watching(None)

    def _watching(self, session: Session | None) -> AbstractContextManager:
        return self._meter.watching(session) if self._meter else contextlib.nullcontext()

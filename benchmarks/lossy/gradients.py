"""How far gradients of weights are from the exact ones, layer by layer."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from .data import Part
from .rows import ALONE, BASELINE, hooks


def quality(model: nn.Module, batch: Part, row: str) -> dict[str, dict[str, float]]:
    """By layer (convolutions and linear ones): ``cosine`` of the gradient of its weight with the
    exact one, and ``error``, the norm of their difference by the exact one's."""
    exact, lossy = (_gradients(model, batch, name) for name in (BASELINE, row))
    return {name: _compared(lossy[name], exact[name]) for name in exact}


def _gradients(model: nn.Module, batch: Part, row: str) -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    model.zero_grad(set_to_none=True)
    with hooks(row, ALONE)(model):
        loss = F.cross_entropy(model(batch.images), batch.labels)
    loss.backward()
    layers = (nn.Conv2d, nn.Linear)
    return {
        name: module.weight.grad.double().flatten()
        for name, module in model.named_modules()
        if isinstance(module, layers)
    }


def _compared(lossy: torch.Tensor, exact: torch.Tensor) -> dict[str, float]:
    return {
        "cosine": float(F.cosine_similarity(lossy, exact, dim=0)),
        "error": float((lossy - exact).norm() / exact.norm()),
    }

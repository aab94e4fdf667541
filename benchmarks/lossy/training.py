"""A training run that goes on where it was stopped, and comes to the same result: to the bit with
one thread, as far as PyTorch repeats itself with several."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from actdma.measure import zoo

from .data import Data, Part, batches
from .rows import BASELINE, hooks

OPTIMISERS = {
    "sgd": lambda parameters, **options: torch.optim.SGD(
        parameters, momentum=0.9, nesterov=True, **options
    ),
    "adamw": torch.optim.AdamW,
}


@dataclasses.dataclass(frozen=True)
class Schedule:
    """Linear warm-up for ``warmup`` of the steps to ``rate``, then down to zero along a cosine."""

    epochs: int
    rate: float
    optimiser: str = "sgd"
    weight_decay: float = 5e-4
    batch: int = 128
    warmup: float = 0.05

    def rate_at(self, done: float) -> float:
        """The learning rate where the fraction ``done`` of all steps has been taken."""
        if done < self.warmup:
            return self.rate * done / self.warmup
        return self.rate / 2 * (1 + math.cos(math.pi * (done - self.warmup) / (1 - self.warmup)))


@dataclasses.dataclass(frozen=True)
class Run:
    """All that the result of a run depends on, besides the data's folder and the machine.

    ``network`` and ``options`` are those of `zoo.build`; ``pretrained``: with published weights;
    ``row``, ``setting``: see `rows.py`; ``images``: of the training part, validation included.
    """

    network: str
    options: Mapping[str, Any]
    pretrained: bool
    row: str
    setting: str
    schedule: Schedule
    seed: int
    images: int

    def file(self, folder: Path, suffix: str) -> Path:
        """Where it keeps something; runs that differ in anything have other files."""
        spec = json.dumps(dataclasses.asdict(self), sort_keys=True)
        digest = hashlib.blake2b(spec.encode(), digest_size=6).hexdigest()
        return folder / f"{self.network}-{self.row}-seed{self.seed}-{digest}{suffix}"

    def model(self, weights: Path) -> nn.Module:
        """The network as the run begins; ``weights``: the data's folder."""
        torch.manual_seed(self.seed)
        return zoo.build(self.network, weights=weights if self.pretrained else None, **self.options)


def train(
    run: Run,
    data: Data,
    weights: Path,
    folder: Path,
    device: str = "cpu",
    epoch_done: Callable[[dict[str, float]], object] = lambda figures: None,
) -> dict[str, Any]:
    """The run's result, from ``folder`` if it is there; else train, with a checkpoint per epoch.

    ``epoch_done`` gets the figures of every epoch, those before the checkpoint too. The weights
    that a baseline ends with stay in ``folder``. ValueError if the images do not fill a batch.
    """
    if len(data.train) < run.schedule.batch:
        raise ValueError(f"{len(data.train)} images do not fill a batch of {run.schedule.batch}")
    finished, checkpoint = run.file(folder, ".json"), run.file(folder, ".pt")
    if finished.exists():
        result = json.loads(finished.read_text())
        for figures in result["history"]:
            epoch_done(figures)
        return result
    folder.mkdir(parents=True, exist_ok=True)
    model = run.model(weights).to(device)
    optimiser = OPTIMISERS[run.schedule.optimiser](
        model.parameters(), lr=run.schedule.rate, weight_decay=run.schedule.weight_decay
    )
    history = _resume(checkpoint, model, optimiser)
    for figures in history:
        epoch_done(figures)
    for epoch in range(len(history), run.schedule.epochs):
        began = time.perf_counter()
        loss = _train_epoch(run, model, optimiser, data.train, epoch)
        seconds = time.perf_counter() - began
        history.append(
            {"loss": loss, "validation": accuracy(model, data.validation), "seconds": seconds}
        )
        state = {"model": model.state_dict(), "optimiser": optimiser.state_dict()}
        _replace(checkpoint, lambda path, s=state: torch.save({**s, "history": history}, path))
        epoch_done(history[-1])
    result = {
        "run": dataclasses.asdict(run),
        "history": history,
        "validation": history[-1]["validation"],
        "test": accuracy(model, data.test),
    }
    _replace(finished, lambda path: path.write_text(json.dumps(result, indent=1) + "\n"))
    if run.row != BASELINE:
        checkpoint.unlink()
    return result


def trained(run: Run, weights: Path, folder: Path) -> nn.Module:
    """The network with the weights that a finished baseline has left."""
    model = run.model(weights)
    state = torch.load(run.file(folder, ".pt"), weights_only=True, map_location="cpu")
    model.load_state_dict(state["model"])
    return model


@torch.no_grad()
def accuracy(model: nn.Module, part: Part) -> float:
    """Per cent of the images that are classified as labelled."""
    model.eval()
    right = sum(
        int((model(x).argmax(1) == y).sum())
        for x, y in zip(part.images.split(500), part.labels.split(500), strict=True)
    )
    model.train()
    return 100 * right / len(part)


def epoch_seed(seed: int, epoch: int) -> int:
    """A seed of 32 bits, of which PyTorch's generator looks at no more; other epochs have others,
    and so have those of other runs."""
    digest = hashlib.blake2b(f"{seed} {epoch}".encode(), digest_size=4).digest()
    return int.from_bytes(digest, "little")


def _train_epoch(
    run: Run, model: nn.Module, optimiser: torch.optim.Optimizer, part: Part, epoch: int
) -> float:
    """The mean loss of an epoch, whose randomness depends on seed and epoch alone."""
    seed = epoch_seed(run.seed, epoch)
    generator = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)  # dropout
    steps = len(part) // run.schedule.batch
    saved = hooks(run.row, run.setting)
    total = 0.0
    for step, batch in enumerate(batches(part, run.schedule.batch, generator)):
        done = (epoch + (step + 0.5) / steps) / run.schedule.epochs
        for group in optimiser.param_groups:
            group["lr"] = run.schedule.rate_at(done)
        optimiser.zero_grad(set_to_none=True)
        with saved(model):
            loss = F.cross_entropy(model(batch.images), batch.labels)
        loss.backward()
        optimiser.step()
        total += float(loss.detach())
    return total / steps


def _resume(
    checkpoint: Path, model: nn.Module, optimiser: torch.optim.Optimizer
) -> list[dict[str, float]]:
    """Figures of the epochs that were done; their state goes to the model and the optimiser."""
    if not checkpoint.exists():
        return []
    state = torch.load(checkpoint, weights_only=True)
    model.load_state_dict(state["model"])
    optimiser.load_state_dict(state["optimiser"])
    return state["history"]


def _replace(path: Path, write: Callable[[Path], object]) -> None:
    """Write a file whole or not at all."""
    partial = path.with_suffix(f".{os.getpid()}")
    write(partial)
    partial.replace(path)

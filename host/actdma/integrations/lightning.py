"""A callback for Lightning's `Trainer`."""

from __future__ import annotations

from typing import Any

try:
    from lightning.pytorch import Callback, LightningModule, Trainer
except ImportError as error:
    raise ImportError(
        "actdma.integrations.lightning needs Lightning: pip install 'actdma[lightning]'"
    ) from error

from ..offloading import Report
from .steps import Steps


class OffloadCallback(Callback):
    """Training steps run in `actdma.offload`: ``Trainer(callbacks=[OffloadCallback(...)])``.

    ``options``: those of `actdma.offload`, without the model. With ``backend="board"``, the
    default, a board is opened when the fit begins and closed when it ends, also if it fails.

    The session spans ``training_step``, in the precision of the trainer, so also the loss that is
    made there; in manual optimisation the backward passes, too. Gradients are those of the plain
    run, bit for bit, unless ``lossy`` asks for others. Validation, test and prediction are left
    alone, and nothing goes into checkpoints.

    For each optimiser step, which may be several batches, the module logs "actdma/ratio",
    "actdma/held_bytes" and "actdma/stall_s" (`Report.scalars`); the trainer's loggers have them
    every ``log_every_n_steps``. `report` has all of the latest step.

    ValueError and TypeError for options that are not those of `actdma.offload`.
    """

    def __init__(self, **options: Any) -> None:
        self._steps = Steps(**options)
        self._stepped = 0

    @property
    def report(self) -> Report | None:
        """That of the latest optimiser step; None before it."""
        return self._steps.report

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Open the engine."""
        self._stepped = trainer.global_step
        self._steps.open(pl_module, trainer.strategy, "training_step")

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, *batch: object
    ) -> None:
        """Log the step, if this batch was its last."""
        if trainer.global_step == self._stepped:
            return
        self._stepped = trainer.global_step
        scalars = self._steps.end_step()
        pl_module.log_dict({name: float(value) for name, value in scalars.items()}, on_step=True)

    def on_exception(
        self, trainer: Trainer, pl_module: LightningModule, exception: BaseException
    ) -> None:
        """Close the engine."""
        self._steps.close()

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Close the engine."""
        self._steps.close()

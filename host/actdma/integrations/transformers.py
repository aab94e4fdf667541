"""A callback for Hugging Face's `Trainer`."""

from __future__ import annotations

import functools
from typing import Any

try:
    import accelerate  # noqa: F401  the trainer asks for it when it is made
    from transformers import (
        Trainer,
        TrainerCallback,
        TrainerControl,
        TrainerState,
        TrainingArguments,
    )
except ImportError as error:
    raise ImportError(
        "actdma.integrations.transformers needs Transformers and Accelerate: "
        "pip install 'actdma[transformers]'"
    ) from error

from ..offloading import Report
from .steps import Steps


class OffloadCallback(TrainerCallback):
    """Training steps run in `actdma.offload`: ``trainer.add_callback(OffloadCallback(trainer))``.

    ``trainer``: the one it is for; callbacks see neither the loss nor exceptions, so this one
    stands around its ``compute_loss`` while it trains, and around its ``train``. ``options``: those
    of `actdma.offload`, without the model. With ``backend="board"``, the default, a board is opened
    when training begins and closed when it ends, also if it fails.

    The session spans the model and the loss, also one that ``compute_loss_func`` or label smoothing
    makes. Gradients are those of the plain run, bit for bit, unless ``lossy`` asks for others.
    Evaluation and prediction are left alone, and nothing goes into checkpoints.

    Whenever the trainer logs, it logs "actdma/ratio", "actdma/held_bytes" and "actdma/stall_s"
    (`Report.scalars`), too: those of the latest optimiser step, with all its micro-batches.
    `report` has all of that step.

    TypeError if ``trainer`` is none; ValueError and TypeError for options that are not those of
    `actdma.offload`.
    """

    def __init__(self, trainer: Trainer, **options: Any) -> None:
        if not isinstance(trainer, Trainer):
            raise TypeError(
                f"expected a transformers.Trainer, got {type(trainer).__name__}: "
                "trainer.add_callback(OffloadCallback(trainer, ...))"
            )
        self._steps = Steps(**options)
        self._trainer = trainer
        trainer.train = self._closing(trainer.train)

    @property
    def report(self) -> Report | None:
        """That of the latest optimiser step; None before it."""
        return self._steps.report

    def on_train_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: Any,
    ) -> None:
        """Open the engine."""
        self._steps.open(self._trainer.model, self._trainer, "compute_loss")

    def on_step_end(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: Any,
    ) -> None:
        """Log the step, if the trainer is going to log."""
        scalars = self._steps.end_step()
        if control.should_log and scalars:
            self._trainer.log(scalars)
            control.should_log = True  # which logging has taken back, and the loss is yet to come

    def on_train_end(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: Any,
    ) -> None:
        """Close the engine."""
        self._steps.close()

    def _closing(self, train: Any) -> Any:
        """``train``, with the engine closed behind it however it ends."""

        @functools.wraps(train)
        def run(*args: Any, **kwargs: Any) -> Any:
            try:
                return train(*args, **kwargs)
            finally:
                self._steps.close()

        return run

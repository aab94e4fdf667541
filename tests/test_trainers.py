"""Callbacks for Lightning and for Hugging Face's Trainer: the plain run's parameters and logs."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys

import lightning.pytorch as pl
import pytest
import torch
from lightning.pytorch.loggers import CSVLogger
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

import actdma.integrations.lightning as in_lightning
import actdma.integrations.transformers as in_transformers
import networks
from toolchain import ROOT

STEPS = 3
MICRO = 2


class Module(pl.LightningModule):
    """Fails at batch ``broken``; ``inside``: whether each training step ran within hooks."""

    def __init__(self, network, broken=None):
        super().__init__()
        self.network, self.broken = network, broken

    def training_step(self, batch, index):
        if index == self.broken:
            raise ArithmeticError("a step of the user's fails")
        x, y = batch
        return F.cross_entropy(self.network(x), y)

    def validation_step(self, batch, index):
        x, y = batch
        self.log("accuracy", (self.network(x).argmax(1) == y).float().mean())

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05, momentum=0.9)


def fit(network, folder, callbacks, precision="32-true", broken=None):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(STEPS * MICRO * 8, 3, 32, 32, generator=generator)
    data = DataLoader(TensorDataset(x, torch.arange(len(x)) % 10), 8)
    trainer = pl.Trainer(
        max_steps=STEPS,
        accelerator="cpu",
        precision=precision,
        callbacks=callbacks,
        accumulate_grad_batches=MICRO,
        logger=CSVLogger(folder),
        log_every_n_steps=1,
        enable_checkpointing=True,
        enable_model_summary=False,
        enable_progress_bar=False,
        default_root_dir=folder,
    )
    module = Module(network, broken)
    torch.manual_seed(0)
    trainer.fit(module, data, data)
    return trainer, module


def gpt():
    torch.manual_seed(0)
    return GPT2LMHeadModel(
        GPT2Config(vocab_size=64, n_positions=64, n_embd=64, n_layer=2, n_head=2)
    )


def hugging_face(model, folder, bf16=False):
    tokens = torch.randint(64, (STEPS * MICRO * 4, 64), generator=torch.Generator().manual_seed(0))
    return Trainer(
        model,
        TrainingArguments(
            str(folder),
            use_cpu=True,
            bf16=bf16,
            max_steps=STEPS,
            per_device_train_batch_size=4,
            gradient_accumulation_steps=MICRO,
            logging_steps=1,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
        ),
        train_dataset=[{"input_ids": row, "labels": row} for row in tokens],
        eval_dataset=[{"input_ids": row, "labels": row} for row in tokens[:4]],
    )


def same_parameters(a, b):
    a, b = a.state_dict(), b.state_dict()
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
@pytest.mark.parametrize("exact", [False, True], ids=["codec", "exact"])
def test_lightning_ends_with_the_plain_runs_parameters(tmp_path, precision, exact):
    torch.manual_seed(0)
    network = networks.resnet()
    plain = copy.deepcopy(network)
    fit(plain, tmp_path / "plain", [], precision)
    callback = in_lightning.OffloadCallback(
        codec="auto", backend="native", min_bytes=1, exact=exact
    )
    trainer, _ = fit(network, tmp_path / "packed", [callback], precision)
    assert same_parameters(plain, network)
    assert callback.report.totals()["tensors"] > 3
    assert {"actdma/ratio", "actdma/held_bytes", "actdma/stall_s"} <= trainer.logged_metrics.keys()


def test_lightning_leaves_validation_and_checkpoints_alone(tmp_path):
    callback = in_lightning.OffloadCallback(codec="zvc", backend="native", min_bytes=1)
    trainer, module = fit(networks.resnet(), tmp_path, [callback])
    report = callback.report
    trainer.validate(module, trainer.val_dataloaders, verbose=False)
    assert callback.report is report
    saved = torch.load(trainer.checkpoint_callback.best_model_path, weights_only=True)
    assert "OffloadCallback" not in str(saved["callbacks"])
    assert pickle.loads(pickle.dumps(callback._steps)).report is None


def test_lightning_gives_back_what_it_took_when_a_step_fails(tmp_path):
    callback = in_lightning.OffloadCallback(codec="zvc", backend="board", min_bytes=1)
    with pytest.raises(ArithmeticError, match="user's"):
        fit(networks.resnet(), tmp_path, [callback], broken=1)
    assert callback._steps._run is None
    x = torch.randn(4, requires_grad=True)
    nn.functional.relu(x).sum().backward()  # outside of any session


@pytest.mark.parametrize("bf16", [False, True], ids=["float32", "bfloat16"])
def test_hugging_faces_trainer_ends_with_the_plain_runs_parameters(tmp_path, bf16):
    plain, model = gpt(), gpt()
    hugging_face(plain, tmp_path / "plain", bf16).train()
    trainer = hugging_face(model, tmp_path / "packed", bf16)
    callback = in_transformers.OffloadCallback(
        trainer, codec="auto", backend="native", min_bytes=1, exact=True
    )
    trainer.add_callback(callback)
    trainer.train()
    assert same_parameters(plain, model)
    report = callback.report
    assert report.totals()["tensors"] > 3
    logged = {name for entry in trainer.state.log_history for name in entry}
    assert {"loss", "actdma/ratio", "actdma/held_bytes", "actdma/stall_s"} <= logged
    trainer.evaluate()
    assert callback.report is report


def test_hugging_faces_trainer_gets_its_methods_back_when_a_step_fails(tmp_path, monkeypatch):
    trainer = hugging_face(gpt(), tmp_path)
    callback = in_transformers.OffloadCallback(trainer, codec="zvc", backend="native")
    trainer.add_callback(callback)
    monkeypatch.setattr(trainer.model, "forward", lambda **_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        trainer.train()
    assert "compute_loss" not in vars(trainer)


def test_wrong_options_are_refused_when_the_callback_is_made():
    with pytest.raises(ValueError, match="unknown codec 'zip'"):
        in_lightning.OffloadCallback(codec="zip")
    with pytest.raises(TypeError, match=r"expected a transformers\.Trainer, got str"):
        in_transformers.OffloadCallback("trainer")


EXAMPLES = sorted(
    path.stem
    for path in (ROOT / "examples").glob("*.py")
    if path.stem not in ("common", "ddp")  # ddp: test_ranks.py
)


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_train_and_print_what_a_step_held(name, tmp_path):
    script = ROOT / "examples" / f"{name}.py"
    command = [sys.executable, script, "--steps", "2", "--batch", "2"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    assert "The last step" in done.stdout

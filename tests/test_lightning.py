"""The Lightning callback: gradients are those of the plain fit, and nothing is left behind."""

import copy
import csv
import pickle

import lightning.pytorch as pl
import pytest
import torch
from lightning.pytorch.loggers import CSVLogger
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import networks
from actdma.integrations import steps as integration
from actdma.integrations.lightning import OffloadCallback
from trainers import all_equal, emulated_boards, hooks_are_open

pytestmark = [
    pytest.mark.usefixtures("one_thread"),
    pytest.mark.filterwarnings("ignore"),  # Lightning's about workers, loggers, PyTorch's future
]
SCALARS = {"actdma/ratio", "actdma/held_bytes", "actdma/stall_s"}


class Module(pl.LightningModule):
    """Keeps the gradients of every optimiser step, the losses, and whether hooks were open."""

    def __init__(self, fails_in=None):
        super().__init__()
        torch.manual_seed(0)
        self.network = networks.resnet()
        self.gradients, self.losses, self.fails_in = [], [], fails_in
        self.seen_in_training = set()

    def loss(self, batch):
        return nn.functional.cross_entropy(self.network(batch[0]), batch[1])

    def training_step(self, batch, index):
        loss = self.loss(batch)
        self.seen_in_training.add(hooks_are_open())
        if self.fails_in == "training_step" and index == 1:
            raise RuntimeError("failed in training_step")
        return loss

    def validation_step(self, batch, index):
        assert not hooks_are_open()
        with torch.enable_grad():
            self.losses.append(self.loss(batch).detach())

    def on_before_optimizer_step(self, optimizer):
        # None as long as no step had a loss.
        found = [p.grad for p in self.parameters()]
        self.gradients.append([g.clone() for g in found if g is not None])

    def on_train_batch_end(self, *batch):
        assert not hooks_are_open()
        if self.fails_in == "on_train_batch_end":
            raise KeyError("failed in on_train_batch_end")

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.01, momentum=0.9)


class Manual(Module):
    """Two backward passes and steps in a batch, by hand."""

    def __init__(self):
        super().__init__()
        self.automatic_optimization = False

    def training_step(self, batch, index):
        for _ in range(2):
            self.optimizers().zero_grad()
            self.manual_backward(self.loss(batch))
            self.optimizers().step()


class Lbfgs(Module):
    """An optimiser that runs the step several times."""

    def configure_optimizers(self):
        return torch.optim.LBFGS(self.parameters(), 0.01, max_iter=3)


class Skipping(Module):
    """Every other step has no loss."""

    def training_step(self, batch, index):
        loss = self.loss(batch)
        return loss if index % 2 else None


def data():
    images = networks.images(24)
    return DataLoader(TensorDataset(images, torch.arange(24) % 10), 4)


def fit(module, folder, *callbacks, **options):
    options = {"max_epochs": 2, "log_every_n_steps": 1, "limit_val_batches": 2, **options}
    trainer = pl.Trainer(
        accelerator="cpu",
        callbacks=list(callbacks),
        logger=CSVLogger(folder),
        enable_progress_bar=False,
        enable_model_summary=False,
        **options,
    )
    torch.manual_seed(1)
    trainer.fit(module, data(), data())
    return trainer


def callback(**options):
    return OffloadCallback(**{"backend": "native", "min_bytes": 1, "min_ratio": 0, **options})


def logged(trainer):
    with open(f"{trainer.logger.log_dir}/metrics.csv") as file:
        return [row for row in csv.DictReader(file) if row.get("actdma/held_bytes")]


@pytest.mark.parametrize("kind", [Module, Manual, Lbfgs, Skipping])
@pytest.mark.parametrize("exact", [False, True], ids=["values", "exact"])
def test_gradients_and_weights_are_those_of_the_plain_fit(kind, exact, tmp_path):
    plain, offloaded, offload = kind(), kind(), callback(codec="auto", exact=exact)
    fit(plain, tmp_path)
    fit(offloaded, tmp_path, offload)
    assert offload.report.records
    assert plain.gradients
    assert len(plain.gradients) == len(offloaded.gradients)
    assert all(map(all_equal, plain.gradients, offloaded.gradients))
    assert all_equal(plain.losses, offloaded.losses)
    assert all_equal([*plain.state_dict().values()], [*offloaded.state_dict().values()])


@pytest.mark.parametrize("batches", [1, 4], ids=lambda n: f"{n} batches a step")
def test_bfloat16_and_accumulation(batches, tmp_path):
    options = {"precision": "bf16-mixed", "accumulate_grad_batches": batches}
    plain, offloaded, offload = Module(), Module(), callback(codec="auto", exact=True)
    fit(plain, tmp_path, **options)
    trainer = fit(offloaded, tmp_path, offload, **options)
    assert all(map(all_equal, plain.gradients, offloaded.gradients))
    assert len(plain.gradients) == len(offloaded.gradients) == trainer.global_step
    assert (plain.seen_in_training, offloaded.seen_in_training) == ({False}, {True})
    assert "bfloat16" in {record.dtype for record in offload.report.records}


def test_an_optimiser_step_is_logged_once_with_all_its_batches(tmp_path):
    single, several = callback(), callback()
    each = fit(Module(), tmp_path, single, max_epochs=1)
    steps = fit(Module(), tmp_path, several, max_epochs=1, accumulate_grad_batches=3)
    assert [len(logged(trainer)) for trainer in (each, steps)] == [6, 2]
    assert len(several.report.records) == 3 * len(single.report.records)
    assert several.report.held_bytes_peak < 2 * single.report.held_bytes_peak


def test_what_is_logged_is_what_the_report_says(tmp_path):
    offload = callback(codec="auto")
    trainer = fit(Module(), tmp_path, offload)
    rows, scalars = logged(trainer), offload.report.scalars()
    assert len(rows) == trainer.global_step == 12
    assert scalars.keys() == SCALARS
    assert {name: float(rows[-1][name]) for name in SCALARS} == pytest.approx(scalars)
    assert scalars["actdma/ratio"] > 1
    assert float(rows[0]["actdma/stall_s"]) != float(rows[1]["actdma/stall_s"])  # a step's, no sum


def test_checkpoints_know_nothing_of_it(tmp_path):
    plain, offloaded = fit(Module(), tmp_path / "a"), fit(Module(), tmp_path / "b", callback())
    states = [
        torch.load(trainer.checkpoint_callback.best_model_path, weights_only=False)
        for trainer in (plain, offloaded)
    ]
    assert states[0].keys() == states[1].keys()
    assert [*states[0]["callbacks"]] == [*states[1]["callbacks"]]
    assert all_equal(*([*state["state_dict"].values()] for state in states))
    with open(offloaded.checkpoint_callback.best_model_path, "rb") as file:
        assert b"actdma" not in file.read()


@pytest.mark.parametrize("where", ["training_step", "on_train_batch_end"])
def test_a_failing_fit_closes_all_and_the_next_one_works(where, tmp_path, boards):
    offload, module = callback(backend="board"), Module(fails_in=where)
    with pytest.raises((RuntimeError, KeyError), match=f"failed in {where}"):
        fit(module, tmp_path, offload)
    assert not hooks_are_open()
    assert [board.closed for board in boards] == [True]
    assert "training_step" not in vars(module.trainer.strategy)
    module.fails_in = None
    fit(module, tmp_path, offload, max_epochs=1)
    assert offload.report.records
    assert [board.closed for board in boards] == [True, True]


def test_the_board_is_open_during_the_fit_alone(tmp_path, boards):
    offload, plain, offloaded = callback(backend="board"), Module(), Module()
    assert boards == []
    fit(plain, tmp_path, max_steps=2)
    fit(offloaded, tmp_path, offload, max_steps=2)
    assert [board.closed for board in boards] == [True]
    assert offload.report.environment["board"]["kind"] == "emulated"
    assert all(map(all_equal, plain.gradients, offloaded.gradients))


def test_a_board_that_cannot_be_opened_stops_the_fit(tmp_path, monkeypatch):
    def no_board():
        raise RuntimeError("no board here")

    monkeypatch.setattr(integration, "open_board", no_board)
    module = Module()
    with pytest.raises(RuntimeError, match="no board here"):
        fit(module, tmp_path, callback(backend="board"))
    assert "training_step" not in vars(module.trainer.strategy)


def test_validation_alone_opens_nothing(tmp_path, boards):
    offload, module = callback(backend="board"), Module()
    trainer = pl.Trainer(
        accelerator="cpu", callbacks=[offload], logger=False, enable_progress_bar=False
    )
    trainer.validate(module, data(), verbose=False)
    assert module.losses
    assert boards == []
    assert offload.report is None


@pytest.mark.parametrize("twin", [copy.deepcopy, lambda c: pickle.loads(pickle.dumps(c))])
def test_a_copy_has_the_options_and_nothing_that_runs(twin, tmp_path):
    class CopiesItself(pl.Callback):
        def on_train_batch_start(self, trainer, *batch):
            self.copy = twin(offload)

    offload, copies = callback(codec="auto"), CopiesItself()
    fit(Module(), tmp_path, offload, copies, max_epochs=1)
    assert copies.copy.report is None
    fit(Module(), tmp_path, copies.copy, max_epochs=1)
    assert len(copies.copy.report.records) == len(offload.report.records)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"codec": "zip"}, ValueError, "unknown codec 'zip'"),
        ({"backend": "abacus"}, ValueError, "unknown backend 'abacus'"),
        ({"min_bytes": -1}, ValueError, "min_bytes is -1"),
        ({"kodek": "zvc"}, TypeError, "kodek"),
        ({"model": nn.ReLU()}, TypeError, "model"),
    ],
)
def test_wrong_options_are_refused_at_once(options, error, message):
    with pytest.raises(error, match=message):
        OffloadCallback(**options)


@pytest.fixture
def boards(monkeypatch):
    opened = emulated_boards(monkeypatch)
    yield opened
    for board in opened:
        board.close()

"""The callback of Hugging Face's Trainer: gradients are those of the plain run, nothing is left."""

import pytest
import torch
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments

from actdma.integrations.transformers import OffloadCallback
from trainers import all_equal, emulated_boards, hooks_are_open

pytestmark = pytest.mark.usefixtures("one_thread")
SCALARS = {"actdma/ratio", "actdma/held_bytes", "actdma/stall_s"}


class Witness(TrainerCallback):
    """Keeps the gradients of every optimiser step; hooks are open in no event."""

    def __init__(self):
        self.gradients = []

    def on_pre_optimizer_step(self, args, state, control, model=None, **kwargs):
        self.gradients.append([p.grad.clone() for p in model.parameters()])

    def on_step_end(self, *args, **kwargs):
        assert not hooks_are_open()

    def on_prediction_step(self, *args, **kwargs):
        assert not hooks_are_open()


class FailsInLog(TrainerCallback):
    def on_log(self, *args, **kwargs):
        raise KeyError("failed in on_log")


def network():
    torch.manual_seed(0)
    return GPT2LMHeadModel(
        GPT2Config(vocab_size=97, n_positions=32, n_embd=32, n_layer=2, n_head=2)
    )


def data(count=32):
    tokens = torch.randint(97, (count, 32), generator=torch.Generator().manual_seed(1))
    return [{"input_ids": row, "labels": row} for row in tokens]


def trainer_of(folder, *callbacks, model=None, compute_loss_func=None, train=None, **options):
    options = {
        "max_steps": 3,
        "logging_steps": 1,
        "save_strategy": "no",
        "per_device_train_batch_size": 4,
        **options,
    }
    arguments = TrainingArguments(
        str(folder), use_cpu=True, report_to="none", disable_tqdm=True, seed=3, **options
    )
    return Trainer(
        model or network(),
        arguments,
        train_dataset=data() if train is None else train,
        eval_dataset=data(8),
        compute_loss_func=compute_loss_func,
        callbacks=list(callbacks),
    )


def with_callback(trainer, **options):
    options = {"backend": "native", "min_bytes": 1, "min_ratio": 0, **options}
    offload = OffloadCallback(trainer, **options)
    trainer.add_callback(offload)
    return offload


def both(folder, codec="auto", exact=True, **options):
    """Gradients, trainer and callback of a plain and of an offloaded run."""
    runs = []
    for offloads in (False, True):
        witness = Witness()
        trainer = trainer_of(folder, witness, **options)
        offload = with_callback(trainer, codec=codec, exact=exact) if offloads else None
        trainer.train()
        runs.append((witness.gradients, trainer, offload))
    (plain, a, _), (offloaded, b, offload) = runs
    assert len(plain) == len(offloaded) == b.state.global_step > 0
    assert all(map(all_equal, plain, offloaded))
    assert all_equal([*a.model.parameters()], [*b.model.parameters()])
    assert offload.report.records
    return a, b, offload


def logged(trainer):
    return [entry for entry in trainer.state.log_history if "actdma/held_bytes" in entry]


@pytest.mark.parametrize("exact", [False, True], ids=["values", "exact"])
@pytest.mark.parametrize("micro_batches", [1, 3])
@pytest.mark.parametrize("bf16", [False, True], ids=["float32", "bf16"])
def test_gradients_and_weights_are_those_of_the_plain_run(exact, micro_batches, bf16, tmp_path):
    _, _, offload = both(
        tmp_path, exact=exact, gradient_accumulation_steps=micro_batches, bf16=bf16
    )
    dtypes = {record.dtype for record in offload.report.records}
    assert ("bfloat16" in dtypes) == bf16


def test_gradients_with_activation_checkpointing(tmp_path):
    plain, _, offload = both(tmp_path, exact=False, activation_checkpointing=True)
    assert plain.model.is_activation_checkpointing
    assert len(offload.report.records) < 20  # inputs of the checkpointed blocks, not what is inside


def test_a_loss_of_ones_own_is_in_the_session(tmp_path):
    seen = set()

    def loss(outputs, labels, num_items_in_batch=None):
        seen.add(hooks_are_open())
        logits = outputs.logits[:, :-1].flatten(0, 1)
        return nn.functional.cross_entropy(logits, labels[:, 1:].flatten())

    _, _, offload = both(tmp_path, exact=False, compute_loss_func=loss)
    assert seen == {False, True}  # without, and with the callback
    assert "LogSoftmax" in {record.operator for record in offload.report.records}


def test_label_smoothing_is_in_the_session(tmp_path):
    _, _, offload = both(tmp_path, exact=False, label_smoothing_factor=0.1)
    assert "LogSoftmax" in {record.operator for record in offload.report.records}


def test_evaluation_is_left_alone(tmp_path):
    plain, offloaded, _ = both(tmp_path, eval_strategy="steps", eval_steps=1)
    losses = [
        [entry["eval_loss"] for entry in trainer.state.log_history if "eval_loss" in entry]
        for trainer in (plain, offloaded)
    ]
    assert losses[0] == losses[1]
    assert len(losses[0]) == 3


def test_each_logged_step_has_its_scalars_beside_its_loss(tmp_path):
    plain, offloaded, offload = both(tmp_path, max_steps=4, logging_steps=2)
    entries = logged(offloaded)
    assert [entry["step"] for entry in entries] == [2, 4]
    assert offload.report.scalars().items() <= entries[-1].items()
    assert entries[-1].keys() >= SCALARS
    assert entries[-1]["actdma/ratio"] > 1
    losses = [
        [(entry["step"], entry["loss"]) for entry in trainer.state.log_history if "loss" in entry]
        for trainer in (plain, offloaded)
    ]
    assert losses[0] == losses[1]
    assert [step for step, _ in losses[1]] == [2, 4]


def test_an_optimiser_step_is_logged_with_all_its_micro_batches(tmp_path):
    _, _, one = both(tmp_path, max_steps=2)
    _, trainer, three = both(tmp_path, max_steps=2, gradient_accumulation_steps=3)
    assert len(three.report.records) == 3 * len(one.report.records)
    assert three.report.held_bytes_peak < 2 * one.report.held_bytes_peak
    assert len(logged(trainer)) == 2


def test_checkpoints_know_nothing_of_it(tmp_path):
    trainer = trainer_of(tmp_path, save_strategy="steps", save_steps=2)
    with_callback(trainer)
    trainer.train()
    files = [path for path in (tmp_path / "checkpoint-2").iterdir() if path.suffix != ".json"]
    assert {path.name for path in files} >= {"model.safetensors", "training_args.bin"}
    assert not [path for path in files if b"actdma" in path.read_bytes()]
    again = trainer_of(tmp_path, save_strategy="no")  # goes on without the callback
    again.train(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))
    assert again.state.global_step == 3


class BadData(torch.utils.data.Dataset):
    """Fails in the loader."""

    def __len__(self):
        return 32

    def __getitem__(self, index):
        raise KeyError("failed in the data")


class BadBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        raise KeyError("failed in backward")


def bad_loss(outputs, labels, num_items_in_batch=None):
    raise KeyError("failed in the loss")


def bad_backward(outputs, labels, num_items_in_batch=None):
    return BadBackward.apply(outputs.logits.mean())


@pytest.mark.parametrize(
    ("options", "where"),
    [
        ({"train": BadData()}, "the data"),
        ({"compute_loss_func": bad_loss}, "the loss"),
        ({"compute_loss_func": bad_backward}, "backward"),
        ({}, "on_log"),
    ],
)
def test_a_failing_run_closes_all(options, where, tmp_path, boards):
    trainer = trainer_of(tmp_path, *([] if options else [FailsInLog()]), **options)
    with_callback(trainer, backend="board")
    with pytest.raises(KeyError, match=f"failed in {where}"):
        trainer.train()
    assert not hooks_are_open()
    assert [board.closed for board in boards] == [True]
    assert "compute_loss" not in vars(trainer)


def test_training_again_after_a_failure_works(tmp_path):
    fails = FailsInLog()
    trainer = trainer_of(tmp_path, fails)
    offload = with_callback(trainer)
    with pytest.raises(KeyError):
        trainer.train()
    trainer.remove_callback(fails)
    trainer.train()
    assert offload.report.records
    assert "compute_loss" not in vars(trainer)


def test_the_board_is_open_during_training_alone(tmp_path, boards):
    trainer = trainer_of(tmp_path, max_steps=1)
    offload = with_callback(trainer, backend="board")
    trainer.evaluate()
    assert boards == []
    trainer.train()
    assert [board.closed for board in boards] == [True]
    assert offload.report.environment["board"]["kind"] == "emulated"
    trainer.evaluate()
    assert len(boards) == 1


def test_a_smaller_batch_is_tried_when_memory_is_short(tmp_path, boards):
    """`auto_find_batch_size` begins again without having ended."""
    sizes = []

    def loss(outputs, labels, num_items_in_batch=None):
        sizes.append(len(labels))
        if len(sizes) == 1:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory")
        return outputs.logits.square().mean()

    trainer = trainer_of(tmp_path, compute_loss_func=loss, auto_find_batch_size=True)
    offload = with_callback(trainer, backend="board")
    trainer.train()
    assert sizes[0] > sizes[-1]
    assert [board.closed for board in boards] == [True, True]
    assert offload.report.records


def test_what_is_no_longer_a_callback_does_nothing(tmp_path):
    trainer = trainer_of(tmp_path)
    offload = with_callback(trainer)
    trainer.remove_callback(offload)
    trainer.train()
    assert offload.report is None
    assert logged(trainer) == []


def test_wrong_arguments_are_refused_at_once(tmp_path):
    with pytest.raises(TypeError, match=r"expected a transformers.Trainer, got GPT2LMHeadModel"):
        OffloadCallback(network())
    with pytest.raises(ValueError, match="unknown codec 'zip'"):
        OffloadCallback(trainer_of(tmp_path), codec="zip")


@pytest.fixture
def boards(monkeypatch):
    opened = emulated_boards(monkeypatch)
    yield opened
    for board in opened:
        board.close()

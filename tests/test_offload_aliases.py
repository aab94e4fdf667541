"""Storages that change without a version to tell, and what lies outside of a model's own doing."""

import contextlib
import copy
import io
import threading

import numpy as np
import pytest
import torch
from torch import nn
from torch.autograd import forward_ad

import actdma


def gradients(step, parameters, offloaded, **options):
    """Gradients of ``step()`` for ``parameters``."""
    context = actdma.offload(backend="native", min_bytes=0, verify=True, **options)
    with context if offloaded else contextlib.nullcontext():
        loss = step()
    return torch.autograd.grad(loss, parameters)


def same_gradients(make):
    """Whether a step that ``make()`` returns with its parameters has the plain gradients."""
    results = []
    for offloaded in (False, True):
        torch.manual_seed(0)
        step, parameters = make()
        results.append(gradients(step, parameters, offloaded))
    return all(torch.equal(a, b) for a, b in zip(*results, strict=True))


def recurrent(kind, *arguments, dtype=torch.float32, **options):
    def make():
        m = kind(*arguments, **options).to(dtype)
        shape = (32, 64) if "Cell" in kind.__name__ else (10, 32, 64)
        x = torch.randn(shape, dtype=dtype)

        def step():
            out = m(x)
            return (out if torch.is_tensor(out) else out[0]).square().mean()

        return step, list(m.parameters())

    return make


@pytest.mark.parametrize(
    "make",
    [
        recurrent(nn.GRU, 64, 128),
        recurrent(nn.GRUCell, 64, 128),
        recurrent(nn.LSTM, 64, 128),
        recurrent(nn.LSTM, 64, 128, dtype=torch.float64),
        recurrent(nn.LSTMCell, 64, 128),
        recurrent(nn.RNN, 64, 128),
    ],
    ids=["gru", "gru cell", "lstm", "lstm float64", "lstm cell", "rnn"],
)
def test_recurrent_networks_have_the_plain_gradients(make):
    """Their CPU cells change chunks of one storage, each with a version counter of its own."""
    assert same_gradients(make)


def test_chunks_that_count_versions_by_themselves():
    def make():
        w = torch.randn(64, 64, requires_grad=True)

        def step():
            a, b = (torch.ones(32, 64) @ w).unsafe_chunk(2, 1)
            return (a.sigmoid_() * b.tanh_()).sum()

        return step, [w]

    assert same_gradients(make)


@pytest.mark.parametrize("change", ["data", "numpy"])
def test_a_change_that_no_version_counts_between_two_saves_is_seen(change):
    def make():
        w, x = torch.randn(5000, requires_grad=True), torch.randn(5000)

        def step():
            first = w * x
            if change == "data":
                x.data.mul_(2)
            else:
                x.numpy()[:] *= 2
            return (w * x).sum() + 0 * first.detach().sum()

        return step, [w]

    assert same_gradients(make)


class WritesToItsSaved(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a):
        ctx.save_for_backward(a)
        return a * a

    @staticmethod
    def backward(ctx, g):
        (a,) = ctx.saved_tensors
        return a.mul_(2).mul_(g)


def test_a_backward_that_writes_to_what_it_saved_hurts_nobody_else():
    w = torch.randn(5000, requires_grad=True)
    with actdma.offload(backend="native"):
        h = w * 3
        late = h.sin()
        y = late + WritesToItsSaved.apply(h)  # made last, so it runs first in backward
    expected = 3 * (2 * h + h.cos()).detach()
    for _ in range(2):
        (gradient,) = torch.autograd.grad(y.sum(), w, retain_graph=True)
        torch.testing.assert_close(gradient, expected)


def test_storages_of_saved_tensors_stay_resizable():
    w = torch.randn(5000, requires_grad=True)
    with actdma.offload(backend="native"):
        h = w * 3
        y = h.sin()
    h.untyped_storage().resize_(0)
    y.sum().backward()
    torch.testing.assert_close(w.grad, 3 * (3 * w).cos().detach())


def test_zero_tensors_of_forward_mode_pass():
    w = torch.randn(50, requires_grad=True)
    results = []
    for offloaded in (False, True):
        with forward_ad.dual_level():
            d = forward_ad.make_dual(w, torch.ones(50))
            session = actdma.offload(backend="native", min_bytes=0)
            with session if offloaded else contextlib.nullcontext():
                y = ((d * 2).exp() * (d * 2).sin()).sum()
                results.append(torch.autograd.grad(y, w, create_graph=True)[0].detach())
    assert torch.equal(*results)
    assert session.report().kept["zero tensor"] > 0


RRELUS = {
    "module": nn.RReLU,
    "function": lambda: lambda x: nn.functional.rrelu(x, training=True),
    "in place": lambda: nn.RReLU(inplace=True),
    "beside a compiled module": nn.RReLU,
    "compiled": lambda: torch.compile(nn.RReLU(), backend="eager"),
}


@pytest.mark.parametrize("known", [True, False], ids=["model", "no model"])
@pytest.mark.parametrize("kind", RRELUS)
def test_a_training_rrelu_keeps_its_noise(kind, known):
    linear, rrelu = nn.Linear(64, 64), RRELUS[kind]()
    if kind == "beside a compiled module":
        linear = torch.compile(linear, backend="eager")
    x = torch.randn(32, 64)
    results = []
    for offloaded in (False, True):
        torch.manual_seed(0)
        session = actdma.offload(linear if known else None, backend="native", min_bytes=0)
        with session if offloaded else contextlib.nullcontext():
            loss = rrelu(linear(x)).square().sum()
        results.append(torch.autograd.grad(loss, list(linear.parameters())))
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))
    assert session.report().kept["rrelu"] > 0


@pytest.mark.parametrize("min_bytes", [0, 1 << 20], ids=["parameter", "small"])
def test_replaced_data_of_a_leaf_is_what_backward_gets(min_bytes):
    """As without the block: autograd saves a leaf itself."""
    results = []
    for offloaded in (False, True):
        torch.manual_seed(0)
        w, x = nn.Parameter(torch.randn(500)), torch.randn(500, requires_grad=True)
        session = actdma.offload(backend="native", min_bytes=min_bytes)
        with session if offloaded else contextlib.nullcontext():
            y = w * (x * 1)
        w.data = w.data * 2
        results.append(torch.autograd.grad(y.sum(), x)[0])
    assert torch.equal(*results)


def test_a_model_can_be_copied_and_saved_inside_and_takes_nothing_along():
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
    with actdma.offload(model, backend="native"):
        twin = copy.deepcopy(model)
        torch.save(model, io.BytesIO())
    for module in (*model.modules(), *twin.modules()):
        assert not module._forward_hooks
        assert not module._forward_pre_hooks


class WithoutHash(nn.Module):
    """Compares itself, so it has no hash."""

    def __eq__(self, other):
        return isinstance(other, WithoutHash)

    def forward(self, x):
        return x * 2


def test_modules_that_are_not_the_models_are_left_alone():
    model, other = nn.Linear(8, 8), WithoutHash()
    with actdma.offload(model, backend="native", min_bytes=0) as session:
        y = model(other(torch.randn(4, 8, requires_grad=True)).exp())
    y.sum().backward()
    assert [r.module for r in session.report().records] == [None]


def test_each_thread_has_its_own_running_module():
    entered, done = threading.Event(), threading.Event()

    class Waits(nn.Module):
        def forward(self, x):
            entered.set()
            assert done.wait(60)
            return x

    model = nn.ModuleDict({"waits": Waits(), "exp": nn.Softplus()})
    x = torch.randn(4, 8, requires_grad=True)
    with actdma.offload(model, backend="native", min_bytes=0) as session:
        thread = threading.Thread(target=model["waits"], args=(x,))
        thread.start()
        assert entered.wait(60)
        y = [(x * 2).sin(), model["exp"](x * 3)]
        done.set()
        thread.join()
        y.append((x * 4).sin())
    assert [r.module for r in session.report().records] == [None, "exp", None]


@pytest.mark.parametrize("known", [True, False], ids=["model", "no model"])
def test_a_compiled_step_with_offload_inside_has_the_plain_gradients(known):
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8))
    x = torch.randn(64, 64)

    @torch.compile(backend="eager")
    def step():
        with actdma.offload(model if known else None, backend="native", min_bytes=0):
            return model(x).square().sum()

    plain = torch.autograd.grad(model(x).square().sum(), list(model.parameters()))
    compiled = torch.autograd.grad(step(), list(model.parameters()))
    assert all(torch.equal(a, b) for a, b in zip(plain, compiled, strict=True))


def test_a_whole_graph_cannot_have_offload_in_it():
    @torch.compile(backend="eager", fullgraph=True)
    def step(x):
        with actdma.offload(backend="native"):
            return (x * 2).sin()

    with pytest.raises(torch._dynamo.exc.Unsupported, match="offload"):
        step(torch.randn(8, requires_grad=True))


@pytest.mark.parametrize("nbytes", [1, 64, 1003, 20_000])
def test_a_frame_tells_single_bits(nbytes):
    data = np.random.default_rng(0).integers(0, 256, nbytes).astype(np.uint8)
    frame = actdma.compress(data, frame_bytes=8192)
    assert frame.holds(data)
    for position in (0, nbytes // 2, nbytes - 1):
        data[position] ^= 1
        assert not frame.holds(data)
        data[position] ^= 1

"""`actdma.offload`: what is kept as it is, checked for in-place changes, recorded, and refused."""

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import networks
from actdma import codecs
from sessions import leaf, offload, records

MODIFIED = "one of the variables needed for gradient computation has been modified by an inplace"


# What is kept as it is


def test_parameters_and_buffers_are_never_packed():
    model = networks.resnet()
    session = offload(model)
    networks.step(model, networks.images(), session)
    shapes = {tuple(t.shape) for t in model.parameters() if t.ndim == 4}
    assert not shapes & {r.shape for r in records(session)}
    assert session.report().kept["parameter"] >= len([*model.parameters()]) // 2


@pytest.mark.parametrize("known", [True, False], ids=["model", "no model"])
def test_views_of_parameters_are_not_packed(known):
    linear = nn.Linear(30, 40)
    x = torch.randn(8, 30)
    with offload(linear if known else None) as session:
        y = (x.exp() * 2) @ linear.weight.t() + (x @ linear.weight[:20].t()).sum()
    y.sum().backward()
    assert all(r.shape == (8, 30) for r in records(session))


def test_an_input_that_requires_grad_is_packed_where_the_model_is_known():
    model = nn.Linear(30, 40)
    x = leaf(8, 30)
    with offload(model) as session:
        y = model(x).sum()
    assert [r.shape for r in records(session)] == [(8, 30)]
    y.backward()


def test_small_tensors_are_kept():
    x = leaf(2047)
    with offload(min_bytes=8192) as session:
        (x * 2).sin()
    assert session.report().kept == {"small": 1}


class Wrapper(torch.Tensor):
    """A wrapper subclass, as DTensor is one."""

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

    def __init__(self, inner):
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, function, types, arguments=(), options=None):
        plain = [a.inner if isinstance(a, Wrapper) else a for a in arguments]
        result = function(*plain, **(options or {}))
        return Wrapper(result) if isinstance(result, torch.Tensor) else result


def fake():
    with torch._subclasses.FakeTensorMode():
        return torch.empty(50)


KEPT = {
    "subclass": lambda: Wrapper(torch.randn(50)),
    "fake": fake,
    "sparse": lambda: torch.eye(5).to_sparse(),
    "sparse_csr": lambda: torch.eye(5).to_sparse_csr(),
    "nested": lambda: torch.nested.nested_tensor([torch.randn(2), torch.randn(3)]),
    "quantised": lambda: torch.quantize_per_tensor(torch.randn(5), 0.1, 0, torch.quint8),
    "meta": lambda: torch.empty(50, device="meta"),
    "empty": lambda: torch.empty(0, 3),
}
REASONS = {"fake": "subclass", "sparse_csr": "sparse", "empty": "small"}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("kind", KEPT)
def test_tensors_without_plain_memory_pass_through_and_are_counted(kind):
    x = KEPT[kind]()
    given = []

    class Save(torch.autograd.Function):
        @staticmethod
        def forward(ctx, handle):
            ctx.save_for_backward(x)
            return handle * 1

        @staticmethod
        def backward(ctx, gradient):
            given.extend(ctx.saved_tensors)
            return gradient

    with offload() as session:
        y = Save.apply(leaf(1))
    y.backward()
    assert type(given[0]) is type(x)
    assert given[0].layout == x.layout
    assert session.report().kept == {REASONS.get(kind, kind): 1}
    assert not records(session)


def test_wrapper_subclasses_compute_the_same_gradient():
    inner = torch.randn(50)
    x = Wrapper(inner).requires_grad_()
    with offload():
        y = (x * x).sin()
    gradient = torch.autograd.grad(y, x, Wrapper(torch.ones(50)))[0]
    torch.testing.assert_close(gradient.inner, 2 * inner * inner.square().cos())


@pytest.mark.parametrize("reentrant", [True, False])
def test_under_checkpointing_only_boundary_inputs_are_packed(reentrant):
    torch.manual_seed(0)
    part = nn.Sequential(nn.Linear(32, 64), nn.Tanh(), nn.Linear(64, 32), nn.Tanh())
    x = leaf(8, 32)
    plain = torch.autograd.grad(part(x * 2).sum(), [x, *part.parameters()])
    with offload(part) as session:
        y = checkpoint(part, x * 2, use_reentrant=reentrant).sum()
    assert [r.shape for r in records(session)] == [(8, 32)]
    y.backward()
    got = [x.grad, *(p.grad for p in part.parameters())]
    assert all(map(torch.equal, plain, got))


# In-place changes


def modified_output(x):
    y = x.exp()
    return y, y


def modified_input(x):
    h = x * 2
    return h, h.sin()


def modified_parameter(x):
    return x, (x * 2) * x


@pytest.mark.parametrize("min_bytes", [1, 1 << 20], ids=["packed", "kept"])
@pytest.mark.parametrize("case", [modified_output, modified_input, modified_parameter])
@pytest.mark.parametrize("view", [lambda t: t, lambda t: t[3:5], lambda t: t.detach().view(-1)])
def test_in_place_changes_after_saving_are_detected(case, view, min_bytes):
    x = leaf(10, 5)
    with offload(min_bytes=min_bytes):
        target, y = case(x)
    with torch.no_grad():
        view(target).add_(1)
    with pytest.raises(RuntimeError, match=f"{MODIFIED}.*is at version 1; expected version 0"):
        y.sum().backward()


def test_the_message_is_that_of_autograd():
    def message(session):
        x = torch.ones(3, 4, requires_grad=True)
        with session:
            y = x.exp()
        y.add_(1)
        with pytest.raises(RuntimeError) as caught:
            y.sum().backward()
        return str(caught.value).split("Hint")[0]

    assert message(offload()) == message(torch.enable_grad())


def test_in_place_changes_before_saving_are_fine():
    x = leaf(10)
    with offload():
        h = x * 2
        h.add_(1)
        y = h.sin()
    y.sum().backward()
    assert torch.equal(x.grad, 2 * (2 * x.detach() + 1).cos())


# Use


def test_nested_sessions_record_in_the_innermost():
    x = leaf(100)
    with offload() as outer:
        a = (x * 2).sin()
        with offload(codec="raw") as inner:
            b = (a * 3).cos()
        c = (b * 4).exp()
    c.sum().backward()
    assert [r.codec for r in records(outer)] == ["zvc", "zvc"]
    assert [r.codec for r in records(inner)] == ["raw"]


def test_a_session_can_be_entered_again_but_not_twice_at_once():
    x = leaf(100)
    session = offload()
    for _ in range(2):
        with session:
            y = (x * 2).sin()
            with pytest.raises(RuntimeError, match="already open"), session:
                pass
        y.sum().backward()
    assert len(records(session)) == 2


def test_tensors_are_cut_into_frames():
    with offload(frame_bytes=8192) as one, offload(frame_bytes=8192) as many:
        (leaf(5000) * 2).sin().sum().backward()
    with one:
        (leaf(2000) * 2).sin().sum().backward()
    overhead = [r.stored_bytes - r.raw_bytes for s in (one, many) for r in records(s)]
    assert overhead[1] > 2 * overhead[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"codec": "lz4"}, "unknown codec 'lz4'"),
        ({"codec": codecs.Pool(2)}, r"codec Pool\(k=2\) is lossy; lossless are"),
        ({"backend": "gpu"}, "unknown backend 'gpu'"),
        ({"min_bytes": -1}, "min_bytes is -1"),
        ({"frame_bytes": 100}, "frame_bytes is 100"),
        ({"frame_bytes": 0}, "frame_bytes is 0"),
        ({"min_ratio": -1}, "min_ratio is -1"),
    ],
)
def test_wrong_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        offload(**options)


def test_what_is_not_a_model_is_named():
    with pytest.raises(TypeError, match=r"expected a torch.nn.Module or None, got str"):
        offload("resnet18")


def test_a_report_before_backward_says_so():
    model = networks.relu_cnn()
    with offload(model, backend="board", break_even_bytes=0) as session:
        model(networks.images())
    assert "GB/s in, nothing has come back yet (modelled)" in str(session.report())


def test_report():
    model = networks.relu_cnn()
    session = offload(model, backend="board", break_even_bytes=0, verify=True)
    networks.step(model, networks.images(), session)
    report = session.report()
    totals = report.totals()
    assert totals["tensors"] == len(report.records)
    assert totals["raw_bytes"] == sum(r.raw_bytes for r in report.records)
    assert totals["timing"] == "modelled"
    assert totals["bit_identical"] is True
    assert totals["gradients_identical"] is None
    assert 0 < totals["fabric_compress_gb_per_s"] <= 4
    assert all(r.compress_cycles and r.decompress_cycles for r in report.records)
    assert {"0", "2", "3", "8"} <= {r.module for r in report.records}
    assert "emulated FPGA board" in str(report)
    assert len(str(report).splitlines()) > len(report.records)


def test_a_small_view_does_not_keep_a_large_storage():
    x = leaf(100_000)
    with offload(min_bytes=8192) as session:
        y = (x * 2)[:10].sin().sum()
    assert session.held_bytes < 1000
    y.backward()
    assert torch.equal(x.grad[:10], 2 * (2 * x.detach()[:10]).cos())


def kept_or_not(x, **options):
    """The record of a session on the CPU that saves ``x`` twice, after backward."""
    weight = torch.ones_like(x).requires_grad_()
    with offload(**{"min_ratio": 1.05, **options}) as session:
        y = (weight * x).sum() + (weight * x).sum()
    held = session.held_bytes
    y.backward()
    assert torch.equal(weight.grad, 2 * x)
    (record,) = session.report().records
    return record, held, session.report().kept


def test_what_hardly_shrinks_stays_as_it_is():
    """With zvc, dense data would cost time and save nothing; zve packs its exponents."""
    dense = torch.randn(100_000)
    record, held, kept = kept_or_not(dense)
    assert (record.backend, record.stored_bytes, record.saves) == ("kept", 400_000, 2)
    assert held == 400_000
    assert kept["dense"] == 2
    assert kept_or_not(dense, codec="zve")[0].backend == "native"
    assert kept_or_not(dense, min_ratio=0)[0].backend == "native"
    assert kept_or_not(dense.relu())[0].backend == "native"


def test_an_in_place_change_of_what_is_kept_is_detected():
    w = leaf(100_000)
    with offload(min_ratio=1.05):
        h = w * 2
        y = h.sin()
        h.add_(1)
    loss = y.sum()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()

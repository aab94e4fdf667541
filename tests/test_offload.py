"""`actdma.offload`: gradients are those of the plain run, to the bit."""

import copy

import pytest
import torch
from torch import nn

import actdma
import networks
from actdma.measure import identical

BACKENDS = ("native", "board")
NETWORKS = {
    "relu_cnn": networks.relu_cnn,
    "resnet": networks.resnet,
    "transformer": networks.Transformer,
}


@pytest.fixture(params=BACKENDS)
def backend(request):
    return request.param


def offload(model=None, **options):
    """A session that packs even the smallest tensor, on the CPU unless told otherwise."""
    return actdma.offload(model, **{"backend": "native", "min_bytes": 1, "verify": True, **options})


def same_gradients(a, b):
    return a.keys() == b.keys() and all(identical(a[name], b[name]) for name in a)


@pytest.mark.parametrize("inside", [False, True], ids=["outside", "inside"])
@pytest.mark.parametrize("network", NETWORKS)
def test_gradients_are_bit_identical(network, inside, backend):
    torch.manual_seed(0)
    model, x = NETWORKS[network](), networks.images()
    plain = networks.step(copy.deepcopy(model), x)
    session = offload(model, backend=backend)
    assert same_gradients(plain, networks.step(model, x, session, inside=inside))
    report = session.report()
    assert report.records
    assert report.bit_identical()


@pytest.mark.parametrize(
    ("codec", "floats", "integers"),
    [
        ("auto", "zve", "ints"),
        ("zve", "zve", "ints"),
        ("ints", "zve", "ints"),
        ("rle", "rle", "rle"),
    ],
)
def test_a_dtype_that_the_codec_does_not_take_goes_through_the_best(codec, floats, integers):
    model, x = networks.relu_cnn(), networks.images()
    plain = networks.step(copy.deepcopy(model), x)
    session = offload(model, codec=codec)
    assert same_gradients(plain, networks.step(model, x, session))
    used = {r.dtype: r.codec for r in session.report().records}
    assert (used["float32"], used["int64"]) == (floats, integers)


def test_gradients_of_efficientnet_lite0(backend):
    model, x = networks.efficientnet_lite0(), networks.images(2, 64)
    plain = networks.step(copy.deepcopy(model), x)
    assert same_gradients(plain, networks.step(model, x, offload(model, backend=backend)))


@pytest.mark.slow
def test_gradients_of_efficientnet_lite0_at_full_size(backend):
    model, x = networks.efficientnet_lite0(), networks.images(4, 224)
    plain = networks.step(copy.deepcopy(model), x)
    assert same_gradients(plain, networks.step(model, x, offload(model, backend=backend)))


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_gradients_with_either_memory_format(memory_format):
    model = networks.resnet().to(memory_format=memory_format)
    x = networks.images().to(memory_format=memory_format)
    plain = networks.step(copy.deepcopy(model), x)
    assert same_gradients(plain, networks.step(model, x, offload(model)))


def test_dropout_draws_the_same_numbers():
    x = torch.randn(64, 64, requires_grad=True)

    def gradient(session):
        torch.manual_seed(3)
        with session:
            y = nn.functional.dropout(x * 2, 0.5)
        return torch.autograd.grad(y.square().sum(), x)[0]

    plain = gradient(torch.enable_grad())
    assert identical(plain, gradient(offload()))


def test_autocast():
    model, x = networks.relu_cnn(), networks.images()

    def gradients(model, session):
        with torch.autocast("cpu", torch.bfloat16):
            return networks.step(model, x, session)

    plain = gradients(copy.deepcopy(model), None)
    session = offload(model)
    assert same_gradients(plain, gradients(model, session))
    assert "bfloat16" in {r.dtype for r in session.report().records}


def test_compiled_model():
    model, x = networks.relu_cnn(), networks.images()
    plain = networks.step(copy.deepcopy(model), x)
    session = offload(model)
    compiled = torch.compile(model, backend="aot_eager")
    # Compiled or not, the inputs of the very same operators are saved; names differ.
    got = networks.step(compiled, x, session)
    assert all(map(identical, plain.values(), got.values()))
    assert session.report().bit_identical()


def test_retain_graph():
    x = torch.randn(100, requires_grad=True)
    with offload() as session:
        y = (x * 2).exp().sum()
    first = torch.autograd.grad(y, x, retain_graph=True)[0]
    second = torch.autograd.grad(y, x)[0]
    assert identical(first, second)
    assert [r.decompressions for r in session.report().records] == [2]


@pytest.mark.parametrize("inside", [False, True], ids=["outside", "inside"])
@pytest.mark.parametrize("min_bytes", [1, 1 << 20], ids=["packed", "kept"])
def test_double_backward(inside, min_bytes):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(20, 30), nn.Tanh(), nn.Linear(30, 1), nn.Softplus())
    x = torch.randn(8, 20, requires_grad=True)

    def penalty(session, inside):
        with session:
            y = model(x).sum()
            if inside:
                gradient = torch.autograd.grad(y, x, create_graph=True)[0]
        if not inside:
            gradient = torch.autograd.grad(y, x, create_graph=True)[0]
        return torch.autograd.grad(gradient.square().sum(), [*model.parameters()])

    plain = penalty(torch.enable_grad(), inside)
    assert all(map(identical, plain, penalty(offload(min_bytes=min_bytes), inside)))


def test_gradcheck():
    x = torch.randn(4, 5, dtype=torch.float64, requires_grad=True)

    def through_session(x):
        with offload():
            return (x.exp() * x.sin()).sum(0)

    assert torch.autograd.gradcheck(through_session, x)
    assert torch.autograd.gradgradcheck(through_session, x)

"""`offload(lossy=)`: weight gradients of a lossy input, everything else as in the plain run."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import actdma
from sessions import offload, records


def lossy_map(codec, x):
    """What comes back of ``x``, by the codec alone."""
    return actdma.decompress(actdma.compress(x, codec, "reference"))


def step(model, x, **options):
    model = copy.deepcopy(model)
    x = x.clone(memory_format=torch.preserve_format).requires_grad_()
    if options:
        with offload(model, **options) as session:
            y = model(x)
    else:
        session, y = None, model(x)
    torch.manual_seed(3)
    y.backward(torch.randn_like(y))
    return y.detach(), x.grad, dict(model.named_parameters()), session


CONVS = {
    "plain": nn.Conv2d(6, 8, 3, padding=1),
    "strided": nn.Conv2d(6, 8, 3, stride=2),
    "dilated": nn.Conv2d(6, 8, 3, dilation=2, bias=False),
    "grouped": nn.Conv2d(6, 9, 3, groups=3),
    "pointwise": nn.Conv2d(6, 8, 1),
    "padded as a ring": nn.Conv2d(6, 8, 3, padding=1, padding_mode="circular"),
}


@pytest.mark.parametrize("order", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("k", [2, 4])
@pytest.mark.parametrize("name", CONVS)
def test_only_the_weights_gradient_of_a_pooled_convolution_differs(name, k, order):
    torch.manual_seed(0)
    conv = CONVS[name].to(memory_format=order)
    x = torch.randn(3, 6, 13, 11).contiguous(memory_format=order)
    y, dx, parameters, session = step(conv, x, lossy={nn.Conv2d: actdma.Pool(k)})
    plain_y, plain_dx, plain, _ = step(conv, x)
    assert torch.equal(y, plain_y)
    assert torch.equal(dx, plain_dx)
    assert conv.bias is None or torch.equal(parameters["bias"].grad, plain["bias"].grad)
    seen = F.pad(x, (1, 1, 1, 1), "circular") if conv.padding_mode == "circular" else x
    padding = 0 if conv.padding_mode == "circular" else conv.padding
    pooled = lossy_map(actdma.Pool(k), seen).contiguous(memory_format=order)
    torch.manual_seed(3)
    expected = torch.nn.grad.conv2d_weight(
        pooled,
        conv.weight.shape,
        torch.randn_like(y),
        conv.stride,
        padding,
        conv.dilation,
        conv.groups,
    )
    torch.testing.assert_close(parameters["weight"].grad, expected)
    (record,) = records(session)
    assert record.codec == "pool"
    assert record.stored_bytes < record.plain_bytes


def test_a_lossy_rule_that_loses_nothing_gives_the_plain_bits():
    x = torch.randn(2, 6, 6, 6).repeat_interleave(2, 2).repeat_interleave(2, 3)
    conv = CONVS["plain"]
    *got, parameters, _ = step(conv, x, lossy={"": actdma.Pool(2), "*": actdma.Pool(2)})
    *plain, expected, _ = step(conv, x)
    assert all(torch.equal(a, b) for a, b in zip(got, plain, strict=True))
    assert torch.equal(parameters["weight"].grad, expected["weight"].grad)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_only_the_weights_gradient_of_a_block_sparse_linear_layer_differs(dtype):
    torch.manual_seed(0)
    linear, x = nn.Linear(70, 33).to(dtype), torch.randn(5, 20, 70, dtype=dtype)
    codec = actdma.Bsr(16, density=0.3)
    y, dx, parameters, session = step(linear, x, lossy={"Linear": codec, nn.Linear: codec})
    plain_y, plain_dx, plain, _ = step(linear, x)
    assert torch.equal(y, plain_y)
    torch.testing.assert_close(dx, plain_dx)
    torch.testing.assert_close(parameters["bias"].grad, plain["bias"].grad)
    torch.manual_seed(3)
    g = torch.randn_like(y).reshape(-1, 33).float()
    expected = g.T @ lossy_map(codec, x).reshape(-1, 70).float()
    torch.testing.assert_close(parameters["weight"].grad, expected.to(dtype))
    (record,) = records(session)
    assert record.codec == "bsr"
    assert record.stored_bytes < 0.5 * record.plain_bytes


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1), nn.ReLU()
        )
        self.head = nn.Conv2d(8, 4, 1)

    def forward(self, x):
        return self.head(self.body(x)).flatten(1)


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("backend", ["native", "reference", "board"])
def test_all_backends_hold_the_same_and_a_relu_keeps_its_mask(backend, exact):
    torch.manual_seed(0)
    model, x = Net(), torch.randn(2, 3, 16, 16)
    rules = {"head": None, nn.Conv2d: actdma.Pool(2)}
    chosen = actdma.open_board("emulated") if backend == "board" else backend
    y, dx, parameters, session = step(
        model, x, lossy=rules, exact=exact, backend=chosen, break_even_bytes=0
    )
    plain_y, plain_dx, plain, _ = step(model, x)
    assert torch.equal(y, plain_y)
    assert torch.equal(dx, plain_dx)
    assert torch.equal(parameters["head.weight"].grad, plain["head.weight"].grad)
    assert not torch.equal(parameters["body.2.weight"].grad, plain["body.2.weight"].grad)
    *_, native, _ = step(model, x, lossy=rules, exact=exact)
    assert all(torch.equal(p.grad, native[name].grad) for name, p in parameters.items())
    forms = [r.form for r in records(session)]
    assert sorted(forms) == ["Pool(k=2)", "Pool(k=2)", "sign", "values"]  # those of the head
    if backend == "board":
        chosen.close()


def test_what_can_be_made_again_is_not_lossy():
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Conv2d(8, 4, 3))
    x = torch.randn(2, 3, 12, 12)
    *_, parameters, _ = step(model, x, exact=True, lossy={"2": actdma.Pool(2)})
    *_, plain, _ = step(model, x)
    assert all(torch.equal(p.grad, plain[name].grad) for name, p in parameters.items())


def test_maps_of_one_element_and_dtypes_that_the_codec_does_not_take_keep_all_bits():
    for conv, x in (
        (nn.Conv2d(30, 8, 1), torch.randn(3, 30, 1, 1)),
        (nn.Conv2d(3, 8, 3).double(), torch.randn(3, 3, 8, 8, dtype=torch.float64)),
    ):
        *_, parameters, _ = step(conv, x, lossy={nn.Conv2d: actdma.Pool(2)})
        *_, plain, _ = step(conv, x)
        assert torch.equal(parameters["weight"].grad, plain["weight"].grad)


def test_autocast_holds_the_copy_lossy():
    torch.manual_seed(0)
    model, x = Net(), torch.randn(2, 3, 16, 16)
    session = offload(model, lossy={nn.Conv2d: actdma.Pool(2)}, exact=True)
    with torch.autocast("cpu", torch.bfloat16), session:
        y = model(x)
    y.float().sum().backward()
    pooled = [r for r in records(session) if r.codec == "pool"]
    assert [r.dtype for r in pooled] == ["bfloat16"] * len(pooled)
    assert len(pooled) >= 2


@pytest.mark.parametrize(
    ("lossy", "message"),
    [
        ([actdma.Pool(2)], "lossy is a list, expected a mapping"),
        ({3: actdma.Pool(2)}, "lossy has the key 3"),
        ({int: actdma.Pool(2)}, "lossy has the key <class 'int'>"),
        ({"*": "pool"}, "lossy has 'pool' for '\\*', allowed are Pool, Bsr and None"),
    ],
)
def test_what_is_no_rule_is_named(lossy, message):
    with pytest.raises(TypeError, match=message):
        offload(nn.Identity(), lossy=lossy)


class Planned(nn.Module):
    """Rules for: a layer whose input is made again, one whose input another holds, one that fits,
    and one of a dtype that no codec takes."""

    def __init__(self):
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8))
        self.again = nn.Conv2d(8, 8, 3)
        self.shared = nn.Conv2d(8, 8, 3)
        self.wide = nn.Linear(8, 4).double()

    def forward(self, x):
        y = self.again(self.first(x))
        y = y.sigmoid() + 0 * self.shared(y.sigmoid())[..., :1, :1]
        return self.wide(y.mean((2, 3)).double())


def test_rules_without_gain_are_reported_with_the_reason():
    x = torch.randn(2, 3, 12, 12)
    rules = {nn.Conv2d: actdma.Pool(2), nn.Linear: actdma.Bsr(4, density=0.5)}
    *_, session = step(Planned(), x, exact=True, lossy=rules)
    reasons = {module: (rule, why) for module, rule, why in session.report().no_gain}
    assert reasons["again"] == ("Pool(k=2)", "its input is made again")
    assert reasons["shared"][1] == "its input is held with all its bits for others"
    assert "does not take torch.float64" in reasons["wide"][1]
    assert "first.0" not in reasons
    assert "no gain from Pool(k=2) at again: its input is made again" in str(session.plan())
    assert session.report().totals()["no_gain"][0].keys() == {"module", "rule", "why"}
